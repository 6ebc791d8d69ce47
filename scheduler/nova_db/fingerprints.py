"""Finding the rows of a table that changed, by reading a *fingerprint* of each.

A fingerprint is a line of text made of the columns that show a change. The database joins many of them into
one text, since few long texts are read and compared much faster than many short ones. Fingerprints are
compared for equality with those of the last reading, never for order: their stamps are from several clocks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from scheduler.errors import BerthError

# Rows in one text.
BUCKET = 64

# Separators of columns and of rows. In names that contain them they are replaced by blanks.
COLUMN, ROW = "\x1f", "\x1e"


class TruncatedText(BerthError):
    """The database returned only a part of a text: MySQL's group_concat_max_len is too small."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences between two readings.

    Attributes:
        changed: The columns, as texts, of rows that are new or changed, by id.
        gone: The ids of rows that are no longer there.
        row_count: How many rows there are now.
    """

    changed: Mapping[int, Sequence[str]]
    gone: set[int]
    row_count: int

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


class Bucket:
    """The fingerprints of some rows as one text, and by id on request."""

    __slots__ = ("_lines", "count", "text")

    def __init__(self, text: str = "", count: int = 0) -> None:
        self.text = text
        self.count = count
        self._lines: dict[int, str] | None = None

    @property
    def lines(self) -> dict[int, str]:
        """The fingerprints by id.

        Raises:
            TruncatedText: The text lacks rows.
        """
        if self._lines is None:
            lines = self.text.split(ROW) if self.count else []
            if len(lines) != self.count or not all(line.endswith(COLUMN) for line in lines):
                raise TruncatedText(f"{len(lines)} of {self.count} rows arrived")
            self._lines = {int(line[: line.index(COLUMN)]): line for line in lines}
        return self._lines


EMPTY = Bucket()


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
        self._query = query_of(table, columns).where(*live)
        self._buckets: Mapping[int, Bucket] = {}
        self._next: Mapping[int, Bucket] = {}

    def poll(self, connection: Connection) -> Changes:
        """Return what differs from the fingerprints that were last accepted."""
        found = {number: Bucket(text, count) for number, count, text in connection.execute(self._query)}
        self._next = found
        changed: dict[int, Sequence[str]] = {}
        gone: set[int] = set()
        for number in self._buckets.keys() | found.keys():
            before, bucket = self._buckets.get(number, EMPTY), found.get(number, EMPTY)
            if bucket.text == before.text:
                found[number] = before
                continue
            gone |= before.lines.keys() - bucket.lines.keys()
            for row_id, line in bucket.lines.items():
                if before.lines.get(row_id) != line:
                    changed[row_id] = line.split(COLUMN)[1:-1]
        return Changes(changed, gone, sum(bucket.count for bucket in found.values()))

    def accept(self) -> None:
        """Accept the fingerprints of the last poll: what changed before it is not returned again."""
        self._buckets = self._next


def query_of(table: sa.Table, columns: Iterable[str]) -> sa.Select:
    """Return the query for number, count of rows and text of each bucket."""
    texts = [_text(table.c[name]) for name in ("id", *columns)]
    separator = sa.literal(COLUMN)
    line = reduce(add, [part for text in texts for part in (text, separator)])
    bucket = (table.c.id // BUCKET).label("bucket")
    return sa.select(bucket, sa.func.count(), sa.func.aggregate_strings(line, ROW)).group_by(bucket)


def _text(column: sa.Column) -> sa.ColumnElement[str]:
    """Return the column as text without separators, '' for null."""
    text: sa.ColumnElement[str] = sa.cast(column, sa.String(255))
    if isinstance(column.type, sa.String):
        text = sa.func.replace(sa.func.replace(text, COLUMN, " "), ROW, " ")
    return sa.func.coalesce(text, "", type_=sa.String)
