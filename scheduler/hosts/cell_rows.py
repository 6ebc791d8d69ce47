"""What is known of the hosts of one cell."""

from collections.abc import Mapping
from dataclasses import dataclass, field
import threading
import time

from sqlalchemy.engine import Engine

from scheduler.hosts.cells import Cell
from scheduler.hosts.follow import NodeFollower, ServiceFollower
from scheduler.hosts.row_loader import RowLoader
from scheduler.hosts.rows import HostRow, ServiceRow


@dataclass(frozen=True)
class CellRows:
    """The live rows of a cell: nodes by id, services by (cell uuid, host).

    ``read_at``: monotonic seconds at which reading began.
    """

    nodes: Mapping[int, HostRow] = field(default_factory=dict)
    services: Mapping[tuple[str, str], ServiceRow] = field(default_factory=dict)
    read_at: float = float("-inf")


class CellFollower:
    """Follows the compute nodes and services of one cell. ``rows`` may be read at any time by any thread."""

    def __init__(self, cell: Cell, loader: RowLoader) -> None:
        self.rows = CellRows()
        self._cell = cell
        self._loader = loader
        self._lock = threading.Lock()
        self._service_rows: Mapping[int, ServiceRow] | None = None
        self._services = ServiceFollower()
        self._nodes = NodeFollower()

    def read(self, engine: Engine) -> None:
        """Bring ``rows`` up to date, in one transaction; does nothing while another thread is at it."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            begun = time.monotonic()
            with engine.connect() as connection:
                self._services.read(connection)
                known = self._services.rows
                self._nodes.read(connection, lambda row: self._loader.node(row, self._cell.uuid, known))
            self.rows = CellRows(self._nodes.rows, self._by_host(known), begun)
            self._service_rows = known
        finally:
            self._lock.release()

    def _by_host(self, rows: Mapping[int, ServiceRow]) -> Mapping[tuple[str, str], ServiceRow]:
        if rows is self._service_rows:
            return self.rows.services
        return {(self._cell.uuid, service.host): service for service in rows.values()}
