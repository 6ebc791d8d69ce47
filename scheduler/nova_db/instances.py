"""Which instances are on which hosts, asked of the cells when a request needs it.

The answers are as true as the databases at that moment; what computes cast about their instances is used only
to forget what was remembered of images. spec: host-state-and-cells 5.4, 5.7

The instances of a host as operators' rules see them: a uuid, and more for who asks.

Berth's own rules need the uuids alone. spec: filters-and-weighers 1.12

What was read once and need not be read again, as long as there is room for it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
import threading
from typing import Any

import orjson
from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.hosts.request_instances import HostKey
from scheduler.logs import OutageLog
from scheduler.nova_db.cells import Cell, Cells
from scheduler.nova_db.scatter_gather import CellAnswer, CellCalls
from scheduler.nova_db.schema import chunks, instance_extra, instance_system_metadata, instances
from scheduler.objects import Flavor

NAMES = (
    "uuid",
    "host",
    "node",
    "project_id",
    "user_id",
    "display_name",
    "vm_state",
    "task_state",
    "memory_mb",
    "vcpus",
    "root_gb",
    "ephemeral_gb",
    "availability_zone",
    "hidden",
)
COLUMNS = tuple(instances.c[name] for name in NAMES)
FLAVOR = tuple(instance_extra.c[name] for name in ("instance_uuid", "flavor"))
METADATA = tuple(instance_system_metadata.c[name] for name in ("instance_uuid", "key", "value"))

Read = Callable[[Sequence[sa.Column]], Iterable[sa.Row]]
"""Those columns of the live rows of all instances of a host; the first is the instance's uuid."""


class HostInstance:
    """An instance on a host: its uuid, what ``NAMES`` says, ``flavor`` and ``system_metadata``.

    These are read when the first of them is asked for, then for all instances of the host. AttributeError is
    raised for anything else, and for what cannot be read.
    """

    def __init__(self, uuid: str, facts: "Facts") -> None:
        self.uuid = uuid
        self._facts = facts

    @property
    def system_metadata(self) -> dict[str, str | None]:
        return self._facts.system_metadata.get(self.uuid, {})

    def __getattr__(self, name: str) -> Any:
        if name not in (*NAMES, "flavor"):
            raise AttributeError(f"{name} of instances is not read")
        known = self._facts.flavors if name == "flavor" else self._facts.rows
        if self.uuid not in known:
            raise AttributeError(f"{name} of instance {self.uuid} cannot be read")
        return known[self.uuid] if name == "flavor" else getattr(known[self.uuid], name)


class Facts:
    """What is known of the instances of one host, each kind read once."""

    def __init__(self, read: Read) -> None:
        self._read = read

    @cached_property
    def rows(self) -> Mapping[str, sa.Row]:
        return {row.uuid: row for row in self._read(COLUMNS)}

    @cached_property
    def flavors(self) -> Mapping[str, Flavor]:
        stored = {row.instance_uuid: orjson.loads(row.flavor) for row in self._read(FLAVOR) if row.flavor}
        return {uuid: Flavor.obj_from_primitive(flavors["cur"]) for uuid, flavors in stored.items()}

    @cached_property
    def system_metadata(self) -> Mapping[str, dict[str, str | None]]:
        found: dict[str, dict[str, str | None]] = {}
        for row in self._read(METADATA):
            found.setdefault(row.instance_uuid, {})[row.key] = row.value
        return found


class BoundedCache:
    """A map of bounded size: it starts anew when it is full."""

    LIMIT = 200_000

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def __contains__(self, key: Any) -> bool:
        return key in self._values

    def get(self, key: Any, default: Any = None) -> Any:
        return self._values.get(key, default)

    def put(self, values: Mapping[Any, Any]) -> None:
        with self._lock:
            if len(self._values) + len(values) > self.LIMIT:
                self._values = {}
            self._values.update(values)

    def drop(self, keys: Iterable[Any]) -> None:
        for key in keys:
            self._values.pop(key, None)


LOG = logging.getLogger(__name__)

IMAGE_PREFIX = "image_"
SOFT_DELETED = "soft-delete"


class CellInstances:
    """The ``InstanceSource`` of requests, over the cells' databases. Any thread may use it.

    A cell that cannot be read is reported, and answered for with what was last heard of the same instances.
    """

    def __init__(self, cells: Cells, calls: CellCalls) -> None:
        self._cells = cells
        self._calls = calls
        self._last = BoundedCache()
        self._images = BoundedCache()
        self._distinct = BoundedCache()
        self._outages: dict[str, OutageLog] = {}

    def locate(self, uuids: Iterable[str]) -> Mapping[str, Sequence[HostKey]]:
        """(cell uuid, service host) of each of the instances, twice during a resize between cells.

        Soft-deleted and hidden ones count, deleted rows do not.
        """
        wanted = list(dict.fromkeys(uuids))
        found: dict[str, list[HostKey]] = {}
        answers = self._ask(self._cells.all, lambda cell: self._hosts_of(cell, wanted))
        for cell_uuid, answer in answers.items():
            if answer.error:
                hosts = {uuid: self._last.get((cell_uuid, uuid)) for uuid in wanted}
            else:
                hosts = answer.value
                self._last.put({(cell_uuid, uuid): hosts.get(uuid) for uuid in wanted})
            for uuid, host in hosts.items():
                if host is not None:
                    found.setdefault(uuid, []).append((cell_uuid, host))
        return found

    def hosts_of_instances(self, uuids: Iterable[str]) -> tuple[set[str], bool]:
        """Service hosts of the given instances, and whether all cells have answered.

        Soft-deleted and hidden ones do not count, as with the hosts of a group that conductors send.
        """
        columns = instances.c
        seen = (
            sa.func.coalesce(columns.vm_state, "") != SOFT_DELETED,
            sa.func.coalesce(columns.hidden, sa.false()) == sa.false(),
        )
        wanted = list(dict.fromkeys(uuids))
        answers = self._ask(self._cells.all, lambda cell: self._hosts_of(cell, wanted, *seen))
        hosts = {host for answer in answers.values() for host in (answer.value or {}).values()}
        return hosts, not any(answer.error for answer in answers.values())

    def on_host(self, cell_uuid: str, host: str) -> Mapping[str, HostInstance]:
        """All instances of a host by uuid; none if its cell cannot be read."""
        uuids = self._held([(cell_uuid, host)]).get((cell_uuid, host), [])
        facts = Facts(lambda columns: self._live(columns, cell_uuid, uuids))
        return {uuid: HostInstance(uuid, facts) for uuid in uuids}

    def image_properties(self, places: Iterable[HostKey]) -> Mapping[HostKey, Sequence[Mapping[str, str]]]:
        """Image properties (text by name, as stored) of every instance on these hosts.

        An image is read once for each instance, until a cast tells of a change on its host. Equal ones are
        the same object: there are few, and weighers look at each once.
        """
        held = self._held(places)
        unread: dict[str, list[str]] = {}
        for (cell_uuid, _), uuids in held.items():
            unread.setdefault(cell_uuid, []).extend(uuid for uuid in uuids if uuid not in self._images)
        for images in self._per_cell(unread, self._read_images).values():
            self._images.put({uuid: self._shared(image) for uuid, image in images.items()})
        return {place: [self._images.get(uuid, {}) for uuid in uuids] for place, uuids in held.items()}

    def changed(self, uuids: Iterable[str]) -> None:
        """A compute says that something is new with these instances: one may have been rebuilt."""
        self._images.drop(uuids)

    def _shared(self, image: dict[str, str]) -> dict[str, str]:
        content = frozenset(image.items())
        known = self._distinct.get(content)
        if known is None:
            self._distinct.put({content: image})
            return image
        return known

    def _ask(self, cells: Iterable[Cell], read: Callable[[Cell], Any]) -> Mapping[str, CellAnswer]:
        answers = self._calls.scatter_gather(cells, read)
        for uuid, answer in answers.items():
            outage = self._outages.get(uuid) or self._outages.setdefault(uuid, _outage(uuid))
            if answer.error:
                outage.report_failure(answer.error)
            else:
                outage.report_success()
        return answers

    # -- reading ---------------------------------------------------------------------------------------------

    def _hosts_of(self, cell: Cell, uuids: list[str], *conditions: sa.ColumnElement) -> dict[str, str]:
        columns = instances.c
        query = sa.select(columns.uuid, columns.host).where(
            columns.deleted == 0, columns.host.is_not(None), *conditions
        )
        return {row.uuid: row.host for row in self._rows(cell, query, columns.uuid, uuids)}

    def _held(self, places: Iterable[HostKey]) -> dict[HostKey, list[str]]:
        """Uuids of the instances on each host that has any."""
        hosts: dict[str, list[str]] = {}
        for cell_uuid, host in places:
            hosts.setdefault(cell_uuid, []).append(host)
        found: dict[HostKey, list[str]] = {}
        for cell_uuid, rows in self._per_cell(hosts, self._read_hosts).items():
            for uuid, host in rows:
                found.setdefault((cell_uuid, host), []).append(uuid)
        return found

    def _read_hosts(self, cell: Cell, hosts: list[str]) -> list[tuple[str, str]]:
        columns = instances.c
        query = sa.select(columns.uuid, columns.host).where(columns.deleted == 0)
        return [(row.uuid, row.host) for row in self._rows(cell, query, columns.host, hosts)]

    def _read_images(self, cell: Cell, uuids: list[str]) -> dict[str, dict[str, str]]:
        columns = instance_system_metadata.c
        query = sa.select(columns.instance_uuid, columns.key, columns.value).where(
            columns.deleted == 0, columns.key.like("image\\_%", escape="\\")
        )
        found: dict[str, dict[str, str]] = {uuid: {} for uuid in uuids}
        for row in self._rows(cell, query, columns.instance_uuid, uuids):
            if row.value is not None:
                found[row.instance_uuid][row.key.removeprefix(IMAGE_PREFIX)] = row.value
        return found

    def _live(self, columns: Sequence[sa.Column], cell_uuid: str, uuids: list[str]) -> Sequence[sa.Row]:
        query = sa.select(*columns).where(columns[0].table.c.deleted == 0)
        rows = self._per_cell({cell_uuid: uuids}, lambda cell, _: self._rows(cell, query, columns[0], uuids))
        return rows.get(cell_uuid, ())

    def _rows(self, cell: Cell, query: sa.Select, column: sa.Column, values: Iterable[str]) -> list[sa.Row]:
        with self._cells.engine(cell).connect() as connection:
            return [
                row for piece in chunks(values) for row in connection.execute(query.where(column.in_(piece)))
            ]

    def _per_cell(self, wanted: Mapping[str, list[str]], read: Any) -> dict[str, Any]:
        """What ``read`` finds in each cell for its list; cells that cannot be read are left out."""
        cells = [cell for cell in self._cells.all if wanted.get(cell.uuid)]
        answers = self._ask(cells, lambda cell: read(cell, wanted[cell.uuid]))
        return {uuid: answer.value for uuid, answer in answers.items() if not answer.error}


def _outage(cell_uuid: str) -> OutageLog:
    return OutageLog(
        LOG,
        f"Instances of cell {cell_uuid} cannot be read",
        f"Instances of cell {cell_uuid} can be read again",
    )
