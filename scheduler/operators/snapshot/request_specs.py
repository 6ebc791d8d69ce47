"""Flavors, server groups, and the requests of instances that exist, as nova's API database has them."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from itertools import groupby
from typing import Any

import orjson
import sqlalchemy as sa

from scheduler import objects
from scheduler.errors import BerthError, InvalidRequest
from scheduler.nova_db.cells import Cell, Cells
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import (
    chunks,
    flavor_extra_specs,
    flavors,
    instance_group_member,
    instance_group_policy,
    instance_groups,
    instances,
    request_specs,
)
from scheduler.objects import Flavor, ImageMeta, InstanceGroup, RequestSpec
from scheduler.objects.base import DATA
from scheduler.request.flavor_and_image import FlavorAndImage
from scheduler.request.reading import read

#: How many of the latest requests are searched for an image: the database has no index of images.
LATEST = 2000

_READ = ("id", "name", "flavorid", "memory_mb", "vcpus", "root_gb", "ephemeral_gb", "swap")


class NotFound(BerthError):
    """The API database does not have it."""


class RequestSpecs:
    """Reads what requests can be made of. Errors of the database are raised as they come."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    @cached_property
    def flavors(self) -> list[Flavor]:
        """All flavors with their extra specs, in order of name, as they are at the first question."""
        specs = flavor_extra_specs.c
        joined = flavors.outerjoin(flavor_extra_specs, specs.flavor_id == flavors.c.id)
        columns = (*(flavors.c[name] for name in _READ), specs.key, specs.value)
        query = sa.select(*columns).select_from(joined).order_by(flavors.c.name, flavors.c.id)
        return [
            Flavor(
                **dict(zip(_READ, values, strict=True)),
                extra_specs={row.key: row.value or "" for row in its if row.key is not None},
            )
            for values, its in groupby(self._rows(query), lambda row: row[: len(_READ)])
        ]

    def flavor(self, name: str) -> Flavor:
        """Return a flavor by its name or by its id for users.

        Raises:
            NotFound: There is none.
        """
        named = [each for each in self.flavors if each.name == name]
        named += [each for each in self.flavors if each.flavorid == name]
        if not named:
            raise NotFound(f"There is no flavor {name}")
        return named[0].obj_clone()

    def group(self, group_uuid: str) -> InstanceGroup:
        """Return a server group with its policy and its members, without their hosts.

        Raises:
            NotFound: There is none.
        """
        found = self.groups([group_uuid])
        if not found:
            raise NotFound(f"There is no server group with UUID {group_uuid}")
        return found[group_uuid]

    def groups(self, group_uuids: Iterable[str]) -> dict[str, InstanceGroup]:
        """Return those of some server groups that exist, by UUID, as ``group``."""
        groups, policies, members = instance_groups.c, instance_group_policy.c, instance_group_member.c
        joined = instance_groups.outerjoin(instance_group_policy, policies.group_id == groups.id)
        columns = (groups.id, groups.uuid, groups.name, groups.user_id, groups.project_id)
        query = sa.select(*columns, policies.policy, policies.rules).select_from(joined)
        of_group = sa.select(members.group_id, members.instance_uuid).order_by(members.id)
        found: dict[str, InstanceGroup] = {}
        for piece in chunks(group_uuids):
            rows = self._rows(query.where(groups.uuid.in_(piece)))
            uuids: dict[int, list[str]] = {row.id: [] for row in rows}
            for group_id, uuid in self._rows(of_group.where(members.group_id.in_(uuids))):
                uuids[group_id].append(uuid)
            found |= {row.uuid: _group(row, uuids[row.id]) for row in rows}
        return found

    def texts(self, instance_uuids: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the UUID of each of some instances with the request that it was made of, as stored."""
        columns = request_specs.c
        query = sa.select(columns.instance_uuid, columns.spec)
        for piece in chunks(instance_uuids):
            yield from map(tuple, self._rows(query.where(columns.instance_uuid.in_(piece))))

    def latest(self, at_most: int, since: datetime | None = None) -> list[str]:
        """Return the instances of the latest requests that are stored, the oldest first."""
        columns = request_specs.c
        query = sa.select(columns.instance_uuid).order_by(columns.id.desc()).limit(at_most)
        if since is not None:
            query = query.where(columns.created_at >= since)
        return [row.instance_uuid for row in reversed(self._rows(query))]

    def of_instance(self, instance_uuid: str) -> RequestSpec:
        """Return the request that an instance was made of."""
        for _, text in self.texts([instance_uuid]):
            return RequestSpec.obj_from_primitive(orjson.loads(text))
        raise NotFound(f"There is no request of instance {instance_uuid}")

    def image(self, image_id: str) -> ImageMeta:
        """Return an image that one of the latest requests has."""
        latest = sa.select(request_specs.c.spec).order_by(request_specs.c.id.desc()).limit(LATEST)
        for (text,) in self._rows(latest):
            image = RequestSpec.obj_from_primitive(orjson.loads(text)).image if image_id in text else None
            if image is not None and read(image, "id") == image_id:
                return image
        raise NotFound(
            f"None of the latest {LATEST} requests has image {image_id}; name its properties instead"
        )

    def _rows(self, query: sa.Select) -> list[sa.Row]:
        with self._engines.api().connect() as connection:
            return list(connection.execute(query))


def _group(row: sa.Row, members: list[str]) -> InstanceGroup:
    rules = {name: str(value) for name, value in orjson.loads(row.rules or "{}").items()}
    values = {name: value for name, value in row._mapping.items() if name != "rules"}  # noqa: SLF001
    return InstanceGroup(**values, _rules=rules, members=members)


# -- requests of instances --------------------------------------------------------------------------------

#: In place of the number of a request that is not stored or cannot be read.
MISSING = -2

#: The service version from which computes migrate a virtual TPM live whose secret the host has.
MOVES_VTPM = 72

#: What differs between instances of one request.
OWN = ("instance_uuid", "num_instances", "id", "instance_group")

#: Hints that name other instances, which may move too.
OF_INSTANCES = ("same_host", "different_host")


class StoredRequest:
    """A request that instances share, as a conductor sends it for a move: without forced and ignored hosts.

    Attributes:
        is_forced: Whether the user chose the host. A move has no such host.
        names_instances: Whether it has hints that name other instances.
    """

    def __init__(self, spec: Any) -> None:
        self.is_forced = bool(read(spec, "force_hosts") or read(spec, "force_nodes"))
        spec.force_hosts = spec.force_nodes = spec.ignore_hosts = None
        spec.retry = spec.requested_destination = None
        spec.requested_resources = []
        spec.num_instances = 1
        self._spec = spec
        self._devices = read(read(spec, "pci_requests"), "requests", ())
        self.flavor: objects.Flavor = spec.flavor
        self.has_devices = bool(self._devices)
        self.is_pinned = read(spec, "numa_topology") is not None
        self.boots_from_volume = bool(read(spec, "is_bfv"))
        self.names_instances = any(hint in read(spec, "scheduler_hints", {}) for hint in OF_INSTANCES)

    def spec(self) -> objects.RequestSpec:
        """Return a copy of it."""
        return self._spec.obj_clone()

    def cold_only(self, compute_version: int) -> str:
        """Return for what nova does not migrate its instances live; "" if it does.

        The version is the lowest service version of any compute.
        """
        if not all(one.source == one.NEUTRON_PORT or one.is_live_migratable() for one in self._devices):
            return "PCI devices"
        wishes = FlavorAndImage(self._spec)
        if wishes.flag("hw:mem_encryption") or wishes.image("hw_mem_encryption"):
            return "encrypted memory"
        security = wishes.extra_specs.get("hw:tpm_secret_security")
        if self.has_vtpm and (security != "host" or compute_version < MOVES_VTPM):
            return "virtual TPM"
        return ""

    @property
    def has_vtpm(self) -> bool:
        """Whether its instances have a virtual TPM, which nova evacuates in no state."""
        wishes = FlavorAndImage(self._spec)
        return bool(wishes.extra_specs.get("hw:tpm_version") or wishes.image("hw_tpm_version"))


class StoredRequests(list[StoredRequest]):
    """Distinct requests by number. Most of 100,000 stored texts differ in the UUID of the instance only."""

    def __init__(self) -> None:
        self._of_content: dict[bytes, int] = {}
        self._of_text: dict[int, tuple[int, str | None]] = {}

    def add(self, uuid: str, text: str) -> tuple[int, str | None]:
        """Return the number of an instance's request, or ``MISSING``, and the UUID of its server group."""
        key = hash(text.replace(uuid, ""))
        if key not in self._of_text:
            self._of_text[key] = self._add(text)
        return self._of_text[key]

    def _add(self, text: str) -> tuple[int, str | None]:
        try:
            primitive = orjson.loads(text)
            spec = objects.RequestSpec.obj_from_primitive(primitive)
            data = primitive[DATA]
            content = orjson.dumps({name: data[name] for name in sorted(data.keys() - set(OWN))})
            group = read(read(spec, "instance_group"), "uuid")
            stored = StoredRequest(spec)
        except (ValueError, InvalidRequest, KeyError, TypeError):
            return MISSING, None
        number = self._of_content.setdefault(content, len(self))
        if number == len(self):
            self.append(stored)
        return number, group


# -- all instances ----------------------------------------------------------------------------------------

#: Instances that one statement reads.
PAGE = 20_000


def instance_pages(cells: Cells, calls: CellCalls) -> Iterator[tuple[Cell, Sequence[sa.Row]]]:
    """Yield the live instances of all cells that are on a host; unset states and names are "".

    A cell that cannot be read raises its error.
    """
    columns = instances.c
    texts = columns.vm_state, columns.task_state, columns.display_name, columns.project_id
    names = columns.id, columns.uuid, columns.host, columns.node, columns.hidden
    query = sa.select(*names, *(sa.func.coalesce(each, "").label(each.name) for each in texts))
    query = query.where(columns.deleted == 0, columns.host.is_not(None)).order_by(columns.id).limit(PAGE)
    for cell in cells.all:
        last = 0
        while rows := _rows(cells, calls, cell, query.where(columns.id > last)):
            last = rows[-1].id
            yield cell, rows


def _rows(cells: Cells, calls: CellCalls, cell: Cell, query: sa.Select) -> list[sa.Row]:
    def ask(_cell: Cell) -> list[sa.Row]:
        with cells.engine(cell).connect() as connection:
            return list(connection.execute(query))

    answer = calls.scatter_gather([cell], ask)[cell.uuid]
    if answer.error:
        raise answer.error
    return answer.value
