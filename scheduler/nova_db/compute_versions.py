"""The lowest version of any compute service (spec: host-state-and-cells 4.5)."""

import threading
import time

from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.logs import OutageLog
from scheduler.nova_db.cells import Cell, Cells
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import services

LOG = logging.getLogger(__name__)

# Seconds for which a version is believed.
TTL = 60.0

# The service version of nova 27, the oldest release that is supported.
OLDEST = 66


class MinimumVersion:
    """Remembered for a minute, over the cells as they are then."""

    def __init__(self, cells: Cells, calls: CellCalls) -> None:
        self._cells = cells
        self._calls = calls
        self._lock = threading.Lock()
        self._version = 0
        self._until = 0.0
        self._outage = OutageLog(
            LOG,
            "The versions of the computes cannot be read, the last known minimum stands",
            "The versions of the computes can be read again",
        )

    def get(self) -> int:
        """0 if no compute service is known. Cells that do not answer are left out."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._version = self._read()
                self._until = time.monotonic() + TTL
            return self._version

    def forget(self) -> None:
        self._until = 0.0

    def report(self) -> None:
        """Say so if a compute service is older than what is supported; it is served all the same."""
        version = self.get()
        if 0 < version < OLDEST:
            LOG.warning(
                "The oldest nova-compute has service version %d; releases before nova 27 (version %d) are not"
                " supported",
                version,
                OLDEST,
            )

    def _read(self) -> int:
        answers = self._calls.scatter_gather(self._cells.with_cell0, self._of_cell)
        versions = [answer.value for answer in answers.values() if answer.value]
        failed = [answer.error for answer in answers.values() if answer.error]
        if failed and not versions:
            self._outage.report_failure(failed[0])
            return self._version
        self._outage.report_success()
        return min(versions, default=0)

    def _of_cell(self, cell: Cell) -> int | None:
        columns = services.c
        query = sa.select(sa.func.min(columns.version)).where(
            columns.deleted == 0,
            columns.binary == "nova-compute",
            columns.version > 0,
            sa.func.coalesce(columns.forced_down, sa.false()) == sa.false(),
        )
        with self._cells.engine(cell).connect() as connection:
            return connection.execute(query).scalar()
