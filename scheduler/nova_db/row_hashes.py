"""Hashes of rows, which the database computes: what changed is found without reading all rows."""

from functools import cache
from itertools import chain
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

# Ends each column in the text of a row that is hashed.
SEPARATOR = "\x1f"


@cache  # SQLAlchemy needs milliseconds to put the expression together
def row_hash(dialect: str, columns: tuple[sa.Column, ...]) -> sa.ColumnElement[Any]:
    """Return the expression for a hash of these columns of a row, a number that the database computes.

    Two different rows have the same hash once in four billion times.

    Args:
        dialect: The name of the database's dialect.
    """
    if dialect == "sqlite":
        return sa.func.row_hash(*columns)  # which ``engines`` adds
    digest = sa.func.hashtext if dialect == "postgresql" else sa.func.crc32
    # concat_ws leaves out nulls, and no separator, since they are among the values
    return digest(sa.func.concat_ws("", *chain.from_iterable((column, SEPARATOR) for column in columns)))


def checksum(
    connection: Connection, *columns: sa.Column, where: sa.ColumnElement[bool] | None = None
) -> tuple[int, int]:
    """Return the number of rows of a table, and the sum of their hashes.

    Args:
        where: Which rows; None: all.
    """
    digest = row_hash(connection.dialect.name, columns)
    query = sa.select(sa.func.count(), sa.func.sum(digest))
    count, total = connection.execute(query if where is None else query.where(where)).one()
    return count, int(total or 0)
