"""Finding the rows of a table that changed, by reading a *fingerprint* of each.

A fingerprint is a line of text of the columns that show a change. The database puts many into one text, since
few long texts are read and compared far more cheaply than many short ones. Fingerprints are compared with the
last ones for equality and never for order: the stamps in them come from several clocks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from scheduler.errors import BerthError

# Rows to one text.
BUCKET = 64

# Separators of columns and of rows. Names that have them in spite of their purpose are read without.
COLUMN, ROW = "\x1f", "\x1e"


class CutShort(BerthError):
    """The database gave less of a text than there is: MySQL's group_concat_max_len is too small."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened since the last time.

    The printed texts of rows that are new or changed, by id; the ids of those that are gone; ``among`` how
    many rows there are.
    """

    changed: Mapping[int, Sequence[str]]
    gone: set[int]
    among: int

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


class Bucket:
    """The fingerprints of some rows: as one text, and by id once that is asked for."""

    __slots__ = ("_lines", "count", "text")

    def __init__(self, text: str = "", count: int = 0) -> None:
        self.text = text
        self.count = count
        self._lines: dict[int, str] | None = None

    @property
    def lines(self) -> dict[int, str]:
        """Raises ``CutShort`` if the text lacks rows."""
        if self._lines is None:
            lines = self.text.split(ROW) if self.count else []
            if len(lines) != self.count or not all(line.endswith(COLUMN) for line in lines):
                raise CutShort(f"{len(lines)} of {self.count} rows came")
            self._lines = {int(line[: line.index(COLUMN)]): line for line in lines}
        return self._lines


EMPTY = Bucket()


class Fingerprints:
    """The fingerprints of one table's rows as last accepted. Not to be used by two threads at once."""

    def __init__(
        self, table: sa.Table, columns: Iterable[str], live: Iterable[sa.ColumnElement[bool]]
    ) -> None:
        """``live``: conditions on the rows."""
        self._query = query_of(table, columns).where(*live)
        self._buckets: Mapping[int, Bucket] = {}
        self._next: Mapping[int, Bucket] = {}

    def poll(self, connection: Connection) -> Changes:
        """What differs from the fingerprints that were last accepted."""
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
        """The last changes have been seen to; from now on they are none."""
        self._buckets = self._next


def query_of(table: sa.Table, columns: Iterable[str]) -> sa.Select:
    """Number, count of rows, and text of each bucket."""
    texts = [_text(table.c[name]) for name in ("id", *columns)]
    line = reduce(add, [part for text in texts for part in (text, COLUMN)])
    bucket = (table.c.id // BUCKET).label("bucket")
    return sa.select(bucket, sa.func.count(), sa.func.aggregate_strings(line, ROW)).group_by(bucket)


def _text(column: sa.Column) -> sa.ColumnElement[str]:
    """The column as text without separators, '' for null."""
    text: sa.ColumnElement[str] = sa.cast(column, sa.String(255))
    if isinstance(column.type, sa.String):
        text = sa.func.replace(sa.func.replace(text, COLUMN, " "), ROW, " ")
    return sa.func.coalesce(text, "", type_=sa.String)
