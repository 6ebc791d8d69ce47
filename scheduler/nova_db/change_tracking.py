"""The services and compute nodes of a cell, kept up to date by reading only what changed.

A service changes with each of its heartbeats: at 10,000 computes a thousand do in a second. They are read as
seldom as they can be without a service being taken for down that is up.

spec: host-state-and-cells 3.9, 4.1
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
import math
import sys
import threading
import time
from typing import Any, NamedTuple

from oslo_log import log as logging
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from scheduler.hosts.rows import HostRow, ServiceRow
from scheduler.logs import RateLimitedLogger, brief
from scheduler.nova_db.cells import UNREADABLE, Cell
from scheduler.nova_db.fingerprints import (
    Changes,
    Fingerprints,
    FingerprintText,
    read_hashes,
    read_texts,
    row_hash,
)
from scheduler.nova_db.row_loader import NODE_COLUMNS, REPORT_INTERVAL, RowLoader
from scheduler.nova_db.schema import chunks, compute_nodes, services, utcnow

LOG = logging.getLogger(__name__)

NODE_FINGERPRINT = (
    "uuid",
    "host",
    "hypervisor_hostname",
    "updated_at",
    "free_ram_mb",
    "free_disk_gb",
    "disk_available_least",
    "vcpus_used",
    "memory_mb_used",
    "local_gb_used",
)

# Above this share of all rows, reading all of them is faster than naming those that are wanted.
READ_ALL_SHARE = 0.3

# Rows that the driver converts at a time.
ROWS_AT_ONCE = 200

# Where stamps are whole seconds, another write within the same second may not show in the fingerprint. So
# many seconds later a hash of the whole row tells whether there was one.
REREAD_DELAY = 2.0

# What a heartbeat changes in the row of a service, and what never changes in the row of a compute service.
HEARTBEAT = ("report_count", "last_seen_up", "updated_at")
FIXED = ("binary", "topic", "created_at")

# A heartbeat whose age is above this share of the limit is read at each poll, all others at this interval: so
# many seconds, or this share of the limit if that is less. A heartbeat that decides is thus never older than
# three quarters of the limit, unless it is the last one.
SILENT_SHARE = 0.25
HEARTBEATS_SHARE = 0.5
HEARTBEATS_INTERVAL = 30.0

# Seconds by which the wall clock may depart from the monotonic one until it counts as set: heartbeats that
# were read before may be late by the new time alone, so all are read again.
CLOCK_DRIFT = 1.0
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - as all stamps in the databases, UTC without a zone

# The columns of a service but its id, and among them those that its fingerprint has.
_SERVICE_COLUMNS = tuple(name for name in ServiceRow.__slots__ if name != "id")
_SERVICE_FINGERPRINT = tuple(name for name in _SERVICE_COLUMNS if name not in HEARTBEAT + FIXED)


class ServiceTracker:
    """The live compute services by id.

    A service that is up by a heartbeat read before is up: a later heartbeat cannot change that. One that has
    not reported for a while may have since, so its heartbeat is read at each update.
    """

    def __init__(
        self,
        down_time: Callable[[], float] = lambda: math.inf,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utcnow,
    ) -> None:
        """Track no service yet.

        Args:
            down_time: Returns the seconds without a heartbeat after which a service is down.
            clock: Seconds that only grow.
            now: Returns the time in UTC, without a zone.
        """
        self._down_time = down_time
        self._clock = clock
        self._now = now
        self._live = [services.c.deleted == 0, services.c.binary == "nova-compute"]
        self._fingerprints = Fingerprints(services, _SERVICE_FINGERPRINT, self._live)
        self._heartbeats_due = -math.inf
        self._wall_ahead = math.nan
        self._silent: set[int] = set()
        self.rows: Mapping[int, ServiceRow] = {}

    def read_fingerprints(self, connection: Connection) -> FingerprintText:
        """Return the fingerprints of the services as they are now."""
        return self._fingerprints.read(connection)

    def update(self, connection: Connection, found: FingerprintText | None = None) -> None:
        """Bring ``rows`` up to date. They stay the same mapping if nothing changed.

        Args:
            connection: The connection to the cell; what it reads is not older than ``found``.
            found: The fingerprints as read before; None: they are read now.
        """
        changes = self._fingerprints.compare(found or self.read_fingerprints(connection))
        every = self._clock() >= self._heartbeats_due or self._clock_was_set()
        fresh = self._changed(connection, changes)
        silent = self._silent - changes.changed - changes.gone
        if every or silent:
            whole = every or len(silent) > READ_ALL_SHARE * changes.row_count
            fresh |= self._heartbeats(connection, changes, None if whole else sorted(silent))
        self.rows = merged(self.rows, changes.gone, fresh)
        self._fingerprints.accept()
        self._note_silent(changes.changed, every=every)

    def _changed(self, connection: Connection, changes: Changes) -> dict[int, ServiceRow]:
        if not changes.changed:
            return {}
        found = read_texts(connection, services, _SERVICE_COLUMNS, self._live, sorted(changes.changed))
        return {
            number: ServiceRow(number, **_values(_SERVICE_COLUMNS, texts)) for number, texts in found.items()
        }

    def _heartbeats(
        self, connection: Connection, changes: Changes, ids: Iterable[int] | None
    ) -> dict[int, ServiceRow]:
        """Return the services with these ids, or all for None, with their heartbeats as they are now.

        Those that have changed otherwise, too, are left out.
        """
        if not self.rows:
            return {}
        found = read_texts(connection, services, HEARTBEAT, self._live, ids)
        return {
            number: replace(self.rows[number], **_values(HEARTBEAT, texts))
            for number, texts in found.items()
            if number in self.rows and number not in changes.changed
        }

    def _note_silent(self, changed: Iterable[int], *, every: bool) -> None:
        """Note which services have not reported for a while."""
        down_time, now = self._down_time(), self._now()
        if every:
            self._heartbeats_due = self._clock() + min(HEARTBEATS_INTERVAL, HEARTBEATS_SHARE * down_time)
            self._wall_ahead = self._seconds_ahead()
        numbers: Iterable[int] = self.rows if every else changed
        rows = [self.rows[number] for number in numbers if number in self.rows]
        silent = {row.id for row in rows if not _reported_within(row, SILENT_SHARE * down_time, now)}
        self._silent = silent if every else self._silent | silent

    def _clock_was_set(self) -> bool:
        """Return whether the wall clock was set since all heartbeats were read, or the machine suspended."""
        return abs(self._seconds_ahead() - self._wall_ahead) > CLOCK_DRIFT

    def _seconds_ahead(self) -> float:
        return (self._now() - EPOCH).total_seconds() - self._clock()


def _reported_within(service: ServiceRow, limit: float, now: datetime) -> bool:
    """Tell whether a service has sent a heartbeat at most ``limit`` seconds ago, or ahead by its clock."""
    seen = service.last_seen_up
    return seen is not None and abs((now - seen).total_seconds()) <= limit


class NodeTracker:
    """The live compute nodes by id. Those that changed are read whole, with their long texts.

    Fingerprints are read of all nodes; of hosts that are not wanted, nothing else is.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._live = [compute_nodes.c.deleted == 0]
        self._fingerprints = Fingerprints(compute_nodes, NODE_FINGERPRINT, self._live)
        self._suspects: dict[int, _Suspect] = {}
        self._reports = RateLimitedLogger(LOG, REPORT_INTERVAL, clock)
        self.rows: Mapping[int, HostRow] = {}
        self._hosts: frozenset[str] | None = None
        self._host_of: dict[int, str] = {}

    def read_fingerprints(self, connection: Connection) -> FingerprintText:
        """Return the fingerprints of the nodes as they are now."""
        return self._fingerprints.read(connection)

    def update(
        self,
        connection: Connection,
        load: Callable[[sa.Row], HostRow | None],
        hosts: frozenset[str] | None = None,
        found: FingerprintText | None = None,
    ) -> None:
        """Bring ``rows`` up to date. They stay the same mapping if nothing changed.

        Args:
            connection: The connection to the cell; what it reads is not older than ``found``.
            load: Makes the value of a row.
            hosts: The service hosts that are wanted; None: all.
            found: The fingerprints as read before; None: they are read now.
        """
        changes = self._fingerprints.compare(found or self.read_fingerprints(connection))
        changes = self._among(hosts, changes, connection)
        due = {number for number, suspect in self._suspects.items() if suspect.due <= self._clock()}
        if changes or due:
            wanted = changes.changed | self._rewritten(connection, due - changes.changed - changes.gone)
            loaded: dict[int, HostRow | None] = dict.fromkeys(wanted)
            hashes: dict[int, str] = {}
            for row in self._rows(connection, wanted, changes.row_count):
                if row.id in wanted:
                    loaded[row.id], hashes[row.id] = load(row), str(row.hash)
            self.rows = merged(self.rows, changes.gone, loaded)
            for number in due | changes.gone:
                self._suspects.pop(number, None)
            self._suspect(changes.changed & self.rows.keys(), hashes)
        self._hosts = hosts
        self._fingerprints.accept()

    def _among(self, hosts: frozenset[str] | None, changes: Changes, connection: Connection) -> Changes:
        """Return the changes as if there were no other hosts than these; also if others were wanted before.

        The count of rows is without a limit, so that nodes are read one by one, and not all of the table.
        """
        if hosts is None:
            return changes
        for number in changes.gone:
            self._host_of.pop(number, None)
        found = read_texts(connection, compute_nodes, ["host"], self._live, sorted(changes.changed))
        self._host_of |= {number: host for number, (host,) in found.items()}
        changed = {number for number in found if self._host_of[number] in hosts}
        gone = changes.gone | (changes.changed - changed)
        if hosts != self._hosts:
            gone |= {number for number in self.rows if self._host_of.get(number) not in hosts}
            changed |= {n for n, host in self._host_of.items() if host in hosts and n not in self.rows}
        return Changes(changed, gone & self.rows.keys(), sys.maxsize)

    def _query(self, connection: Connection) -> sa.Select:
        """Return the query for whole rows, and their hashes."""
        digest = row_hash(connection.dialect.name, NODE_COLUMNS).label("hash")
        return sa.select(*NODE_COLUMNS, digest).where(*self._live)

    def _rows(self, connection: Connection, wanted: Iterable[int], row_count: int) -> Iterator[sa.Row]:
        """Yield these rows, few in memory at a time: each takes 10 KiB until it is loaded."""
        wanted = sorted(wanted)
        whole = len(wanted) > READ_ALL_SHARE * row_count
        conditions = [compute_nodes.c.id.in_(piece) for piece in chunks(wanted)]
        query = self._query(connection).execution_options(yield_per=ROWS_AT_ONCE)
        queries = [query] if whole else [query.where(one) for one in conditions]
        try:
            for each in queries:
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
            return connection.execute(self._query(connection).where(compute_nodes.c.id == number)).all()
        except UNREADABLE:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            self._reports.warning(
                number, "Skipped the unreadable compute node with id %d: %s", number, brief(error)
            )
            return ()

    def _rewritten(self, connection: Connection, due: set[int]) -> set[int]:
        """Return which of these suspects were written again since they were read."""
        if not due:
            return set()
        now = read_hashes(connection, compute_nodes, NODE_COLUMNS, sorted(due))
        return {number for number in due if now.get(number) != self._suspects[number].hash}

    def _suspect(self, numbers: Iterable[int], hashes: Mapping[int, str]) -> None:
        """Note those of these rows, just read, that may be written again with the same fingerprint."""
        when = self._clock() + REREAD_DELAY
        self._suspects |= {
            number: _Suspect(when, hashes[number])
            for number in numbers
            if _in_whole_seconds(self.rows[number])
        }


class _Suspect(NamedTuple):
    """A row that may be written again unseen: when to look at it, and the hash of it as it was read."""

    due: float
    hash: str


def _replace(connection: Connection) -> None:
    """Go on with a new connection of the driver.

    The old one stopped amid an answer; what is left of that must not be taken for the next answer.
    """
    if connection.dialect.name != "sqlite":  # which reads from a file, and only what is asked for
        connection.invalidate()
        connection.rollback()


def merged(old: Mapping[int, Any], gone: Iterable[int], fresh: Mapping[int, Any]) -> Mapping[int, Any]:
    """Merge changes into values by id, in stable order.

    Args:
        old: The values before.
        gone: Ids whose values are removed.
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


def _values(names: Iterable[str], texts: Iterable[str]) -> dict[str, Any]:
    """Return the values of columns of ``services`` by name."""
    return {name: _READERS[name](text) for name, text in zip(names, texts, strict=True)}


def _reader(kind: sa.types.TypeEngine) -> Callable[[str], Any]:
    """Return the function that reads a value of a column's type from text.

    '' is null, and a null boolean is false.
    """
    if isinstance(kind, sa.Boolean):
        return lambda text: text in ("1", "true")
    readers: dict[type, Callable[[str], Any]] = {sa.Integer: int, sa.DateTime: datetime.fromisoformat}
    read = readers.get(type(kind), str)
    return lambda text: _value_or_none(read, text) if text else None


_READERS = {name: _reader(services.c[name].type) for name in _SERVICE_COLUMNS}


def _value_or_none(read: Callable[[str], Any], text: str) -> Any:
    """Return None for a text that is no such value: MySQL can store a day zero."""
    try:
        return read(text)
    except ValueError:
        return None


def _seen_later(service: ServiceRow, later: timedelta) -> ServiceRow:
    seen = service.last_seen_up
    return service if seen is None else replace(service, last_seen_up=seen + later)


def _in_whole_seconds(row: HostRow) -> bool:
    """Tell whether the row's stamp has no fraction, as in MySQL: another write may have the same stamp."""
    return row.updated is not None and row.updated.microsecond == 0


@dataclass(frozen=True)
class CellRows:
    """The live rows of a cell.

    Attributes:
        nodes: The compute nodes by id.
        services: The compute services by (cell uuid, host).
        read_at: Monotonic seconds at which reading began.
    """

    nodes: Mapping[int, HostRow] = field(default_factory=dict)
    services: Mapping[tuple[str, str], ServiceRow] = field(default_factory=dict)
    read_at: float = float("-inf")


class CellTracker:
    """Tracks the compute nodes and services of one cell. Any thread may use ``rows`` at any time."""

    def __init__(
        self,
        cell: Cell,
        loader: RowLoader,
        clock: Callable[[], float] = time.monotonic,
        down_time: Callable[[], float] = lambda: math.inf,
    ) -> None:
        """Track nothing yet.

        Args:
            cell: The cell.
            loader: Loads its rows.
            clock: Seconds that only grow.
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
            engine: The engine of the cell.
            hosts: The service hosts whose nodes are wanted; None: all.

        Returns:
            False if nothing was done, since another thread is doing so.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            with engine.connect() as connection:
                read_at = self._clock()
                services = self._services.read_fingerprints(connection)
                nodes = self._nodes.read_fingerprints(connection)
                self._services.update(connection, services)
                known = self._services.rows
                load = partial(self._loader.node, cell_uuid=self._cell.uuid, services=known)
                self._nodes.update(connection, load, hosts, nodes)
            self.rows = CellRows(self._nodes.rows, self._by_host(known), read_at)
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
            aged = self._aged = rows, age, replace(rows, services=services)
        return aged[2]

    def _by_host(self, rows: Mapping[int, ServiceRow]) -> Mapping[tuple[str, str], ServiceRow]:
        if rows is self._service_rows:
            return self.rows.services
        return {(self._cell.uuid, service.host): service for service in rows.values()}
