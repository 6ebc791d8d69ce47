"""The aggregates: read from the API database, kept true by casts and by reading them again.

A cast may be lost, or overtake another, so its content only stands until the tables have been read.
spec: host-state-and-cells 1.4, 3.9
"""

from collections.abc import Callable, Iterable
import threading
from typing import Any

from oslo_log import log as logging
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from scheduler.hosts.aggregates import Aggregate, Aggregates
from scheduler.logs import OutageLog
from scheduler.nova_db import schema
from scheduler.nova_db.cells import UNREADABLE
from scheduler.nova_db.engines import Engines

LOG = logging.getLogger(__name__)

# A clustered database may show a change to other readers a little later than to the one who made it.
SETTLED = 1.0

# While the API database is away, how often to look whether it is back, in seconds.
RETRY = 5.0


class AggregateStore:
    """``current`` holds all aggregates as they are best known; reading it needs no lock."""

    def __init__(self, engines: Engines, interval: Callable[[], float]) -> None:
        """``interval``: seconds between readings when no cast comes."""
        self.current = Aggregates()
        self._engines = engines
        self._interval = interval
        self._lock = threading.Lock()
        self._casts = 0
        self._wake = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._outage = OutageLog(
            LOG,
            "Aggregates cannot be read from the API database",
            "Aggregates can be read from the API database again",
        )

    def start(self) -> None:
        """Read all aggregates, and go on doing so; with the database away they are empty until it is back."""
        readable = self.reload()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, args=(readable,), name="aggregates", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()

    def update(self, aggregates: Iterable[Any]) -> None:
        """What a cast says of aggregates (wire objects)."""
        self._cast(self.current.replacing(map(from_wire, aggregates)))

    def delete(self, aggregate: Any) -> None:
        """What a cast says of one that is gone."""
        self._cast(self.current.without(aggregate.id))

    def reload(self) -> bool:
        """Read the tables; False if they cannot be read. A cast that comes meanwhile is newer and stands."""
        casts = self._casts
        try:
            with self._engines.api().connect() as connection:
                found = Aggregates(read_aggregates(connection))
        except UNREADABLE as error:
            self._outage.report_failure(error)
            return False
        self._outage.report_success()
        with self._lock:
            if casts == self._casts and found.by_id != self.current.by_id:
                self.current = found
        return True

    def _cast(self, aggregates: Aggregates) -> None:
        with self._lock:
            self._casts += 1
            self.current = aggregates
        self._wake.set()

    def _run(self, readable: bool) -> None:
        while not self._stopped:
            self._wake.wait(self._interval() if readable else RETRY)
            woken = self._wake.is_set()
            self._wake.clear()
            readable = self.reload()
            if woken and not self._stopped:
                self._wake.wait(SETTLED)
                readable = self.reload()


def read_aggregates(connection: Connection) -> list[Aggregate]:
    """All aggregates with their hosts and metadata."""
    hosts: dict[int, set[str]] = {}
    metadata: dict[int, dict[str, str]] = {}
    members, pairs, heads = (table.c for table in (_HOSTS, _METADATA, _AGGREGATES))
    for row in connection.execute(sa.select(members.aggregate_id, members.host)):
        hosts.setdefault(row.aggregate_id, set()).add(row.host)
    for row in connection.execute(sa.select(pairs.aggregate_id, pairs.key, pairs.value)):
        metadata.setdefault(row.aggregate_id, {})[row.key] = row.value
    return [
        Aggregate(row.id, row.uuid, row.name, frozenset(hosts.get(row.id, ())), metadata.get(row.id, {}))
        for row in connection.execute(sa.select(heads.id, heads.uuid, heads.name).order_by(heads.id))
    ]


_HOSTS, _METADATA, _AGGREGATES = schema.aggregate_hosts, schema.aggregate_metadata, schema.aggregates


def from_wire(aggregate: Any) -> Aggregate:
    """An ``objects.Aggregate`` as a plain value."""
    return Aggregate(
        aggregate.id,
        aggregate.uuid,
        aggregate.name,
        frozenset(aggregate.hosts or ()),
        dict(aggregate.metadata or {}),
    )
