"""Mapping new computes to their cells, every [scheduler]/discover_hosts_in_cells_interval seconds.

This is off by default: most deployments run ``nova-manage cell_v2 discover_hosts`` instead
(spec: host-state-and-cells 4.6).
"""

from collections.abc import Callable

from oslo_config import cfg
from oslo_db.exception import DBDuplicateEntry
from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.logs import OutageLog
from scheduler.nova_db.cells import CELL0, UNREADABLE, Cell, read_cells
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.schema import compute_nodes, host_mappings, utcnow

LOG = logging.getLogger(f"nova.{__name__}")

DEFAULT_INTERVAL = 60


def interval(conf: cfg.ConfigOpts) -> int | None:
    """Return the seconds between two rounds; None if discovery is off."""
    seconds = conf.scheduler.discover_hosts_in_cells_interval
    return None if seconds < 0 else seconds or DEFAULT_INTERVAL


class Discovery:
    """Maps hosts to cells. Of the schedulers that share a [database] only the first one does so."""

    def __init__(self, conf: cfg.ConfigOpts, engines: Engines, leads: Callable[[], bool]) -> None:
        """Set up discovery.

        Args:
            leads: Returns whether this scheduler is the first one; see ``OwnService``.
        """
        self._conf = conf
        self._engines = engines
        self._leads = leads
        self._outage = OutageLog(LOG, "Cannot discover hosts", "Hosts are discovered again")
        self._cell_outages = OutageLog(
            LOG, "Cannot discover the hosts of cell %s", "Hosts of cell %s are discovered again"
        )

    def run(self) -> None:
        """Make one round, if this scheduler is the first one. Databases that are unavailable are logged."""
        try:
            if self._leads():
                with self._engines.api_connection() as connection:
                    cells = read_cells(connection, self._conf.database.connection)
                for cell in cells:
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


def _mark(engine: sa.Engine, node_id: int) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.update(compute_nodes)
            .where(compute_nodes.c.id == node_id)
            .values(mapped=1, updated_at=utcnow())
        )
