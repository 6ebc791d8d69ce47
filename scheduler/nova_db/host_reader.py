"""Reads the hosts of all cells, and makes tables of them (spec: host-state-and-cells 2.3, 2.4).

A cell that cannot be read does not keep the others from being read: its hosts stay as they were read last,
for a bounded time.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
import math
from operator import is_
import threading
import time
from typing import Any, NamedTuple

from oslo_db.exception import DBConnectionError
from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.bounds.waits import waiting_for
from scheduler.hosts.rows import ServiceRow
from scheduler.hosts.table import HostTable
from scheduler.logs import OutageLog
from scheduler.nova_db.cells import Cell, Cells
from scheduler.nova_db.change_tracking import CellRows, CellTracker
from scheduler.nova_db.partition_hosts import PartitionHosts
from scheduler.nova_db.scatter_gather import CellAnswer, CellCalls, CellUnavailable
from scheduler.nova_db.schema import compute_nodes

LOG = logging.getLogger(f"nova.{__name__}")

# Seconds between two attempts of requests to read cells that are left out.
REREAD_INTERVAL = 1.0

# Steps, in seconds, in which the heartbeats of services that cannot be read are moved on.
AGE_STEP = 5.0


class CellReading(NamedTuple):
    """How long ago a cell was read.

    Attributes:
        cell: The cell.
        usable: Whether its hosts are used.
        age: Seconds; None if it was never read.
    """

    cell: Cell
    usable: bool
    age: float | None


class HostReader:
    """Keeps the rows of each cell up to date. One thread at a time calls ``read`` and ``next_table``.

    Any thread may call the other methods.

    Attributes:
        is_complete: Whether the last ``read`` had an answer of each cell.
        lowest_version: The lowest version of any compute service that is not forced down; 0 if none is known.
    """

    def __init__(
        self,
        cells: Cells,
        calls: CellCalls,
        new_tracker: Callable[[Cell], CellTracker],
        partition: PartitionHosts,
        unread_max_age: Callable[[], float] = lambda: math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up the reader; nothing is read yet.

        Args:
            new_tracker: Returns what keeps the rows of a cell up to date, by the same clock.
            partition: The hosts that are read, and the aggregates that tables show.
            unread_max_age: Returns the seconds for which the hosts of a cell that cannot be read are used.
        """
        self._cells = cells
        self._calls = calls
        self._new_tracker = new_tracker
        self._partition = partition
        self._unread_max_age = unread_max_age
        self._clock = clock
        self._trackers: dict[Cell, CellTracker] = {}
        self._known: Sequence[CellRows] = ()
        self._wanted = math.inf
        self._read_at = -math.inf
        self.is_complete = False
        self.lowest_version = 0
        self._services: dict[tuple[str, str], ServiceRow] = {}
        self._reread_lock = threading.Lock()
        self._reread_due = float("-inf")
        self._unreadable = OutageLog(
            LOG, "Cannot read the hosts of cell %s", "Hosts of cell %s are read again", clock
        )

    def timeout(self) -> float:
        """Return the seconds in which a cell must have answered."""
        return self._calls.timeout()

    def read(self) -> None:
        """Read what changed in all cells; one that cannot be read is reported."""
        now = self._wanted = self._clock()
        cells = [cell for cell in self._cells.all if self._partition.has_cell(cell)]
        # A cell that was disabled or renamed is still the same database.
        trackers = {(cell.uuid, cell.url): tracker for cell, tracker in self._trackers.items()}
        self._trackers = {
            cell: trackers.get((cell.uuid, cell.url)) or self._new_tracker(cell) for cell in cells
        }
        answers = self._calls.scatter_gather(cells, self._update, probe=True)
        for cell in cells:
            self._report(cell, answers[cell.uuid].error)
        answered = [cell for cell in cells if answers[cell.uuid].error is None]
        self._read_at = min([now, *(self._trackers[cell].rows.read_at for cell in answered)])
        self.is_complete = len(answered) == len(cells)

    def next_table(self, previous: HostTable) -> HostTable:
        """Return the table of what ``read`` has found.

        Args:
            previous: The table before it. If nothing has changed, the next one has its content.
        """
        cells, read_at = list(self._trackers), self._read_at
        rows_of_cells = [self._rows_of(cell, read_at) for cell in cells]
        seen_since = min((rows.seen_since for rows in rows_of_cells if rows.seen_since), default=None)
        unread = frozenset(cell.uuid for cell in cells if not self._usable(cell))
        if (
            _all_are([rows.services for rows in rows_of_cells], [rows.services for rows in self._known])
            and _all_are([rows.nodes for rows in rows_of_cells], [rows.nodes for rows in self._known])
            and unread == previous.unread_cells
            and self._cells.disabled == previous.disabled_cells
            and self._partition.all_aggregates is previous.aggregates
        ):
            return previous.read_again(read_at, seen_since)
        table = self._table_of(
            rows_of_cells, read_at, previous=previous, unread_cells=unread, seen_since=seen_since
        )
        self._known = rows_of_cells  # not before there is a table of it
        return table

    def reread(self, cells: Iterable[Cell]) -> list[Cell]:
        """Read cells that were left out once more, for a request that needs their hosts.

        Requests that come at the same time share one attempt.

        Returns:
            The cells that still cannot be read. The next table has the hosts of the others.
        """
        cells = list(cells)
        with waiting_for("another request that reads cells again"), self._reread_lock:
            unread = [cell for cell in cells if not self._usable(cell)]
            if unread and self._clock() >= self._reread_due:
                self._calls.scatter_gather(unread, self._update, left_out_too=True)
                self._reread_due = self._clock() + REREAD_INTERVAL
            return [cell for cell in cells if not self._usable(cell)]

    def outside(self, uuids: Collection[str]) -> HostTable:
        """Return the hosts of other partitions among some resource providers; they are read now.

        Those in cells that cannot be read are not in it.
        """
        answers: Mapping[str, CellAnswer] = {}
        if uuids and self._partition.name:
            answers = self._calls.scatter_gather(self._cells.all, lambda cell: self._read_nodes(cell, uuids))
        rows_of_cells = [answer.value for answer in answers.values() if answer.value is not None]
        return HostTable(
            chain.from_iterable(rows.nodes.values() for rows in rows_of_cells),
            {key: each for rows in rows_of_cells for key, each in rows.services.items()},
            self._partition.all_aggregates,
            self._cells.disabled,
            self._clock(),
        )

    def cell_readings(self) -> list[CellReading]:
        """Return how long ago each cell was read; nothing is read."""
        now = self._clock()
        trackers = dict(self._trackers)
        ages = {cell: now - tracker.rows.read_at for cell, tracker in trackers.items()}
        return [
            CellReading(cell, self._usable(cell), None if age == math.inf else age)
            for cell, age in ages.items()
        ]

    def _update(self, cell: Cell) -> None:
        hosts = self._partition.names()
        if not self._trackers[cell].update(self._cells.engine(cell), hosts):
            # Not an answer: the other thread may hang.
            raise CellUnavailable(f"cell {cell} is being read by another thread")

    def _read_nodes(self, cell: Cell, uuids: Collection[str]) -> CellRows:
        """Return the rows of some compute nodes of a cell, whose hosts need not be in the partition."""
        columns = compute_nodes.c
        query = sa.select(columns.host).where(columns.deleted == 0)
        hosts = frozenset(row.host for row in self._cells.rows_with(cell, query, columns.uuid, uuids))
        tracker = self._new_tracker(cell)
        if hosts:
            tracker.update(self._cells.engine(cell), hosts)
        return tracker.rows

    def _table_of(self, known: Sequence[CellRows], read_at: float, **others: Any) -> HostTable:
        if not _all_are([rows.services for rows in known], [rows.services for rows in self._known]):
            self._services = {key: each for rows in known for key, each in rows.services.items()}
            versions = (each.version for each in self._services.values() if not each.forced_down)
            self.lowest_version = min(filter(None, versions), default=0)
        return HostTable(
            chain.from_iterable(rows.nodes.values() for rows in known),
            self._services,
            self._partition.all_aggregates,
            self._cells.disabled,
            read_at,
            **others,
        )

    def _rows_of(self, cell: Cell, now: float) -> CellRows:
        """Return the last rows of a cell; none if they are too old to be used."""
        return self._trackers[cell].rows_at(now, AGE_STEP) if self._usable(cell) else CellRows()

    def _usable(self, cell: Cell) -> bool:
        """Return whether the cell could be read the last time, or was not too long ago."""
        tracker = self._trackers.get(cell)
        if tracker is None or tracker.rows.read_at == -math.inf:
            return False
        read_at = tracker.rows.read_at
        return read_at >= self._wanted or self._clock() - read_at <= self._unread_max_age()

    def _report(self, cell: Cell, error: Exception | None) -> None:
        if error is None:
            self._unreadable.report_success(cell)
        elif not isinstance(error, CellUnavailable | DBConnectionError):  # the circuit breaker reports those
            self._unreadable.report_failure(error, cell)


def _all_are(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Return whether two sequences hold the same objects."""
    return len(some) == len(others) and all(map(is_, some, others))
