"""The one writer of the host table, and what requests ask it for.

A request says how old the table may be. If the one there is is older, the request waits for a refresh, as do
all others meanwhile. A table past half its age is refreshed in the background, so that under load hardly
anybody waits (spec: host-state-and-cells 2.3, 3.9).

Providers that Placement offers and that are no compute nodes.

Names that should be unique over all cells and are not (spec: host-state-and-cells 2.4, 8 (6)).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
import threading
import time
from typing import Any

from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.hosts.table import HostTable
from scheduler.logs import OutageLog, brief
from scheduler.nova_db.aggregate_store import AggregateStore
from scheduler.nova_db.cells import Cell, Cells
from scheduler.nova_db.change_tracking import CellRows, CellTracker
from scheduler.nova_db.row_loader import RowLoader
from scheduler.nova_db.scatter_gather import CellAnswer, CellCalls, CellUnavailable
from scheduler.nova_db.schema import chunks, compute_nodes

LOG = logging.getLogger(__name__)

# How long the hosts of a cell that cannot be read are still used, in seconds.
KEEP_UNREAD = 30.0

# How often to read when nobody asks, in seconds: the first request after a quiet time finds few changes.
IDLE = 10.0

# Pause of the writer after an error that nobody foresaw, in seconds.
AFTER_ERROR = 1.0


class HostStore:
    """Publishes host tables. ``start`` it before asking for any."""

    def __init__(
        self,
        cells: Cells,
        calls: CellCalls,
        loader: RowLoader,
        aggregates: AggregateStore,
        max_age: Callable[[], float],
        timeout: Callable[[], float],
        settle: Callable[[HostTable], None] = lambda _table: None,
    ) -> None:
        """``max_age``: seconds that a table may be old if a request does not say; ``timeout``: of a cell.

        ``settle`` is called with each new table, after requests have it.
        """
        self._cells = cells
        self._calls = calls
        self._loader = loader
        self._aggregates = aggregates
        self._max_age = max_age
        self._timeout = timeout
        self._settle = settle
        self._trackers: dict[Cell, CellTracker] = {}
        self._errors: dict[str, str] = {}
        self._table = HostTable((), {}, aggregates.current, read_at=float("-inf"))
        self._changed = threading.Condition()
        self._wanted = time.monotonic()
        self._stopped = False
        self._foreign = ForeignProviders()
        self._late = OutageLog(
            LOG,
            "The hosts could not be read in time; what is known of them is used",
            "The hosts are read in time again",
        )

    def start(self) -> None:
        self._stopped = False
        threading.Thread(target=self._run, name="host-table", daemon=True).start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def forget(self) -> None:
        """Forget which providers are no compute nodes."""
        self._foreign.forget()

    def snapshot(self, max_age: float | None = None) -> HostTable:
        """A table whose reading began at most ``max_age`` seconds ago, 0: after this call.

        Never raises: what cannot be read in time is not in the table.
        """
        max_age = self._max_age() if max_age is None else max_age
        now = time.monotonic()
        with self._changed:
            if self._table.read_at < now - max_age / 2:
                self._wanted = max(self._wanted, now - max_age / 2)
                self._changed.notify_all()
            if self._changed.wait_for(lambda: self._fresh(now - max_age), self._patience()):
                self._late.report_success()
            else:
                self._late.report_failure(TimeoutError(f"nothing new within {self._patience():g} seconds"))
            return self._with_aggregates()

    def complete(self, table: HostTable, uuids: Iterable[str]) -> HostTable:
        """``table``, or a newer one if any of the ``uuids`` that it lacks is a compute node of some cell.

        A provider that is not in the table may be a node that has just been made, or no compute node at all.
        """
        missing = [uuid for uuid in uuids if uuid not in table.row_of_uuid and uuid not in self._foreign]
        if not missing:
            return table
        answers = self._look_up(missing)
        if any(answer.value for answer in answers):
            table = self.snapshot(0)
        foreign = [uuid for uuid in missing if uuid not in table.row_of_uuid]
        if not any(answer.error for answer in answers):
            self._foreign.mention(foreign)
        self._foreign.remember(foreign)
        return table

    # -- the writer ------------------------------------------------------------------------------------------

    def refresh(self) -> HostTable:
        """Read what changed and publish the next table. Called by the one writer."""
        begun = time.monotonic()
        self._cells.load_if_needed()
        cells = self._cells.all
        self._trackers = {cell: self._trackers.get(cell) or CellTracker(cell, self._loader) for cell in cells}
        answers = self._calls.scatter_gather(cells, self._read, probe=True)
        for cell in cells:
            self._report(cell, answers[cell.uuid].error)
        table = self._next(cells, begun)
        with self._changed:
            previous, self._table = self._table, table
            self._changed.notify_all()
        self._settle(table)
        if len(previous) != len(table):
            complain(table)
        return table

    def _run(self) -> None:
        while not self._stopped:
            try:
                self.refresh()
            except Exception:
                LOG.exception("The host table could not be refreshed")
                time.sleep(AFTER_ERROR)
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or self._wanted > self._table.read_at, IDLE)

    def _read(self, cell: Cell) -> None:
        self._trackers[cell].update(self._cells.engine(cell))

    def _next(self, cells: Iterable[Cell], begun: float) -> HostTable:
        known = [self._rows_of(cell, begun) for cell in cells]
        services = {key: service for rows in known for key, service in rows.services.items()}
        nodes = [node for rows in known for node in rows.nodes.values()]
        return HostTable(
            nodes, services, self._aggregates.current, self._cells.disabled, begun, previous=self._table
        )

    def _rows_of(self, cell: Cell, begun: float) -> CellRows:
        """The last rows of a cell; none if they are too old to be believed."""
        rows = self._trackers[cell].rows
        return rows if begun - rows.read_at <= KEEP_UNREAD else CellRows()

    def _report(self, cell: Cell, error: Exception | None) -> None:
        """Each error of a cell once; a cell that was not asked has been reported already."""
        if error is None:
            self._errors.pop(cell.uuid, None)
        elif not isinstance(error, CellUnavailable) and self._errors.get(cell.uuid) != brief(error):
            self._errors[cell.uuid] = brief(error)
            LOG.error("Cell %s cannot be read: %s", cell, brief(error))

    # -- details ---------------------------------------------------------------------------------------------

    def _fresh(self, since: float) -> bool:
        return self._stopped or self._table.read_at >= since

    def _patience(self) -> float:
        """A refresh that has begun, the next one, and the reading of the cell list."""
        return 3 * self._timeout() + 1

    def _with_aggregates(self) -> HostTable:
        """The table in which a cast that came after its reading shows. Called under the lock."""
        if self._table.aggregates is not self._aggregates.current:
            self._table = self._table.with_aggregates(self._aggregates.current)
        return self._table

    def _look_up(self, uuids: list[str]) -> list[CellAnswer]:
        """Whether any of these is a compute node, asked of each cell."""
        columns = compute_nodes.c

        def found(cell: Cell) -> bool:
            with self._cells.engine(cell).connect() as connection:
                query = sa.select(columns.id).where(columns.deleted == 0)
                return any(
                    connection.execute(query.where(columns.uuid.in_(piece))).first()
                    for piece in chunks(uuids)
                )

        return list(self._calls.scatter_gather(self._cells.all, found).values())


# How long such a provider is not looked for again, in seconds.
FOREIGN = 30.0
MAX_FOREIGN = 100_000


class ForeignProviders:
    """Their uuids, remembered for a while: one may be a compute node that is yet to be made."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def __contains__(self, uuid: str) -> bool:
        return self._until.get(uuid, 0.0) > time.monotonic()

    def mention(self, uuids: Collection[str]) -> None:
        """Log those that were not there before."""
        new = [uuid for uuid in uuids if uuid not in self._until]
        if new:
            LOG.info("Placement offers %d providers that are no hosts, such as %s", len(new), new[0])

    def remember(self, uuids: Collection[str]) -> None:
        if len(self._until) > MAX_FOREIGN:
            self._until = {}
        self._until |= dict.fromkeys(uuids, time.monotonic() + FOREIGN)

    def forget(self) -> None:
        self._until = {}


def complain(table: HostTable) -> None:
    """Log hosts that are in several cells, and node names and uuids that several nodes have."""
    for host, cells in _several((row.host, row.cell_uuid) for row in table.rows).items():
        LOG.warning("Compute service %s is in several cells: %s", host, ", ".join(cells))
    for node, uuids in _several((row.nodename, row.uuid) for row in table.rows).items():
        LOG.warning("Several compute nodes are called %s: %s", node, ", ".join(uuids))
    for uuid, cells in _several((row.uuid, row.cell_uuid) for row in table.rows).items():
        LOG.warning("Compute node %s is in several cells: %s", uuid, ", ".join(cells))


def _several(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[Any]]:
    """The keys that go with more than one distinct value."""
    found: dict[str, set[str]] = {}
    for key, value in pairs:
        found.setdefault(key, set()).add(value)
    return {key: sorted(values) for key, values in found.items() if len(values) > 1}
