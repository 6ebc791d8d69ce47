"""Keeping the rows of a table by reading only those that changed (spec: host-state-and-cells 3.9).

A poll reads one short *print* a row: a text of the columns that show a change. Prints are compared with the
last ones for equality and never for order, since the stamps in them come from several clocks. Rows with a new
print are then read whole.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import add
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from scheduler.hosts.chunks import chunks

# Above this part of all rows, reading all of them is quicker than naming those that are wanted.
MOST = 0.3

# Where stamps are whole seconds, a second write within the second shows in no print. The row is read again so
# many seconds later.
SETTLED = 2.0


class TableFollower:
    """The live rows of one table in one database, by id. Not to be used by two threads at once."""

    def __init__(
        self,
        table: sa.Table,
        live: Iterable[sa.ColumnElement[bool]],
        printed: Iterable[str],
        columns: Iterable[sa.Column],
        unsettled: Callable[[Any], bool] = lambda _: False,
    ) -> None:
        """``live``: conditions on the rows; ``printed``: names of the columns that show a change.

        ``columns``: those of a whole row. ``unsettled``: whether a value may have been written to unseen.
        """
        live = list(live)
        self._id = table.c.id
        self._prints = sa.select(self._id, print_of(table.c[name] for name in printed)).where(*live)
        self._rows = sa.select(*columns).where(*live)
        self._unsettled = unsettled
        self._known: Mapping[int, str] = {}
        self._again: dict[int, float] = {}
        self.rows: Mapping[int, Any] = {}

    def read(self, connection: Connection, load: Callable[[sa.Row], Any]) -> None:
        """Bring ``rows`` up to date. If nothing changed they stay the same mapping.

        ``load`` makes a row's value, None for one that is of no use.
        """
        found = dict(connection.execute(self._prints).tuples().all())
        changed = [number for number, text in found.items() if self._known.get(number) != text]
        gone = self._known.keys() - found.keys()
        due = [number for number, when in self._again.items() if when <= time.monotonic()]
        if changed or gone or due:
            wanted = dict.fromkeys([*changed, *due])
            fresh = {row.id: load(row) for row in self._read_rows(connection, wanted, len(found))}
            self.rows = _merged(self.rows, found, fresh)
            self._look_again(changed, due)
        self._known = found

    def _read_rows(self, connection: Connection, wanted: Iterable[int], among: int) -> Iterable[sa.Row]:
        wanted = list(wanted)
        if len(wanted) > MOST * among:
            yield from connection.execute(self._rows)
            return
        for piece in chunks(wanted):
            yield from connection.execute(self._rows.where(self._id.in_(piece)))

    def _look_again(self, changed: Iterable[int], seen: Iterable[int]) -> None:
        for number in seen:
            del self._again[number]
        when = time.monotonic() + SETTLED
        self._again |= {n: when for n in changed if n in self.rows and self._unsettled(self.rows[n])}


def print_of(columns: Iterable[sa.Column]) -> sa.ColumnElement[str]:
    """One text of several columns: far cheaper to fetch than they are one by one."""
    texts = [sa.func.coalesce(sa.cast(column, sa.String(255)), "") for column in columns]
    return reduce(lambda left, right: add(add(left, "|"), right), texts)


def _merged(old: Mapping[int, Any], found: Mapping[int, str], fresh: Mapping[int, Any]) -> Mapping[int, Any]:
    """The values of the rows found, in stable order; one that was read again but is equal stays itself."""
    merged = {number: value for number, value in old.items() if number in found}
    for number, value in fresh.items():
        if value is None:
            merged.pop(number, None)
        elif number in found and merged.get(number) != value:
            merged[number] = value
    return old if merged == old else merged
