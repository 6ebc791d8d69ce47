"""The lowest version of any compute service (spec: host-state-and-cells 4.5)."""

from collections.abc import Callable
import threading
import time

from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.logs import OutageLog
from scheduler.nova_db.cells import Cell, Cells
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import services

LOG = logging.getLogger(__name__)

# Seconds for which the lowest version is remembered.
VERSION_TTL = 60.0

# Seconds for which it is remembered that none is known, as while the cells cannot be read.
UNKNOWN_TTL = 1.0

# The service version of nova 27, the oldest release that is supported.
OLDEST_SUPPORTED = 66


class MinimumVersion:
    """The lowest version of any compute service, remembered for ``VERSION_TTL`` seconds."""

    def __init__(self, cells: Cells, calls: CellCalls, clock: Callable[[], float] = time.monotonic) -> None:
        self._cells = cells
        self._calls = calls
        self._clock = clock
        self._lock = threading.Lock()
        self._version = 0
        self._expires_at = float("-inf")
        self._outage = OutageLog(
            LOG,
            "Cannot read the service versions of the computes; using the last known minimum",
            "Service versions of the computes are read again",
        )

    def get(self) -> int:
        """Return the lowest version; 0 if no compute is known. Cells that do not answer are left out."""
        with self._lock:
            if self._clock() >= self._expires_at:
                self._version = self._read()
                self._expires_at = self._clock() + (VERSION_TTL if self._version else UNKNOWN_TTL)
            return self._version

    def clear(self) -> None:
        """Read the versions again at the next call."""
        self._expires_at = float("-inf")

    def warn_if_unsupported(self) -> None:
        """Log a warning if a compute service is older than what is supported. It is used all the same."""
        version = self.get()
        if 0 < version < OLDEST_SUPPORTED:
            LOG.warning(
                "The oldest nova-compute has service version %d; releases before nova 27 (version %d) are not"
                " supported",
                version,
                OLDEST_SUPPORTED,
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
