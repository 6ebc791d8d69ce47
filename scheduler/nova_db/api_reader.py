"""The cells, the aggregates and the mappings of hosts: read from the API database from time to time.

Aggregates are read after each cast about them, too. A cast may get lost or overtake another one, and of two
casts about one aggregate, sent at the same time, neither says what the other changed. So a cast only says
that there is something to read (spec: host-state-and-cells 1.4, 3.9).
"""

from collections.abc import Callable
import math
import threading
import time

from oslo_log import log as logging
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from scheduler.bounds.background import BackgroundLoop
from scheduler.bounds.waits import waiting_for
from scheduler.hosts.aggregates import Aggregates, HostAggregate
from scheduler.logs import OutageLog
from scheduler.nova_db import schema
from scheduler.nova_db.cells import UNREADABLE, Cells
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.host_mappings import HostMappings

LOG = logging.getLogger(f"nova.{__name__}")

# Seconds between the two readings after a cast: a clustered database may show a change to other readers a
# little later than to its writer.
REREAD_DELAY = 1.0

# Seconds between readings, after which added, disabled and deleted cells are seen, and changes whose casts
# were lost; while a host is mapped to no cell; and while the database is away.
INTERVAL, UNMAPPED_INTERVAL, RETRY_INTERVAL = 60.0, 5.0, 2.0


class ApiReader:
    """Keeps what the API database has. Any thread may use it.

    Attributes:
        cells: The cells.
        mappings: The cell of each host.
        aggregates: All aggregates as last known. Reading it needs no lock.
        was_read: Whether all of that was ever read.
        loop: The loop that reads it.
    """

    def __init__(
        self,
        engines: Engines,
        cells: Cells,
        mappings: HostMappings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up the reader; nothing is read yet."""
        self.cells, self.mappings = cells, mappings
        self.aggregates = Aggregates()
        self.was_read = False
        self._engines = engines
        self._clock = clock
        self._lock = threading.Lock()
        self._cast_at = -math.inf
        self._checksums: list[tuple[int, int]] = []
        self.loop = BackgroundLoop("api-database", self._round)
        self._outage = OutageLog(
            LOG,
            "Cannot read cells, aggregates and host mappings from the API database",
            "Cells, aggregates and host mappings are read from the API database again",
            clock,
        )

    def start(self) -> None:
        """Read everything, as far as the database answers, and start the background reader."""
        self.loop.start(self._round())

    def begin_reading(self) -> None:
        """Read now in the background, after a cast about aggregates, and once more ``REREAD_DELAY`` later."""
        self._cast_at = self._clock()
        self.loop.wake()

    def read(self) -> bool:
        """Read what has changed; return False if it cannot be read, and what is known stays in use."""
        with waiting_for("the API database"), self._lock:
            try:
                self.cells.load()
                self._load_aggregates()
                self.mappings.load()
            except UNREADABLE as error:
                self._outage.report_failure(error)
                return False
        self._outage.report_success()
        self.was_read = True
        return True

    def _load_aggregates(self) -> None:
        with self._engines.api_connection() as connection:
            checksums = [schema.checksum(connection, *columns) for columns in _READ]
            if checksums != self._checksums:
                self.aggregates = Aggregates(read_aggregates(connection))
        self._checksums = checksums

    def _round(self) -> float:
        was_cast = self._clock() - self._cast_at < REREAD_DELAY  # before a reading that may be slow
        readable = self.read()
        if was_cast:
            return REREAD_DELAY
        if not readable:
            return RETRY_INTERVAL
        return UNMAPPED_INTERVAL if self.mappings.unmapped else INTERVAL


def read_aggregates(connection: Connection) -> list[HostAggregate]:
    """Return all aggregates with their hosts and metadata."""
    hosts: dict[int, set[str]] = {}
    metadata: dict[int, dict[str, str]] = {}
    members, pairs, heads = (table.c for table in (_HOSTS, _METADATA, _AGGREGATES))
    for aggregate_id, host in connection.execute(sa.select(members.aggregate_id, members.host)):
        hosts.setdefault(aggregate_id, set()).add(host)
    for aggregate_id, key, value in connection.execute(sa.select(pairs.aggregate_id, pairs.key, pairs.value)):
        metadata.setdefault(aggregate_id, {})[key] = value
    return [
        HostAggregate(row.id, row.uuid, row.name, frozenset(hosts.get(row.id, ())), metadata.get(row.id, {}))
        for row in connection.execute(sa.select(heads.id, heads.uuid, heads.name).order_by(heads.id))
    ]


_HOSTS, _METADATA, _AGGREGATES = schema.aggregate_hosts, schema.aggregate_metadata, schema.aggregates
_READ = (
    (_HOSTS.c.id, _HOSTS.c.aggregate_id, _HOSTS.c.host),
    (_METADATA.c.id, _METADATA.c.aggregate_id, _METADATA.c.key, _METADATA.c.value),
    (_AGGREGATES.c.id, _AGGREGATES.c.uuid, _AGGREGATES.c.name),
)
