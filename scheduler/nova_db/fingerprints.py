"""Finding the rows of a table that changed, by reading a *fingerprint* of each.

A fingerprint is the id of a row and a hash, which the database computes, of the columns that show a change.
The database returns those of all rows as one text, which is the cheapest way to say something about each row:
one text is read and compared much faster than many rows. There is no GROUP BY, for which MySQL would sort all
rows with all columns. Fingerprints are compared for equality with those of the last reading, never for order:
the stamps among the columns are from several clocks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import chain
from operator import add
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from scheduler.errors import BerthError
from scheduler.nova_db.schema import chunks

# Separators of columns and of rows. In names that contain them they are replaced by blanks.
COLUMN, ROW = "\x1f", "\x1e"


class TruncatedText(BerthError):
    """The database returned only a part of a text: MySQL's group_concat_max_len is too small."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences between two readings.

    Attributes:
        changed: The ids of rows that are new or changed.
        gone: The ids of rows that are no longer there.
        row_count: How many rows there are now.
    """

    changed: set[int]
    gone: set[int]
    row_count: int

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


class FingerprintText(NamedTuple):
    """The fingerprints of all rows as one text.

    Attributes:
        row_count: How many rows there are.
        text: Their fingerprints, in whatever order; None without rows.
    """

    row_count: int
    text: str | None


@dataclass(frozen=True, slots=True)
class _Reading:
    """The fingerprints of all rows: as one text, in whatever order (None without rows), and one by one."""

    text: str | None = None
    lines: frozenset[str] = frozenset()


class Fingerprints:
    """The fingerprints of one table's rows as last accepted. One thread at a time may use it."""

    def __init__(
        self, table: sa.Table, columns: Iterable[str], live: Iterable[sa.ColumnElement[bool]]
    ) -> None:
        """Track a table.

        Args:
            table: The table; it has an integer column ``id``.
            columns: The names of the columns that show a change.
            live: Conditions that all tracked rows meet.
        """
        self._table = table
        self._columns = tuple(table.c[name] for name in columns)
        self._live = tuple(live)
        self._queries: dict[str, sa.Select] = {}
        self._accepted = self._next = _Reading()

    def read(self, connection: Connection) -> FingerprintText:
        """Return the fingerprints that the rows have now."""
        return FingerprintText(*connection.execute(self._query(connection.dialect.name)).one())

    def compare(self, found: FingerprintText) -> Changes:
        """Return what differs from the fingerprints that were last accepted.

        Rows have to be read after their fingerprints: what changes between the two differs next time, too.

        Args:
            found: What ``read`` has returned, here or in another process.

        Raises:
            TruncatedText: The text lacks rows.
        """
        count, text = found
        before = self._accepted
        self._next = before if text == before.text else _Reading(text, frozenset(_lines(text, count)))
        changed = _ids(self._next.lines - before.lines)
        return Changes(changed, _ids(before.lines - self._next.lines) - changed, count)

    def accept(self) -> None:
        """Accept what was compared last: what changed before it was read is not returned again."""
        self._accepted = self._next

    def _query(self, dialect: str) -> sa.Select:
        if dialect not in self._queries:
            line = _fingerprint(dialect, self._table.c.id, self._columns)
            self._queries[dialect] = _joined(line).where(*self._live)
        return self._queries[dialect]


def read_texts(
    connection: Connection,
    table: sa.Table,
    columns: Iterable[str],
    live: Iterable[sa.ColumnElement[bool]],
    ids: Iterable[int] | None = None,
) -> Mapping[int, Sequence[str]]:
    """Return columns of rows as texts, by id; '' for null.

    Drivers written in Python need longer for the values of a row than to cut a text that has all of them.

    Args:
        connection: The connection.
        table: The table; it has an integer column ``id``.
        columns: The names of the columns.
        live: Conditions that the rows meet.
        ids: The ids of the rows; None: all.

    Raises:
        TruncatedText: A text lacks rows.
    """
    texts = [_text(table.c[name]) for name in ("id", *columns)]
    return _read(connection, table, _joined(_ended(texts)).where(*live), ids)


def _read(
    connection: Connection, table: sa.Table, query: sa.Select, ids: Iterable[int] | None
) -> dict[int, Sequence[str]]:
    pieces = [query] if ids is None else [query.where(table.c.id.in_(piece)) for piece in chunks(ids)]
    found: dict[int, Sequence[str]] = {}
    for piece in pieces:
        count, text = connection.execute(piece).one()
        for line in _lines(text, count):
            number, *values, _ = line.split(COLUMN)
            found[int(number)] = values
    return found


def read_hashes(
    connection: Connection, table: sa.Table, columns: tuple[sa.Column, ...], ids: Iterable[int]
) -> Mapping[int, str]:
    """Return the hash of these columns (see ``row_hash``) of the rows with these ids, by id."""
    line = _fingerprint(connection.dialect.name, table.c.id, columns)
    return {number: digest for number, (digest,) in _read(connection, table, _joined(line), ids).items()}


def _joined(line: sa.ColumnElement[str]) -> sa.Select:
    """Return the query for the number of rows and their lines as one text."""
    return sa.select(sa.func.count(), sa.func.aggregate_strings(line, ROW))


def _lines(text: str | None, count: int) -> list[str]:
    lines = text.split(ROW) if text else []
    if len(lines) != count or (lines and not lines[-1].endswith(COLUMN)):
        raise TruncatedText(f"{len(lines)} of {count} rows arrived")
    return lines


def _ids(lines: Iterable[str]) -> set[int]:
    return {int(line[: line.index(COLUMN)]) for line in lines}


@cache  # SQLAlchemy needs milliseconds to put the expression for SQLite together
def row_hash(dialect: str, columns: tuple[sa.Column, ...]) -> sa.ColumnElement[Any]:
    """Return the expression for a hash of these columns of a row: a number, or a short text.

    Two different rows have the same hash once in four billion times. SQLite has no hash: there the columns
    themselves are returned, in digits since names may contain separators.

    Args:
        dialect: The name of the database's dialect.
        columns: The columns.
    """
    if dialect == "sqlite":
        return sa.func.hex(_ended([_text(column) for column in columns]), type_=sa.String)
    digest = sa.func.hashtext if dialect == "postgresql" else sa.func.crc32
    # concat_ws leaves out nulls, and no separator, since they are among the values
    return digest(sa.func.concat_ws("", *chain.from_iterable((column, COLUMN) for column in columns)))


def _fingerprint(
    dialect: str, number: sa.Column[int], columns: tuple[sa.Column, ...]
) -> sa.ColumnElement[str]:
    digest = row_hash(dialect, columns)
    if dialect == "sqlite":
        return _ended([_text(number), digest])
    return sa.func.concat_ws(COLUMN, number, digest, "", type_=sa.String)


def _ended(texts: Iterable[sa.ColumnElement[str]]) -> sa.ColumnElement[str]:
    """Return texts in a row, a separator after each of them."""
    return reduce(add, [part for text in texts for part in (text, sa.literal(COLUMN))])


def _text(column: sa.Column) -> sa.ColumnElement[str]:
    """Return the column as text without separators, '' for null."""
    text: sa.ColumnElement[str] = sa.cast(column, sa.String(255))
    if isinstance(column.type, sa.String):
        text = sa.func.replace(sa.func.replace(text, COLUMN, " "), ROW, " ")
    return sa.func.coalesce(text, "", type_=sa.String)
