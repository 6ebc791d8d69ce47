"""Keeping the services and compute nodes of a cell by reading only what changed.

spec: host-state-and-cells 3.9

What is known of the hosts of one cell.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
import threading
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from scheduler.hosts.rows import HostRow, ServiceRow
from scheduler.nova_db.cells import Cell
from scheduler.nova_db.fingerprints import Changes, Fingerprints
from scheduler.nova_db.row_loader import NODE_COLUMNS, RowLoader
from scheduler.nova_db.schema import chunks, compute_nodes, services

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

# Above this part of all rows, reading all of them is quicker than naming those that are wanted.
MOST = 0.3

# Where stamps are whole seconds, a second write within the second shows in no fingerprint. The row is read
# again so many seconds later.
SETTLED = 2.0


class ServiceFollower:
    """The live compute services, by id. The fingerprint of one holds all that is known of it."""

    def __init__(self) -> None:
        names = [name for name in ServiceRow.__slots__ if name != "id"]
        live = [services.c.deleted == 0, services.c.binary == "nova-compute"]
        self._fingerprints = Fingerprints(services, names, live)
        self._readers = [_reader(services.c[name].type) for name in names]
        self.rows: Mapping[int, ServiceRow] = {}

    def read(self, connection: Connection) -> None:
        """Bring ``rows`` up to date. If nothing changed they stay the same mapping."""
        changes = self._fingerprints.poll(connection)
        if changes:
            fresh = {number: self._service(number, texts) for number, texts in changes.changed.items()}
            self.rows = merged(self.rows, changes.gone, fresh)
        self._fingerprints.accept()

    def _service(self, number: int, texts: Sequence[str]) -> ServiceRow:
        return ServiceRow(number, *[read(text) for read, text in zip(self._readers, texts, strict=True)])


class NodeFollower:
    """The live compute nodes, by id. Those that changed are read whole, for their long texts."""

    def __init__(self) -> None:
        live = [compute_nodes.c.deleted == 0]
        self._fingerprints = Fingerprints(compute_nodes, NODE_FINGERPRINT, live)
        self._query = sa.select(*NODE_COLUMNS).where(*live)
        self._again: dict[int, float] = {}
        self.rows: Mapping[int, HostRow] = {}

    def read(self, connection: Connection, load: Callable[[sa.Row], HostRow | None]) -> None:
        """Bring ``rows`` up to date. If nothing changed they stay the same mapping."""
        changes = self._fingerprints.poll(connection)
        due = {number for number, when in self._again.items() if when <= time.monotonic()}
        if changes or due:
            wanted = changes.changed.keys() | (due - changes.gone)
            found = {row.id: load(row) for row in self._rows(connection, wanted, changes.among)}
            self.rows = merged(self.rows, changes.gone, {number: found.get(number) for number in wanted})
            self._look_again(changes, due)
        self._fingerprints.accept()

    def _rows(self, connection: Connection, wanted: Iterable[int], among: int) -> Iterable[sa.Row]:
        wanted = sorted(wanted)
        if len(wanted) > MOST * among:
            yield from connection.execute(self._query)
            return
        for piece in chunks(wanted):
            yield from connection.execute(self._query.where(compute_nodes.c.id.in_(piece)))

    def _look_again(self, changes: Changes, seen: set[int]) -> None:
        for number in seen | changes.gone:
            self._again.pop(number, None)
        when = time.monotonic() + SETTLED
        self._again |= {
            n: when for n in changes.changed if n in self.rows and _in_whole_seconds(self.rows[n])
        }


def merged(old: Mapping[int, Any], gone: Iterable[int], fresh: Mapping[int, Any]) -> Mapping[int, Any]:
    """The values by id, in stable order; ``old`` itself if nothing differs. None in ``fresh`` is no value."""
    new = dict(old)
    for number in [*gone, *(number for number, value in fresh.items() if value is None)]:
        new.pop(number, None)
    changed = {
        number: value for number, value in fresh.items() if value is not None and value != new.get(number)
    }
    return new | changed if changed or len(new) < len(old) else old


def _reader(kind: sa.types.TypeEngine) -> Callable[[str], Any]:
    """From a printed text to a value of a column's type; '' is null, which as a boolean counts as false."""
    if isinstance(kind, sa.Boolean):
        return lambda text: text in ("1", "true")
    read = {sa.Integer: int, sa.DateTime: datetime.fromisoformat}.get(type(kind), str)
    return lambda text: _read(read, text) if text else None


def _read(read: Callable[[str], Any], text: str) -> Any:
    """None for what is no such value: MySQL can hold a day zero."""
    try:
        return read(text)
    except ValueError:
        return None


def _in_whole_seconds(row: HostRow) -> bool:
    """Whether the row's stamp has no fraction, as in MySQL, so that another write may have gone unseen."""
    return row.updated is not None and row.updated.microsecond == 0


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
