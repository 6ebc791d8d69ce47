"""The aggregates: read from the API database after each cast about them, and from time to time.

A cast may get lost or overtake another one, and of two casts about one aggregate, sent at the same time,
neither says what the other changed. So a cast only says that there is something to read
(spec: host-state-and-cells 1.4, 3.9).
"""

from collections.abc import Callable
import math
import time

from oslo_log import log as logging
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from scheduler.bounds.background import BackgroundLoop
from scheduler.hosts.aggregates import Aggregates, HostAggregate
from scheduler.logs import OutageLog
from scheduler.nova_db import schema
from scheduler.nova_db.cells import UNREADABLE
from scheduler.nova_db.engines import Engines

LOG = logging.getLogger(f"nova.{__name__}")

# Seconds between the two readings after a cast: a clustered database may show a change to other readers a
# little later than to its writer.
REREAD_DELAY = 1.0

# Seconds between complete readings. Changes arrive by cast; this bounds how long a lost one matters.
INTERVAL = 60.0

# Seconds between readings while the API database is unavailable.
RETRY_INTERVAL = 5.0


class AggregateStore:
    """Keeps all aggregates.

    Attributes:
        current: All aggregates as last known. Reading it needs no lock.
        loop: The loop that reads them.
    """

    def __init__(
        self,
        engines: Engines,
        interval: float = INTERVAL,
        retry_interval: float = RETRY_INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up the reader; nothing is read yet. Intervals are in seconds, as those above."""
        self.current = Aggregates()
        self._engines = engines
        self._clock = clock
        self._interval = interval
        self._retry_interval = retry_interval
        self._loaded = False
        self._cast_at = -math.inf
        self._checksums: list[tuple[int, int]] = []
        self.loop = BackgroundLoop("aggregates", self._round)
        self._outage = OutageLog(
            LOG,
            "Cannot read the aggregates from the API database",
            "Aggregates are read from the API database again",
            clock,
        )

    def start(self) -> None:
        """Read all aggregates, and start the background reader. They are empty while the database is away."""
        self.loop.start(self._round())

    def load_if_needed(self) -> bool:
        """Return whether they were ever read; if not, the background reader tries again at once."""
        if not self._loaded:
            self.loop.wake()
        return self._loaded

    def begin_reading(self) -> None:
        """Read them now in the background, after a cast about them, and once more ``REREAD_DELAY`` later."""
        self._cast_at = self._clock()
        self.loop.wake()

    def reload(self) -> bool:
        """Read the tables if they changed; return False if they cannot be read."""
        try:
            with self._engines.api_connection() as connection:
                checksums = [schema.checksum(connection, *columns) for columns in _READ]
                if checksums != self._checksums:
                    self.current = Aggregates(read_aggregates(connection))
        except UNREADABLE as error:
            self._outage.report_failure(error)
            return False
        self._outage.report_success()
        self._checksums = checksums
        self._loaded = True
        return True

    def _round(self) -> float:
        was_cast = self._clock() - self._cast_at < REREAD_DELAY  # before a reading that may be slow
        readable = self.reload()
        if was_cast:
            return REREAD_DELAY
        return self._interval if readable else self._retry_interval


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
