"""The one writer of the host table, and the tables that it publishes.

A request says how old its table may be. If the last one is older, the request waits for a refresh, together
with all others. A table past half its age is refreshed in the background, so that under load few requests
wait (spec: host-state-and-cells 2.3, 3.9).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
import math
import threading
import time
from typing import Any, NamedTuple

from oslo_db.exception import DBConnectionError
from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.background import BackgroundLoop
from scheduler.hosts.rows import ServiceRow
from scheduler.hosts.table import HostTable
from scheduler.logs import OutageLog, OutageLogs, RateLimitedLogger
from scheduler.nova_db.cells import Cell, Cells
from scheduler.nova_db.change_tracking import CellRows, CellTracker
from scheduler.nova_db.foreign_providers import ForeignProviders
from scheduler.nova_db.partition_hosts import PartitionHosts
from scheduler.nova_db.scatter_gather import CellAnswer, CellCalls, CellUnavailable
from scheduler.nova_db.schema import chunks, compute_nodes

LOG = logging.getLogger(__name__)

# Seconds between two attempts of requests to read cells that are left out.
REREAD_INTERVAL = 1.0

# Steps, in seconds, in which the heartbeats of services that cannot be read are moved on.
AGE_STEP = 5.0

# Seconds between readings when no request comes: the first one after a quiet time then finds few changes.
IDLE_INTERVAL = 10.0

# Seconds after which duplicate names that are still there are reported again.
DUPLICATES_INTERVAL = 86400.0


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


class HostStore:
    """Publishes host tables. ``start`` it before asking for any."""

    def __init__(
        self,
        cells: Cells,
        calls: CellCalls,
        new_tracker: Callable[[Cell], CellTracker],
        partition: PartitionHosts,
        max_age: Callable[[], float],
        on_publish: Callable[[HostTable], None] = lambda _table: None,
        unread_max_age: Callable[[], float] = lambda: math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up the writer; nothing is read yet.

        Args:
            cells: The cells to read.
            calls: How to call them.
            new_tracker: Returns what keeps the rows of a cell up to date, by the same clock.
            partition: The hosts that are read, and the aggregates that tables show.
            max_age: Returns the seconds that a table may be old if a request does not say.
            on_publish: Called with each new table, after requests have it.
            unread_max_age: Returns the seconds for which the hosts of a cell that cannot be read are used.
            clock: Seconds that only grow.
        """
        self._partition = partition
        self._cells = cells
        self._calls = calls
        self._new_tracker = new_tracker
        self._max_age = max_age
        self._on_publish = on_publish
        self._unread_max_age = unread_max_age
        self._reread_lock = threading.Lock()
        self._reread_due = float("-inf")
        self._clock = clock
        self._trackers: dict[Cell, CellTracker] = {}
        self._known: Sequence[CellRows] = ()
        self._table = HostTable((), {}, partition.all_aggregates, read_at=float("-inf"))
        self._changed = threading.Condition()
        self._wanted = clock()
        self._idle_until = float("-inf")
        self._stopped = False
        self._started_at = math.inf
        self._refreshed_at = math.inf
        self._loop = BackgroundLoop("host-table", self._refresh_if_due)
        self._foreign = ForeignProviders(clock)
        self._duplicates = RateLimitedLogger(LOG, DUPLICATES_INTERVAL, clock)
        self._unreadable = OutageLogs(LOG, "Cell %s cannot be read", "Cell %s can be read again", clock)
        self._late = OutageLog(
            LOG,
            "The hosts could not be read in time; the last known ones are used",
            "The hosts are read in time again",
            clock,
        )

    def __len__(self) -> int:
        """Return the number of compute nodes in the last table."""
        return len(self._table)

    def start(self) -> None:
        """Start the writer."""
        self._stopped = False
        self._started_at = self._clock()
        self._loop.start()

    def stop(self) -> None:
        """Stop the writer. Requests get the last table from then on."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._loop.stop()

    def clear_foreign_providers(self) -> None:
        """Look again for providers that were no compute nodes."""
        self._foreign.clear()

    def begin_reading(self) -> None:
        """Begin to read, if the next requests will want a newer table; do not wait for it."""
        with self._changed:
            self._want(self._clock(), self._max_age())

    def snapshot(self, max_age: float | None = None, arrived_at: float | None = None) -> HostTable:
        """Return a table. What cannot be read in time is not in it, or is as it was last read.

        Args:
            max_age: Seconds from the begin of its reading to the arrival of the request at most; 0: it begins
                after that.
            arrived_at: When the request arrived, in seconds of the clock; None: now.
        """
        max_age = self._max_age() if max_age is None else max_age
        arrived_at = self._clock() if arrived_at is None else arrived_at
        with self._changed:
            self._want(arrived_at, max_age)
            timeout = self._refresh_timeout()
            if self._changed.wait_for(lambda: self._is_fresh(arrived_at - max_age), timeout):
                self._late.report_success()
            else:
                self._late.report_failure(TimeoutError(f"no new table within {timeout:g} seconds"))
            return self._with_aggregates()

    def complete(self, table: HostTable, uuids: Iterable[str]) -> HostTable:
        """Look for compute nodes that a table lacks.

        A provider that is not in the table may be a node that was just created, or no compute node at all.

        Args:
            table: A table of this store.
            uuids: Uuids of root resource providers.

        Returns:
            A newer table if one of the providers is a compute node of some cell, else ``table``.
        """
        missing = [uuid for uuid in uuids if uuid not in table.row_of_uuid and uuid not in self._foreign]
        if not missing:
            return table
        answers = self._look_up(missing)
        if any(answer.value for answer in answers):
            table = self.snapshot(0)
        foreign = [uuid for uuid in missing if uuid not in table.row_of_uuid]
        self._foreign.add(foreign, certain=not any(answer.error for answer in answers))
        return table

    def table_of(self, hosts: Iterable[str]) -> HostTable:
        """Return a table of some service hosts of any partition; what cannot be read now is not in it."""
        wanted, begun = frozenset(hosts), self._clock()
        trackers = {cell: self._new_tracker(cell) for cell in self._cells.all}
        self._calls.scatter_gather(
            list(trackers), lambda cell: trackers[cell].update(self._cells.engine(cell), wanted)
        )
        return self._table_of([tracker.rows for tracker in trackers.values()], begun)

    def reread(self, cells: Iterable[Cell]) -> list[Cell]:
        """Read cells that were left out once more, for a request that needs their hosts.

        Requests that come at the same time share one attempt.

        Returns:
            The cells that still cannot be read. The next snapshot has the hosts of the others.
        """
        cells = list(cells)
        with self._reread_lock:
            unread = [cell for cell in cells if not self._usable(cell)]
            if unread and self._clock() >= self._reread_due:
                self._calls.scatter_gather(unread, self._update, left_out_too=True)
                self._reread_due = self._clock() + REREAD_INTERVAL
            unread = [cell for cell in cells if not self._usable(cell)]
        if len(unread) < len(cells):
            self.snapshot(0)
        return unread

    def cell_readings(self) -> list[CellReading]:
        """Return how long ago each cell was read; nothing is read."""
        now = self._clock()
        trackers = dict(self._trackers)
        ages = {cell: now - tracker.rows.read_at for cell, tracker in trackers.items()}
        return [
            CellReading(cell, self._usable(cell), None if age == math.inf else age)
            for cell, age in ages.items()
        ]

    def overdue(self) -> float:
        """Return the seconds by which the next table is late, however slow the databases are."""
        longest = IDLE_INTERVAL + self._refresh_timeout()
        begun = max(self._table.read_at, self._started_at)
        return max(0.0, self._clock() - begun - longest)

    # -- the writer ------------------------------------------------------------------------------------------

    def refresh(self) -> HostTable:
        """Read what changed and publish the next table. Only the writer calls this."""
        begun = self._refreshed_at = self._clock()
        self._cells.load_if_due()
        cells = self._cells_of_partition()
        self._trackers = {cell: self._trackers.get(cell) or self._new_tracker(cell) for cell in cells}
        answers = self._calls.scatter_gather(cells, self._update, probe=True)
        for cell in cells:
            self._report(cell, answers[cell.uuid].error)
        table = self._next_table(cells, begun)
        with self._changed:
            previous, self._table = self._table, table
            self._changed.notify_all()
        self._on_publish(table)
        if len(previous) != len(table):
            report_duplicates(table, self._duplicates)
        return table

    def _refresh_if_due(self) -> float:
        """Refresh if a request wants a newer table, or after an idle time. Return the seconds to wait."""
        remaining = self._idle_until - self._clock()
        if remaining > 0 and self._wanted <= self._table.read_at:
            return remaining
        self.refresh()
        self._idle_until = self._clock() + IDLE_INTERVAL
        return 0.0

    def _update(self, cell: Cell) -> None:
        if not self._trackers[cell].update(self._cells.engine(cell), self._partition.names()):
            # Not an answer: the other thread may hang.
            raise CellUnavailable(f"cell {cell} is being read by another thread")

    def _next_table(self, cells: Iterable[Cell], begun: float) -> HostTable:
        cells = list(cells)
        known = [self._rows_of(cell, begun) for cell in cells]
        unread = frozenset(cell.uuid for cell in cells if not self._usable(cell))
        previous = self._table
        if (
            _same_rows(known, self._known)
            and unread == previous.unread_cells
            and self._cells.disabled == previous.disabled_cells
            and self._partition.all_aggregates is previous.aggregates
        ):
            return previous.read_again(begun)
        self._known = known
        return self._table_of(known, begun, previous=previous, unread_cells=unread)

    def _table_of(self, known: Sequence[CellRows], begun: float, **others: Any) -> HostTable:
        services: dict[tuple[str, str], ServiceRow] = {}
        for rows in known:
            services.update(rows.services)
        return HostTable(
            chain.from_iterable(rows.nodes.values() for rows in known),
            services,
            self._partition.all_aggregates,
            self._cells.disabled,
            begun,
            **others,
        )

    def _rows_of(self, cell: Cell, begun: float) -> CellRows:
        """Return the last rows of a cell; none if they are too old to be used."""
        return self._trackers[cell].rows_at(begun, AGE_STEP) if self._usable(cell) else CellRows()

    def _usable(self, cell: Cell) -> bool:
        """Return whether the cell could be read the last time, or was not too long ago."""
        tracker = self._trackers.get(cell)
        if tracker is None or tracker.rows.read_at == -math.inf:
            return False
        read_at = tracker.rows.read_at
        return read_at >= self._refreshed_at or self._clock() - read_at <= self._unread_max_age()

    def _report(self, cell: Cell, error: Exception | None) -> None:
        if error is None:
            self._unreadable.report_success(cell)
        elif not isinstance(error, CellUnavailable | DBConnectionError):  # the circuit breaker reports those
            self._unreadable.report_failure(cell, error)

    # -- details ---------------------------------------------------------------------------------------------

    def _want(self, arrived_at: float, max_age: float) -> None:
        """Wake the writer if the table is past half its age. The caller holds the lock."""
        wanted = arrived_at - max_age / 2
        if self._table.read_at < wanted:
            self._wanted = max(self._wanted, wanted)
            self._loop.wake()

    def _is_fresh(self, since: float) -> bool:
        return self._stopped or self._table.read_at >= since

    def _refresh_timeout(self) -> float:
        """Return the seconds for a refresh that has begun, the next one, and the reading of the cell list."""
        return 3 * self._calls.timeout() + 1

    def _with_aggregates(self) -> HostTable:
        """Return the table with the aggregates of casts after its reading. The caller holds the lock."""
        aggregates = self._partition.all_aggregates
        if self._table.aggregates is not aggregates:
            self._table = self._table.with_aggregates(aggregates)
        return self._table

    def _look_up(self, uuids: list[str]) -> list[CellAnswer]:
        """Ask each cell whether any of these is a compute node."""
        columns = compute_nodes.c

        def found(cell: Cell) -> bool:
            with self._cells.engine(cell).connect() as connection:
                query = sa.select(columns.id).where(columns.deleted == 0)
                return any(
                    connection.execute(query.where(columns.uuid.in_(piece))).first()
                    for piece in chunks(uuids)
                )

        return list(self._calls.scatter_gather(self._cells_of_partition(), found).values())

    def _cells_of_partition(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in self._cells.all if self._partition.has_cell(cell))


def _same_rows(known: Sequence[CellRows], before: Sequence[CellRows]) -> bool:
    """Tell whether two readings of all cells have found the same, by which mappings they hold."""
    return len(known) == len(before) and all(
        now.nodes is then.nodes and now.services is then.services
        for now, then in zip(known, before, strict=True)
    )


def report_duplicates(table: HostTable, log: RateLimitedLogger) -> None:
    """Log what should be unique over all cells and is not (spec: host-state-and-cells 2.4, 8 (6)).

    These are hosts that are in several cells, and node names and uuids that several nodes have.
    """
    for host, cells in _several((row.host, row.cell_uuid) for row in table.rows).items():
        log.warning(("host", host), "Compute service %s is in several cells: %s", host, ", ".join(cells))
    for node, uuids in _several((row.nodename, row.uuid) for row in table.rows).items():
        log.warning(("node", node), "Several compute nodes are called %s: %s", node, ", ".join(uuids))
    for uuid, cells in _several((row.uuid, row.cell_uuid) for row in table.rows).items():
        log.warning(("uuid", uuid), "Compute node %s is in several cells: %s", uuid, ", ".join(cells))


def _several(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[Any]]:
    """Return the keys that go with more than one distinct value."""
    found: dict[str, set[str]] = {}
    for key, value in pairs:
        found.setdefault(key, set()).add(value)
    return {key: sorted(values) for key, values in found.items() if len(values) > 1}
