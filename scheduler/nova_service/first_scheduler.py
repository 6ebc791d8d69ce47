"""What only the first of the schedulers does that share a [database].

It maps new computes to their cells, every [scheduler]/discover_hosts_in_cells_interval seconds. This is off
by default: most deployments run ``nova-manage cell_v2 discover_hosts`` instead (spec: host-state-and-cells
4.6).

And it finds the builds that conductors have given up: their instances are in the database of cell0. The time
in their rows is that of the user's request (spec: host-state-and-cells 2.1), so the order in which they were
given up is that of their ids.
"""

from collections.abc import Callable, Collection
from datetime import timedelta

from oslo_config import cfg
from oslo_db.exception import DBDuplicateEntry
from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.logs import OutageLog
from scheduler.nova_db.cells import CELL0, UNREADABLE, Cell, read_cells
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.schema import compute_nodes, host_mappings, instances, utcnow

LOG = logging.getLogger(f"nova.{__name__}")

DEFAULT_INTERVAL = 60

#: Seconds between two readings of builds.
SWEEP_INTERVAL = 60.0

#: Instances that are read at once.
MOST = 1000

#: Seconds since the user's request for which a build counts that was given up before the first reading. A
#: conductor waits for half an hour, and another scheduler may have been the first until now.
LOOKBACK = 3600.0


def interval(conf: cfg.ConfigOpts) -> int | None:
    """Return the seconds between two rounds; None if discovery is off."""
    seconds = conf.scheduler.discover_hosts_in_cells_interval
    return None if seconds < 0 else seconds or DEFAULT_INTERVAL


class FirstScheduler:
    """Does all that while this scheduler is the first one. Databases that are unavailable are logged."""

    def __init__(self, conf: cfg.ConfigOpts, engines: Engines, leads: Callable[[], bool]) -> None:
        """Set up; nothing is read yet.

        Args:
            leads: Returns whether this scheduler is the first one; see ``OwnService``.
        """
        self._conf = conf
        self._engines = engines
        self._leads = leads
        self._builds: dict[str, int] = {}  # those of the last reading, with their ids
        self._after = self._last = 0
        self._outage = OutageLog(LOG, "Cannot discover hosts", "Hosts are discovered again")
        self._cell_outages = OutageLog(
            LOG, "Cannot discover the hosts of cell %s", "Hosts of cell %s are discovered again"
        )
        self._builds_outage = OutageLog(
            LOG, "Cannot read the builds in cell0", "Builds in cell0 are read again"
        )

    def _cells(self) -> tuple[Cell, ...]:
        with self._engines.api_connection() as connection:
            return read_cells(connection, self._conf.database.connection)

    # -- new computes ----------------------------------------------------------------------------------------

    def discover_hosts(self) -> None:
        """Map the new hosts of all cells."""
        try:
            if self._leads():
                for cell in self._cells():
                    self._discover(cell)
        except UNREADABLE as error:
            self._outage.report_failure(error)
        else:
            self._outage.report_success()

    def _discover(self, cell: Cell) -> None:
        """Map the new hosts of one cell. An unavailable cell does not stop discovery in the others."""
        if cell.uuid == CELL0 or cell.url is None:
            return
        try:
            engine = self._engines.cell(cell.uuid, cell.url)
            with engine.connect() as connection:
                columns = compute_nodes.c
                query = sa.select(columns.id, columns.host).where(
                    columns.deleted == 0, columns.mapped < 1, columns.host.is_not(None)
                )
                nodes = connection.execute(query).all()
            for node in nodes:
                if self._map(node.host, cell):
                    _mark(engine, node.id)
        except UNREADABLE as error:
            self._cell_outages.report_failure(error, cell)
        else:
            self._cell_outages.report_success(cell)

    def _map(self, host: str, cell: Cell) -> bool:
        """Map a host, unless it is mapped; return whether it was mapped now."""
        existing = sa.select(host_mappings.c.id).where(host_mappings.c.host == host)
        new = sa.insert(host_mappings).values(host=host, cell_id=cell.id, created_at=utcnow())
        try:
            with self._engines.api().begin() as connection:
                if connection.execute(existing).first():
                    return False
                connection.execute(new)
        except DBDuplicateEntry:
            return False
        LOG.info("Host %s is mapped to cell %s", host, cell)
        return True

    # -- builds that were given up ---------------------------------------------------------------------------

    def builds_given_up(self) -> Collection[str]:
        """Return the UUIDs of the builds that were given up since the last call.

        There are none for a scheduler that is not the first.
        """
        try:
            if not self._leads():
                self._builds, self._after, self._last = {}, 0, 0
                return ()
            rows = self._latest_builds()
        except UNREADABLE as error:
            self._builds_outage.report_failure(error)
            return ()
        self._builds_outage.report_success()
        new = rows.keys() - self._builds.keys()
        # What is new here is read once more: a row may be committed after others with higher ids.
        self._after, self._last = self._last, max(rows.values(), default=self._last)
        self._builds = rows
        return new

    def _latest_builds(self) -> dict[str, int]:
        """Return the ids of the latest builds, by UUID."""
        cell0 = next((cell for cell in self._cells() if cell.uuid == CELL0), None)
        if cell0 is None or cell0.url is None:
            return {}
        columns = instances.c
        query = sa.select(columns.uuid, columns.id).where(columns.deleted == 0, columns.host.is_(None))
        if self._after:
            query = query.where(columns.id > self._after)
        else:
            query = query.where(columns.created_at > utcnow() - timedelta(seconds=LOOKBACK))
        with self._engines.cell(cell0.uuid, cell0.url).connect() as connection:
            return {row.uuid: row.id for row in connection.execute(query.order_by(columns.id).limit(MOST))}


def _mark(engine: sa.Engine, node_id: int) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.update(compute_nodes)
            .where(compute_nodes.c.id == node_id)
            .values(mapped=1, updated_at=utcnow())
        )
