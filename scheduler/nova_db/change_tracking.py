"""The services and compute nodes of a cell, kept up to date by reading only what changed.

spec: host-state-and-cells 3.9
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
import sys
import threading
import time
from typing import Any

from oslo_log import log as logging
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from scheduler.hosts.rows import HostRow, ServiceRow
from scheduler.logs import RateLimitedLogger, brief
from scheduler.nova_db.cells import UNREADABLE, Cell
from scheduler.nova_db.fingerprints import Changes, Fingerprints
from scheduler.nova_db.row_loader import NODE_COLUMNS, REPORT_INTERVAL, RowLoader
from scheduler.nova_db.schema import chunks, compute_nodes, services

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

# Where stamps are whole seconds, another write within the same second may not show in the fingerprint. The
# row is read again so many seconds later.
REREAD_DELAY = 2.0

_HOST = NODE_FINGERPRINT.index("host")


class ServiceTracker:
    """The live compute services by id. The fingerprint of a service has all its columns."""

    def __init__(self) -> None:
        names = [name for name in ServiceRow.__slots__ if name != "id"]
        live = [services.c.deleted == 0, services.c.binary == "nova-compute"]
        self._fingerprints = Fingerprints(services, names, live)
        self._readers = [_reader(services.c[name].type) for name in names]
        self.rows: Mapping[int, ServiceRow] = {}

    def update(self, connection: Connection) -> None:
        """Bring ``rows`` up to date. They stay the same mapping if nothing changed."""
        changes = self._fingerprints.poll(connection)
        if changes:
            fresh = {number: self._service(number, texts) for number, texts in changes.changed.items()}
            self.rows = merged(self.rows, changes.gone, fresh)
        self._fingerprints.accept()

    def _service(self, number: int, texts: Sequence[str]) -> ServiceRow:
        return ServiceRow(number, *[read(text) for read, text in zip(self._readers, texts, strict=True)])


class NodeTracker:
    """The live compute nodes by id. Those that changed are read whole, with their long texts.

    Fingerprints are read of all nodes; of hosts that are not wanted, nothing else is.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        live = [compute_nodes.c.deleted == 0]
        self._fingerprints = Fingerprints(compute_nodes, NODE_FINGERPRINT, live)
        self._query = sa.select(*NODE_COLUMNS).where(*live)
        self._reread_at: dict[int, float] = {}
        self._reports = RateLimitedLogger(LOG, REPORT_INTERVAL, clock)
        self.rows: Mapping[int, HostRow] = {}
        self._hosts: frozenset[str] | None = None
        self._host_of: dict[int, str] = {}

    def update(
        self,
        connection: Connection,
        load: Callable[[sa.Row], HostRow | None],
        hosts: frozenset[str] | None = None,
    ) -> None:
        """Bring ``rows`` up to date. They stay the same mapping if nothing changed.

        Args:
            connection: The connection to the cell.
            load: Makes the value of a row.
            hosts: The service hosts that are wanted; None: all.
        """
        changes = self._among(hosts, self._fingerprints.poll(connection))
        due = {number for number, when in self._reread_at.items() if when <= self._clock()}
        if changes or due:
            wanted = changes.changed.keys() | (due - changes.gone)
            found = {row.id: load(row) for row in self._rows(connection, wanted, changes.row_count)}
            self.rows = merged(self.rows, changes.gone, {number: found.get(number) for number in wanted})
            self._schedule_rereads(changes, due)
        self._hosts = hosts
        self._fingerprints.accept()

    def _among(self, hosts: frozenset[str] | None, changes: Changes) -> Changes:
        """Return the changes as if there were no other hosts than these; also if others were wanted before.

        The count of rows is without a limit, so that nodes are read one by one, and not all of the table.
        """
        if hosts is None:
            return changes
        for number in changes.gone:
            self._host_of.pop(number, None)
        self._host_of |= {number: texts[_HOST] for number, texts in changes.changed.items()}
        changed = {n: texts for n, texts in changes.changed.items() if self._host_of[n] in hosts}
        gone = changes.gone | (changes.changed.keys() - changed.keys())
        if hosts != self._hosts:
            gone |= {number for number in self.rows if self._host_of.get(number) not in hosts}
            added = [n for n, host in self._host_of.items() if host in hosts and n not in self.rows]
            changed |= dict.fromkeys(added, ())
        return Changes(changed, gone & self.rows.keys(), sys.maxsize)

    def _rows(self, connection: Connection, wanted: Iterable[int], row_count: int) -> Iterable[sa.Row]:
        wanted = sorted(wanted)
        whole = len(wanted) > READ_ALL_SHARE * row_count
        conditions = [compute_nodes.c.id.in_(piece) for piece in chunks(wanted)]
        queries = [self._query] if whole else [self._query.where(one) for one in conditions]
        try:
            return [row for query in queries for row in connection.execute(query)]
        except UNREADABLE:
            raise
        except Exception as error:  # noqa: BLE001 - a driver may raise anything for a value it cannot convert
            LOG.debug("Rows of compute nodes are read one by one, since one cannot be converted: %s", error)
            return [row for number in wanted for row in self._row(connection, number)]

    def _row(self, connection: Connection, number: int) -> Iterable[sa.Row]:
        """Return the row with this id, if it is there and can be converted."""
        _replace(connection)
        try:
            return connection.execute(self._query.where(compute_nodes.c.id == number)).all()
        except UNREADABLE:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            self._reports.warning(number, "Compute node number %d cannot be read: %s", number, brief(error))
            return ()

    def _schedule_rereads(self, changes: Changes, due: set[int]) -> None:
        for number in due | changes.gone:
            self._reread_at.pop(number, None)
        when = self._clock() + REREAD_DELAY
        self._reread_at |= {
            n: when for n in changes.changed if n in self.rows and _in_whole_seconds(self.rows[n])
        }


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


def _reader(kind: sa.types.TypeEngine) -> Callable[[str], Any]:
    """Return the function that reads a value of a column's type from text.

    '' is null, and a null boolean is false.
    """
    if isinstance(kind, sa.Boolean):
        return lambda text: text in ("1", "true")
    readers: dict[type, Callable[[str], Any]] = {sa.Integer: int, sa.DateTime: datetime.fromisoformat}
    read = readers.get(type(kind), str)
    return lambda text: _value_or_none(read, text) if text else None


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

    def __init__(self, cell: Cell, loader: RowLoader, clock: Callable[[], float] = time.monotonic) -> None:
        self.rows = CellRows()
        self._cell = cell
        self._loader = loader
        self._clock = clock
        self._lock = threading.Lock()
        self._service_rows: Mapping[int, ServiceRow] | None = None
        self._aged: tuple[CellRows, float, CellRows] | None = None
        self._services = ServiceTracker()
        self._nodes = NodeTracker(clock)

    def update(self, engine: Engine, hosts: frozenset[str] | None = None) -> bool:
        """Bring ``rows`` up to date in one transaction.

        Args:
            engine: The engine of the cell.
            hosts: The service hosts whose nodes are wanted; None: all.

        Returns:
            False if nothing was done, since another thread is doing so.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            begun = self._clock()
            with engine.connect() as connection:
                self._services.update(connection)
                known = self._services.rows
                load = partial(self._loader.node, cell_uuid=self._cell.uuid, services=known)
                self._nodes.update(connection, load, hosts)
            self.rows = CellRows(self._nodes.rows, self._by_host(known), begun)
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
