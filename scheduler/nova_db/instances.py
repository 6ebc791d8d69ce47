"""Which instances are on which hosts, read from the cells when a request needs it.

The answers are as current as the databases. What computes cast about their instances is used only to read
image properties again (spec: host-state-and-cells 5.4, 5.7). Berth's own rules need the uuids of instances
alone; other attributes are read when an operator's rule needs them (spec: filters-and-weighers 1.12).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
import threading
from typing import Any

from cachetools import LRUCache
import orjson
from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.hosts.request_instances import HostKey, InstanceSource
from scheduler.hosts.rows import Interner
from scheduler.logs import OutageLog
from scheduler.nova_db.cells import Cell, Cells
from scheduler.nova_db.scatter_gather import CellAnswer, CellCalls
from scheduler.nova_db.schema import (
    compute_nodes,
    instance_extra,
    instance_system_metadata,
    instances,
)
from scheduler.objects import Flavor

LOG = logging.getLogger(f"nova.{__name__}")

IMAGE_PREFIX = "image_"

# What is no property of an image, as nova reads it (spec: wire-and-config 3.12).
NO_PROPERTIES = {"mappings", "block_device_mapping", "img_mappings", "img_block_device_mapping"}

SOFT_DELETED = "soft-delete"

# Instances whose images are remembered.
MAX_REMEMBERED = 200_000

# Instances whose hosts are remembered, for the time when their cell cannot be read.
MAX_LOCATED = 20_000

NAMES = tuple(
    "uuid host node project_id user_id display_name vm_state task_state memory_mb vcpus root_gb ephemeral_gb "
    "availability_zone hidden".split()
)
COLUMNS = tuple(instances.c[name] for name in NAMES)
FLAVOR = tuple(instance_extra.c[name] for name in ("instance_uuid", "flavor"))
METADATA = tuple(instance_system_metadata.c[name] for name in ("instance_uuid", "key", "value"))


class HostInstance:
    """An instance on a host, as operators' rules see it.

    It has its ``uuid``, the attributes in ``NAMES``, ``flavor`` and ``system_metadata``. The first use of one
    other than the uuid reads it for all instances of the host. ``AttributeError`` is raised for any other
    attribute, and for one that cannot be read.
    """

    def __init__(self, uuid: str, read: Callable[[str], Mapping[str, Any]]) -> None:
        """Show an instance; ``read`` returns a kind of ``_KINDS`` by uuid, for all instances of the host."""
        self.uuid = uuid
        self._read = read

    @property
    def system_metadata(self) -> dict[str, str | None]:
        """Text by key; empty if it cannot be read."""
        return self._read("system_metadata").get(self.uuid, {})

    def __getattr__(self, name: str) -> Any:
        if name not in (*NAMES, "flavor"):
            raise AttributeError(f"{name} of instances is not read")
        value = self._read("flavor" if name == "flavor" else "row").get(self.uuid)
        if value is None:
            raise AttributeError(f"{name} of instance {self.uuid} cannot be read")
        return value if name == "flavor" else getattr(value, name)


def _flavors(rows: Iterable[sa.Row]) -> dict[str, Flavor]:
    """Return the current flavors."""
    stored = {row.instance_uuid: orjson.loads(row.flavor)["cur"] for row in rows if row.flavor}
    return {uuid: Flavor.obj_from_primitive(current) for uuid, current in stored.items()}


def _metadata(rows: Iterable[sa.Row]) -> dict[str, dict[str, str | None]]:
    metadata: dict[str, dict[str, str | None]] = {}
    for row in rows:
        metadata.setdefault(row.instance_uuid, {})[row.key] = row.value
    return metadata


# The columns of each kind, the first of them the uuid of the instance, and what their rows are by it.
_KINDS: dict[str, tuple[Sequence[sa.Column], Callable[[Iterable[sa.Row]], Mapping[str, Any]]]] = {
    "row": (COLUMNS, lambda rows: {row.uuid: row for row in rows}),
    "flavor": (FLAVOR, _flavors),
    "system_metadata": (METADATA, _metadata),
}


class Image(dict[str, str]):
    """The properties of an image; an ``Interner`` refers to it weakly."""


class CellInstances(InstanceSource):
    """Where instances are by the cells' databases. Any thread may use it.

    A cell that cannot be read is reported; the hosts of instances are then those of its last answer.
    """

    def __init__(self, cells: Cells, calls: CellCalls) -> None:
        """Read instances of some cells."""
        self._cells = cells
        self._calls = calls
        self._lock = threading.Lock()  # of both caches
        self._last_hosts: LRUCache[tuple[str, str], str] = LRUCache(MAX_LOCATED)
        self._images: LRUCache[str, Image] = LRUCache(MAX_REMEMBERED)
        self._image: Interner[Image] = Interner(Image)
        self._outages = OutageLog(
            LOG, "Cannot read the instances of cell %s", "Instances of cell %s are read again"
        )

    def locate(
        self, uuids: Iterable[str], cell_uuids: Collection[str] | None = None
    ) -> Mapping[str, Sequence[HostKey]]:
        """Return the hosts of instances; an instance has two during a resize between cells.

        Soft-deleted and hidden instances count, deleted rows do not.

        Args:
            cell_uuids: The cells that are asked; None: all.

        Returns:
            (cell uuid, service host) of each of them that is on some host.
        """
        wanted = list(dict.fromkeys(uuids))
        places: dict[str, list[HostKey]] = {}
        cells = [cell for cell in self._cells.all if cell_uuids is None or cell.uuid in cell_uuids]
        answers = self._ask(cells, lambda cell: self._hosts_of(cell, wanted))
        for cell_uuid, answer in answers.items():
            for uuid, host in self._last_known(cell_uuid, wanted, answer).items():
                places.setdefault(uuid, []).append((cell_uuid, host))
        return places

    def _last_known(self, cell_uuid: str, wanted: Iterable[str], answer: CellAnswer) -> dict[str, str]:
        """Return the hosts by an answer of a cell, which is remembered; or those of earlier answers."""
        hosts, known = self._last_hosts, {}
        with self._lock:
            for uuid in wanted:
                last = hosts.pop((cell_uuid, uuid), None)
                host = last if answer.error else answer.value.get(uuid)
                if host is not None:
                    known[uuid] = hosts[cell_uuid, uuid] = host
        return known

    def hosts_of_instances(self, uuids: Iterable[str]) -> tuple[set[str], bool]:
        """Return the service hosts of instances, for server groups.

        Soft-deleted and hidden instances do not count, as in the hosts of a group that conductors send.

        Returns:
            The hosts, and whether all cells have answered.
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

    def nodes_of_hosts(self, hosts: Iterable[str]) -> set[str]:
        """Return the uuids of the compute nodes of these service hosts, whose names compare without case."""
        columns = compute_nodes.c
        query = sa.select(columns.uuid).where(columns.deleted == 0, columns.uuid.is_not(None))
        names = {host.lower() for host in hosts}
        name = sa.func.lower(columns.host)
        answers = self._ask(self._cells.all, lambda cell: self._cells.rows_with(cell, query, name, names))
        return {row.uuid for answer in answers.values() for row in answer.value or ()}

    def on_host(self, cell_uuid: str, host: str) -> Mapping[str, HostInstance]:
        """Return all instances of a host by uuid; none if its cell cannot be read."""
        uuids = self._uuids_on([(cell_uuid, host)]).get((cell_uuid, host), [])

        @cache
        def read(kind: str) -> Mapping[str, Any]:
            columns, by_uuid = _KINDS[kind]
            query = sa.select(*columns).where(columns[0].table.c.deleted == 0)
            rows = self._per_cell(
                {cell_uuid: uuids}, lambda cell, _: self._cells.rows_with(cell, query, columns[0], uuids)
            )
            return by_uuid(rows.get(cell_uuid, ()))

        return {uuid: HostInstance(uuid, read) for uuid in uuids}

    def image_properties(self, places: Iterable[HostKey]) -> Mapping[HostKey, Sequence[Mapping[str, str]]]:
        """Return the image properties of every instance on some hosts.

        An image is read once for each instance, and again after a cast about the instance. Equal images are
        the same object: there are few, so weighers look at each once.

        Args:
            places: (cell uuid, service host) of the hosts.

        Returns:
            Text by name as stored, for each instance of a host; hosts without instances are left out.
        """
        on_host = self._uuids_on(places)
        with self._lock:
            known = self._images
            image_of = {uuid: known[uuid] for uuids in on_host.values() for uuid in uuids if uuid in known}
        unread: dict[str, list[str]] = {}
        for (cell_uuid, _), uuids in on_host.items():
            unread.setdefault(cell_uuid, []).extend(uuid for uuid in uuids if uuid not in image_of)
        for images in self._per_cell(unread, self._read_images).values():
            read = {uuid: self._image(frozenset(image.items())) for uuid, image in images.items()}
            with self._lock:
                self._images.update(read)
            image_of |= read
        return {place: [image_of.get(uuid, {}) for uuid in uuids] for place, uuids in on_host.items()}

    def reread_images(self, uuids: Iterable[str]) -> None:
        """Read the image properties of these instances again: one may have been rebuilt."""
        with self._lock:
            for uuid in uuids:
                self._images.pop(uuid, None)

    def _ask(self, cells: Iterable[Cell], read: Callable[[Cell], Any]) -> Mapping[str, CellAnswer]:
        answers = self._calls.scatter_gather(cells, read)
        for uuid, answer in answers.items():
            if answer.error:
                self._outages.report_failure(answer.error, uuid)
            else:
                self._outages.report_success(uuid)
        return answers

    # -- reading ---------------------------------------------------------------------------------------------

    def _hosts_of(self, cell: Cell, uuids: list[str], *conditions: sa.ColumnElement) -> dict[str, str]:
        columns = instances.c
        query = sa.select(columns.uuid, columns.host).where(
            columns.deleted == 0, columns.host.is_not(None), *conditions
        )
        return {row.uuid: row.host for row in self._cells.rows_with(cell, query, columns.uuid, uuids)}

    def _uuids_on(self, places: Iterable[HostKey]) -> dict[HostKey, list[str]]:
        """Return the uuids of the instances on each host that has any."""
        hosts: dict[str, list[str]] = {}
        for cell_uuid, host in places:
            hosts.setdefault(cell_uuid, []).append(host)
        uuids_on: dict[HostKey, list[str]] = {}
        columns = instances.c
        query = sa.select(columns.uuid, columns.host).where(columns.deleted == 0)
        rows_on = self._per_cell(
            hosts, lambda cell, names: self._cells.rows_with(cell, query, columns.host, names)
        )
        for cell_uuid, rows in rows_on.items():
            for row in rows:
                uuids_on.setdefault((cell_uuid, row.host), []).append(row.uuid)
        return uuids_on

    def _read_images(self, cell: Cell, uuids: list[str]) -> dict[str, dict[str, str]]:
        columns = instance_system_metadata.c
        query = sa.select(columns.instance_uuid, columns.key, columns.value).where(
            columns.deleted == 0, columns.key.like("image\\_%", escape="\\")
        )
        images: dict[str, dict[str, str]] = {uuid: {} for uuid in uuids}
        for row in self._cells.rows_with(cell, query, columns.instance_uuid, uuids):
            name = row.key.removeprefix(IMAGE_PREFIX)
            if row.value is not None and name not in NO_PROPERTIES:
                images[row.instance_uuid][name] = row.value
        return images

    def _per_cell(self, wanted: Mapping[str, list[str]], read: Any) -> dict[str, Any]:
        """Return what ``read`` finds in each cell for its list. Cells that cannot be read are left out."""
        cells = [cell for cell in self._cells.all if wanted.get(cell.uuid)]
        answers = self._ask(cells, lambda cell: read(cell, wanted[cell.uuid]))
        return {uuid: answer.value for uuid, answer in answers.items() if not answer.error}
