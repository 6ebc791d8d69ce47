"""The instances of a host as operators' rules see them: a uuid, and more for who asks.

Berth's own rules need the uuids alone. spec: filters-and-weighers 1.12
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import orjson
import sqlalchemy as sa

from scheduler.hosts.tables import instance_extra, instance_system_metadata, instances
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


class HeldInstance:
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
