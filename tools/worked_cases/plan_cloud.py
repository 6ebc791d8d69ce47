"""A cloud with instances, for plans: databases and a Placement, without a scheduler and a message bus.

The same arguments give the same cloud, with the same UUIDs.
"""

from collections.abc import Sequence
import dataclasses
from datetime import timedelta
import json
from pathlib import Path
import random
from typing import Any
import uuid

import sqlalchemy as sa

from scheduler import objects
from scheduler.nova_db import schema
from tools.rig.cloud import Cloud
from tools.rig.fleet import RESERVED_MB, Aggregate, Cell, Host
from tools.rig.placement import PlacementProcess
from tools.rig.providers import database_url
from tools.worked_cases.cloud import PROJECT, Flavor, make_spec

FLAVORS: tuple[Flavor, ...] = (
    ("c4", 4, 16384, 40, {}),
    ("c16", 16, 65536, 160, {}),
    ("db8", 8, 32768, 80, {}),
    ("numa16", 16, 65536, 40, {"hw:numa_nodes": "2"}),
)

#: The server group of the instances of flavor db8.
GROUP, MEMBERS = "databases", 6

RACKS = 4

#: Days in which the instances were created.
AGE = 30

#: Numbers of resource classes in Placement's database.
CLASSES = {"VCPU": 0, "MEMORY_MB": 1, "DISK_GB": 2}

SECTIONS = """
[filter_scheduler]
enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,NUMATopologyFilter,\
ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter
"""


@dataclasses.dataclass(frozen=True)
class Placed:
    """An instance on a host."""

    number: int
    flavor: str
    host: Host
    state: str
    grouped: bool

    @property
    def uuid(self) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"planned instance {self.number}"))


class PlanCloud(Cloud):
    """A cloud of some hosts; ``config_file`` is what berth-plan takes."""

    def __init__(
        self, directory: str | Path, hosts: int, instances: int, used: float = 0.75, seed: int = 3
    ) -> None:
        """Describe a cloud; it is started on entry.

        Args:
            directory: Where its files are made.
            hosts: The number of hosts, in two cells.
            instances: The number of instances at most.
            used: The share of the memory of hosts that instances may use.
            seed: Decides what is where.
        """
        super().__init__(directory)
        self.make_fleet(hosts, [Cell(name, self.database(name)) for name in ("cell1", "cell2")])
        self.fleet.aggregates += [
            Aggregate(
                f"rack{number + 1}",
                {},
                self.fleet.hosts[number * hosts // RACKS : (number + 1) * hosts // RACKS],
            )
            for number in range(RACKS)
        ]
        self.placed = self._place(instances, used, random.Random(seed))

    def _place(self, instances: int, used: float, chance: random.Random) -> list[Placed]:
        found: list[Placed] = []
        left = {host.name: int((host.hardware.memory_mb - RESERVED_MB) * used) for host in self.fleet.hosts}
        kinds = ["c4", "c4", "c4", "c16", "numa16"]
        for number in range(instances):
            grouped = number < MEMBERS
            flavor = "db8" if grouped else chance.choice(kinds)
            memory = next(memory for name, _, memory, *_ in FLAVORS if name == flavor)
            # members of the group are in one cell, on hosts of their own
            host = self.fleet.hosts[2 * number] if grouped else chance.choice(self.fleet.hosts)
            state = "stopped" if chance.random() < 0.1 else "active"
            if left[host.name] >= memory:
                left[host.name] -= memory
                found.append(Placed(number, flavor, host, state, grouped))
        return found

    def _start(self) -> None:
        path = self.fill_placement()
        self.write_databases()
        self._write_api()
        for cell in self.fleet.cells:
            self._write_cell(cell)
        self._write_allocations(path)
        self.placement_url = self.enter_context(PlacementProcess(path))
        self.config_file = self.configure("fake://", sections=SECTIONS)

    def _write_api(self) -> None:
        engine = sa.create_engine(self.database("api"), poolclass=sa.NullPool)
        group = str(uuid.uuid5(uuid.NAMESPACE_DNS, GROUP))
        with engine.begin() as connection:
            for number, (name, vcpus, memory_mb, root_gb, extra_specs) in enumerate(FLAVORS, 1):
                row = {"id": number, "name": name, "flavorid": name, "vcpus": vcpus, "memory_mb": memory_mb}
                row |= {"root_gb": root_gb, "ephemeral_gb": 0, "swap": 0}
                connection.execute(sa.insert(schema.flavors).values(row))
                for key, value in extra_specs.items():
                    spec = {"flavor_id": number, "key": key, "value": value}
                    connection.execute(sa.insert(schema.flavor_extra_specs).values(spec))
            named = {"id": 1, "uuid": group, "name": GROUP, "user_id": "u", "project_id": PROJECT}
            connection.execute(sa.insert(schema.instance_groups).values(named))
            policy = {"group_id": 1, "policy": "anti-affinity", "rules": "{}"}
            connection.execute(sa.insert(schema.instance_group_policy).values(policy))
            members = [{"group_id": 1, "instance_uuid": one.uuid} for one in self.placed if one.grouped]
            connection.execute(sa.insert(schema.instance_group_member), members)
            specs = {name: make_spec(FLAVORS, name) for name, *_ in FLAVORS}
            for piece in schema.chunks(self.placed, 5000):
                rows = [self._request(one, specs[one.flavor], group) for one in piece]
                connection.execute(sa.insert(schema.request_specs), rows)

    def _request(self, one: Placed, spec: Any, group: str) -> dict[str, Any]:
        spec.instance_uuid = one.uuid
        spec.instance_group = objects.InstanceGroup(uuid=group) if one.grouped else None
        return {"instance_uuid": one.uuid, "spec": json.dumps(spec.obj_to_primitive())}

    def _write_cell(self, cell: Cell) -> None:
        here = [one for one in self.placed if one.host.cell == cell]
        engine = sa.create_engine(cell.database_url, poolclass=sa.NullPool)
        now = schema.utcnow()
        with engine.begin() as connection:
            for piece in schema.chunks(here, 5000):
                rows = [
                    {
                        "uuid": one.uuid,
                        "host": one.host.name,
                        "node": one.host.nodename,
                        "deleted": 0,
                        "project_id": PROJECT,
                        "user_id": "u",
                        "vm_state": one.state,
                        "hidden": False,
                        "vcpus": vcpus,
                        "memory_mb": memory,
                        "root_gb": disk,
                        "ephemeral_gb": 0,
                        "created_at": now - timedelta(days=one.number * 7 % AGE, hours=1),
                    }
                    for one in piece
                    for vcpus, memory, disk in [amounts(one.flavor)]
                ]
                connection.execute(sa.insert(schema.instances), rows)
            column = schema.compute_nodes.c
            for name, (vcpus, memory, disk, count) in used(here).items():
                changed = {
                    "vcpus_used": vcpus,
                    "memory_mb_used": column.memory_mb_used + memory,
                    "free_ram_mb": column.free_ram_mb - memory,
                    "local_gb_used": disk,
                    "free_disk_gb": column.free_disk_gb - disk,
                    "disk_available_least": column.disk_available_least - disk,
                    "running_vms": count,
                    "stats": json.dumps({"num_instances": str(count), "failed_builds": "0"}),
                }
                connection.execute(sa.update(schema.compute_nodes).where(column.host == name).values(changed))

    def _write_allocations(self, path: Path) -> None:
        engine = sa.create_engine(database_url(path), poolclass=sa.NullPool)
        with engine.begin() as connection:
            rows = connection.execute(sa.text("SELECT uuid, id FROM resource_providers"))
            ids = {row.uuid: row.id for row in rows}
            insert = sa.text(
                "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) "
                "VALUES (:provider, :consumer, :name, :used)"
            )
            for piece in schema.chunks(self.placed, 5000):
                taken = [
                    {"provider": ids[one.host.uuid], "consumer": one.uuid, "name": number, "used": amount}
                    for one in piece
                    for number, amount in zip(CLASSES.values(), amounts(one.flavor), strict=True)
                ]
                connection.execute(insert, taken)


def amounts(flavor: str) -> tuple[int, int, int]:
    """Return vCPUs, MiB of memory and GiB of disk of a flavor."""
    return next((vcpus, memory, disk) for name, vcpus, memory, disk, _ in FLAVORS if name == flavor)


def used(placed: Sequence[Placed]) -> dict[str, list[int]]:
    """Return what instances use of each host: vCPUs, memory, disk, and their number."""
    found: dict[str, list[int]] = {}
    for one in placed:
        row = found.setdefault(one.host.name, [0, 0, 0, 0])
        for number, amount in enumerate((*amounts(one.flavor), 1)):
            row[number] += amount
    return found
