"""The services and compute nodes of a cell, kept up to date by reading only what changed.

A row that nova's services write has a new stamp, so each reading reads the rows with late stamps. Clocks
differ, a commit may become visible late, and in MySQL two writes of one second have the same stamp. So each
window of stamps overlaps with the one before, and a row in it is read again if its hash differs. From time to
time the sum of all hashes is compared, and where it differs all hashes.

The stamp of a service changes with each heartbeat: at 10,000 computes a thousand do in a second. Nothing is
read of services that are enabled and were seen lately; all others are read each time.

spec: host-state-and-cells 3.9, 4.1
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial
import math
import threading
import time
from typing import Any

from oslo_log import log as logging
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from scheduler.hosts.rows import HostRow, ServiceRow
from scheduler.logs import RateLimitedLogger, brief
from scheduler.nova_db.cells import UNREADABLE, Cell
from scheduler.nova_db.row_loader import NODE_COLUMNS, REPORT_INTERVAL, RowLoader
from scheduler.nova_db.schema import checksum, chunks, compute_nodes, row_hash, services, utcnow

LOG = logging.getLogger(f"nova.{__name__}")

# By how much the window of stamps overlaps with the one before. Conductors whose clocks differ by less, and
# commits that take less, cost no time.
OVERLAP = timedelta(seconds=5)

# Seconds between comparisons of all compute nodes, and between readings of all services. They find what has
# no late stamp, such as changes by a conductor whose clock is slow, and rows that were removed by hand.
ALL_NODES_INTERVAL = 60.0
ALL_SERVICES_INTERVAL = 300.0

# Above this share of all rows, reading all of them is faster than naming those that are wanted.
READ_ALL_SHARE = 0.3

# Rows that the driver converts at a time.
ROWS_AT_ONCE = 200

# A service is alive if its heartbeat is not older than this share of the limit. The rest of the limit is
# longer than the time between two readings.
ALIVE_SHARE = 0.5

_SERVICE_COLUMNS = tuple(services.c[name] for name in ServiceRow.__slots__ if name in services.c)

# Those that no heartbeat changes.
_LASTING_COLUMNS = tuple(
    each for each in _SERVICE_COLUMNS if each.name not in {"report_count", "last_seen_up", "updated_at"}
)

Load = Callable[[sa.Row], HostRow | None]


class Window:
    """The time since which stamps are late, or None when all rows are due.

    Attributes:
        late: This time also when all rows are due, but None before a first reading is accepted.
    """

    def __init__(self, interval: float, clock: Callable[[], float], now: Callable[[], datetime]) -> None:
        """Let all rows be due.

        Args:
            interval: Seconds after which all rows are due again.
            now: Returns the time in UTC, without a zone.
        """
        self._interval = interval
        self._clock = clock
        self._now = now
        self._all_due = -math.inf
        self._opened = -math.inf, now()
        self.late: datetime | None = None

    def open(self) -> datetime | None:
        """Begin a reading; return the time since which stamps are late, None if all rows are due.

        They are after the wall clock was set back, too.
        """
        now, was = self._now(), self._opened[1]
        self._opened = self._clock(), now
        if now < was:
            self.late = None
        return None if self._opened[0] >= self._all_due else self.late

    def close(self, since: datetime | None) -> None:
        """Accept a reading of what has stamps ``since`` then; one that is not accepted is repeated."""
        clock, now = self._opened
        if since is None:
            self._all_due = clock + self._interval
        self.late = now - OVERLAP


class ServiceTracker:
    """The compute services by id. At each reading those that are not alive are read.

    Attributes:
        rows: The live rows.
        seen_since: Since when those that are alive were seen.
    """

    def __init__(
        self,
        down_time: Callable[[], float] = lambda: 60.0,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utcnow,
    ) -> None:
        """Track no service yet.

        Args:
            down_time: Returns the seconds without a heartbeat after which a service is down.
            now: Returns the time in UTC, without a zone.
        """
        self.rows: Mapping[int, ServiceRow] = {}
        self.seen_since = now()
        self._down_time = down_time
        self._now = now
        self._checksum: tuple[int, int] | None = None  # when all were read; None: they have changed
        self._window = Window(ALL_SERVICES_INTERVAL, clock, now)

    def update(self, connection: Connection) -> None:
        """Bring ``rows`` up to date. They stay the same mapping if nothing changed."""
        due = since = self._window.open()
        now, limit = self._now(), timedelta(seconds=ALIVE_SHARE * self._down_time())
        read = partial(self._read, connection, seen_from=now - limit, seen_to=now + limit)
        total = None
        if due is None:
            total = checksum(connection, *_LASTING_COLUMNS, where=_LIVE_COMPUTE)
            since = self._window.late if total == self._checksum else None
        if since is None:
            found = read(_LIVE_SERVICES)
            gone = self.rows.keys() - found.keys()
        else:
            found = read(_DUE_SERVICES, since=since)
            # What was not alive and is not among them is alive now, or gone.
            gone = {number for number, row in self.rows.items() if not row.alive} - found.keys()
            for piece in chunks(gone):
                found |= read(_LIVE_SERVICES.where(services.c.id.in_(piece)))
        rows = merged(self.rows, gone - found.keys(), found)
        if since is None:
            self._checksum = total
        elif rows is not self.rows:
            self._checksum = None
        self.rows = rows
        self.seen_since = now - limit
        self._window.close(due)

    @staticmethod
    def _read(
        connection: Connection, query: sa.Select, **parameters: datetime
    ) -> dict[int, ServiceRow | None]:
        """Return the services by id; None for one that is deleted."""
        # The result has no name: a row that cannot be read would keep it open, and SQLite's file locked.
        return {
            row.id: _service(row) if row.deleted == 0 else None
            for row in connection.execute(query, parameters)
        }


_LIVE_COMPUTE = sa.and_(services.c.binary == "nova-compute", services.c.deleted == 0)

# Statements that are executed every few seconds are made once: to make one takes as long as all the rest.
_ALIVE = sa.case(
    (
        sa.and_(
            services.c.disabled.is_not(True),
            services.c.forced_down.is_not(True),
            services.c.last_seen_up.between(sa.bindparam("seen_from"), sa.bindparam("seen_to")),
        ),
        1,
    ),
    else_=0,
)
_SERVICES = sa.select(*_SERVICE_COLUMNS, services.c.deleted, _ALIVE.label("alive"))
_LIVE_SERVICES = _SERVICES.where(_LIVE_COMPUTE)
_DUE_SERVICES = _SERVICES.where(
    services.c.binary == "nova-compute",
    sa.or_(
        sa.and_(services.c.deleted == 0, _ALIVE == 0),
        services.c.created_at >= sa.bindparam("since"),
        services.c.deleted_at >= sa.bindparam("since"),
    ),
)


# Drivers return texts of these columns: the day zero of MySQL, and whatever SQLite has stored.
# A text in the place of a number would end the reading of all cells.
_NO_TEXTS = {"last_seen_up": datetime, "created_at": datetime, "updated_at": datetime, "version": int}


def _service(row: sa.Row) -> ServiceRow:
    values = {column.name: getattr(row, column.name) for column in _SERVICE_COLUMNS}
    for name, kind in _NO_TEXTS.items():
        if not isinstance(values[name], kind):
            values[name] = None
    for name in ("disabled", "forced_down"):
        values[name] = bool(values[name])
    return ServiceRow(**values, alive=bool(row.alive))


class NodeTracker:
    """The live compute nodes by id. Those that changed are read whole, with their long texts.

    Of hosts that are not wanted, hashes are all that is read.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, now: Callable[[], datetime] = utcnow
    ) -> None:
        self.rows: Mapping[int, HostRow] = {}
        self._window = Window(ALL_NODES_INTERVAL, clock, now)
        self._reports = RateLimitedLogger(LOG, REPORT_INTERVAL, clock)
        self._hashes: dict[int, int] = {}
        self._hosts: frozenset[str] | None = None

    def update(self, connection: Connection, load: Load, hosts: frozenset[str] | None = None) -> None:
        """Bring ``rows`` up to date. They stay the same mapping if nothing changed.

        Args:
            hosts: The service hosts that are wanted; None: all.
        """
        due = self._window.open()
        since = self._window.late if hosts == self._hosts else None
        self._take(connection, since, load, hosts)
        if due is None and since is not None and not self._is_complete(connection, hosts):
            self._take(connection, None, load, hosts)
        self._hosts = hosts
        self._window.close(due if since is not None else None)

    def _is_complete(self, connection: Connection, hosts: frozenset[str] | None) -> bool:
        """Return whether all live rows have the hashes that are known; no row is read for that."""
        expected = len(self._hashes), sum(self._hashes.values())
        return hosts is None and checksum(connection, *NODE_COLUMNS, where=_LIVE_NODES) == expected

    def _take(
        self, connection: Connection, since: datetime | None, load: Load, hosts: frozenset[str] | None
    ) -> None:
        """Read what changed among the rows with a late stamp, or among all if ``since`` is None."""
        found = self._read_hashes(connection, since)
        wanted = {
            row.id: row.hash for row in found if row.deleted == 0 and (hosts is None or row.host in hosts)
        }
        # Rows are read after their hashes: one that changes between the two is read again next time.
        changed = {number: found for number, found in wanted.items() if self._hashes.get(number) != found}
        gone = self._hashes.keys() - wanted.keys()
        if since is not None:
            gone &= {row.id for row in found}
        if changed or gone:
            loaded: dict[int, HostRow | None] = dict.fromkeys(changed)
            whole = since is None and len(changed) > READ_ALL_SHARE * len(found)
            for row in self._rows(connection, changed, whole=whole):
                if row.id in changed:
                    loaded[row.id] = load(row)
            self.rows = merged(self.rows, gone, loaded)
            self._hashes = {n: each for n, each in self._hashes.items() if n not in gone} | changed

    @staticmethod
    def _read_hashes(connection: Connection, since: datetime | None) -> list[sa.Row]:
        """Return id, host, ``deleted`` and hash of the live rows, or of all with a late stamp."""
        if since is None:
            return list(connection.execute(_hashes(connection.dialect.name).where(_LIVE_NODES)))
        return list(connection.execute(_late_hashes(connection.dialect.name), {"since": since}))

    def _rows(self, connection: Connection, wanted: Iterable[int], *, whole: bool) -> Iterator[sa.Row]:
        """Yield these rows, few in memory at a time: each takes 10 KiB until it is loaded."""
        wanted = sorted(wanted)
        query = _NODES.execution_options(yield_per=ROWS_AT_ONCE)
        pieces = (
            [query] if whole else [query.where(compute_nodes.c.id.in_(piece)) for piece in chunks(wanted)]
        )
        try:
            for each in pieces:
                yield from connection.execute(each)
        except UNREADABLE:
            raise
        except Exception as error:  # noqa: BLE001 - a driver may raise anything for a value it cannot convert
            LOG.debug("Reading compute nodes one by one, as one cannot be converted: %s", error)
            for number in wanted:
                yield from self._row(connection, number)

    def _row(self, connection: Connection, number: int) -> Iterable[sa.Row]:
        """Return the row with this id, if it is there and can be converted."""
        _replace(connection)
        try:
            return connection.execute(_NODES.where(compute_nodes.c.id == number)).all()
        except UNREADABLE:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            self._reports.warning(
                number, "Skipped the unreadable compute node with id %d: %s", number, brief(error)
            )
            return ()


_LIVE_NODES = compute_nodes.c.deleted == 0
_NODES = sa.select(*NODE_COLUMNS).where(_LIVE_NODES)


def _hashes(dialect: str) -> sa.Select:
    columns = compute_nodes.c
    return sa.select(columns.id, columns.host, columns.deleted, row_hash(dialect, NODE_COLUMNS).label("hash"))


@cache
def _late_hashes(dialect: str) -> sa.Select:
    columns = compute_nodes.c
    since: sa.BindParameter[datetime] = sa.bindparam("since")
    return _hashes(dialect).where(
        sa.or_(columns.updated_at >= since, columns.created_at >= since, columns.deleted_at >= since)
    )


def _replace(connection: Connection) -> None:
    """Go on with a new connection of the driver.

    The old one stopped amid an answer; what is left of that must not be taken for the next answer.
    """
    if connection.dialect.name != "sqlite":  # which reads from a file, and only what is needed
        connection.invalidate()
        connection.rollback()


def merged(old: Mapping[int, Any], gone: Iterable[int], fresh: Mapping[int, Any]) -> Mapping[int, Any]:
    """Merge changes into values by id, in stable order.

    Args:
        old: The values before.
        fresh: Values that are added or replaced; None removes one.

    Returns:
        ``old`` itself if nothing differs.
    """
    new = dict(old)
    for number in [*gone, *(number for number, value in fresh.items() if value is None)]:
        new.pop(number, None)
    changed = {
        number: value for number, value in fresh.items() if value is not None and value != new.get(number)
    }
    return new | changed if changed or len(new) < len(old) else old


def _seen_later(service: ServiceRow, later: timedelta) -> ServiceRow:
    seen = service.last_seen_up
    return service if service.alive or seen is None else replace(service, last_seen_up=seen + later)


@dataclass(frozen=True)
class CellRows:
    """The live rows of a cell.

    Attributes:
        nodes: The compute nodes by id.
        services: The compute services by (cell uuid, host).
        read_at: Monotonic seconds at which reading began.
        seen_since: Since when the services that are alive were seen; None without a reading.
    """

    nodes: Mapping[int, HostRow] = field(default_factory=dict)
    services: Mapping[tuple[str, str], ServiceRow] = field(default_factory=dict)
    read_at: float = float("-inf")
    seen_since: datetime | None = None


class CellTracker:
    """Tracks the compute nodes and services of one cell. Any thread may use ``rows`` at any time."""

    def __init__(
        self,
        cell: Cell,
        loader: RowLoader,
        clock: Callable[[], float] = time.monotonic,
        down_time: Callable[[], float] = lambda: 60.0,
    ) -> None:
        """Track nothing yet.

        Args:
            down_time: Returns the seconds without a heartbeat after which a service is down.
        """
        self.rows = CellRows()
        self._cell = cell
        self._loader = loader
        self._clock = clock
        self._lock = threading.Lock()
        self._service_rows: Mapping[int, ServiceRow] | None = None
        self._aged: tuple[CellRows, float, CellRows] | None = None
        self._services = ServiceTracker(down_time, clock)
        self._nodes = NodeTracker(clock)

    def update(self, engine: Engine, hosts: frozenset[str] | None = None) -> bool:
        """Bring ``rows`` up to date.

        Args:
            hosts: The service hosts whose nodes are wanted; None: all.

        Returns:
            False if nothing was done, since another thread is doing so.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            with engine.connect() as connection:
                read_at = self._clock()
                self._services.update(connection)
                known = self._services.rows
                load = partial(self._loader.node, cell_uuid=self._cell.uuid, services=known)
                self._nodes.update(connection, load, hosts)
            services = self.rows.services
            if known is not self._service_rows:
                services = {(self._cell.uuid, service.host): service for service in known.values()}
            self.rows = CellRows(self._nodes.rows, services, read_at, self._services.seen_since)
            self._service_rows = known
            return True
        finally:
            self._lock.release()

    def rows_at(self, now: float, step: float) -> CellRows:
        """Return the rows as they are used ``now``.

        If they could not be read for some time, the heartbeats of services are moved on by that time, in
        whole steps: what could not be read is no sign that a service has stopped.

        Args:
            now: Seconds of the clock.
            step: Seconds.
        """
        rows = self.rows
        age = (now - rows.read_at) // step * step
        if age <= 0:
            return rows
        aged = self._aged
        if aged is None or aged[0] is not rows or aged[1] != age:
            later = timedelta(seconds=age)
            services = {key: _seen_later(service, later) for key, service in rows.services.items()}
            seen_since = rows.seen_since and rows.seen_since + later
            aged = self._aged = rows, age, replace(rows, services=services, seen_since=seen_since)
        return aged[2]
