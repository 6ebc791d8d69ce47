"""A cloud with instances, for plans: databases and a Placement, without a scheduler and a message bus.

The same arguments give the same cloud, with the same UUIDs.
"""

from collections.abc import Mapping
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
from tools.rig import instances
from tools.rig.cloud import Cloud
from tools.rig.fleet import RESERVED_MB, Aggregate, Cell, fleet_share, insert
from tools.rig.load import PROJECT, BootRequest, Flavor
from tools.worked_cases.cloud import write_flavors

C4 = Flavor(1, "c4", 4, 16384, 40)
C16 = Flavor(1, "c16", 16, 65536, 160)
DB8 = Flavor(1, "db8", 8, 32768, 80)
NUMA16 = Flavor(1, "numa16", 16, 65536, 40, (("hw:numa_nodes", "2"),))
FLAVORS = (C4, C16, DB8, NUMA16)
#: What instances are drawn from.
KINDS = (C4, C4, C4, C16, NUMA16)
#: The server group of the instances of flavor db8.
GROUP, MEMBERS = "databases", 6
RACKS = 4
#: Hosts that are to be emptied.
LEAVING = slice(-6, -3)
#: Days in which the instances were created.
AGE = 30
SECTIONS = """
[filter_scheduler]
enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,NUMATopologyFilter,\
ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter
"""


@dataclasses.dataclass(frozen=True)
class Placed(instances.Placed):
    """An instance on a host; its number determines its UUID and its age."""

    number: int
    state: str

    @property
    def grouped(self) -> bool:
        """Whether it is a member of the server group."""
        return self.number < MEMBERS


class PlanCloud(Cloud):
    """A cloud of some hosts; ``config_file`` is what berth-plan takes."""

    def __init__(
        self, directory: str | Path, hosts: int, instances: int, used: float = 0.75, seed: int = 3
    ) -> None:
        """Describe a cloud in two cells; at most so many instances use a share of the memory of hosts."""
        super().__init__(directory)
        self.make_fleet(hosts, [Cell(name, self.database(name)) for name in ("cell1", "cell2")])
        self.fleet.aggregates += [
            Aggregate(
                f"rack{number + 1}",
                {"failure_domain": f"rack{number + 1}"},
                self.fleet.hosts[fleet_share(number, RACKS, hosts)],
            )
            for number in range(RACKS)
        ]
        self.fleet.aggregates.append(Aggregate("old", {"berth:leaving": "true"}, self.fleet.hosts[LEAVING]))
        self.placed = self._place(instances, used, random.Random(seed))

    def _place(self, count: int, used: float, chance: random.Random) -> list[Placed]:
        found: list[Placed] = []
        left = {host.name: int((host.hardware.memory_mb - RESERVED_MB) * used) for host in self.fleet.hosts}
        for number in range(count):
            grouped = number < MEMBERS
            flavor = DB8 if grouped else chance.choice(KINDS)
            # members of the group are in one cell, on hosts of their own
            host = self.fleet.hosts[2 * number] if grouped else chance.choice(self.fleet.hosts)
            state = "stopped" if chance.random() < 0.1 else "active"
            if left[host.name] >= flavor.memory_mb:
                left[host.name] -= flavor.memory_mb
                name = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"planned instance {number}"))
                found.append(Placed(name, host, flavor, number, state))
        return found

    def _start(self) -> None:
        self.placement_url = self.start_placement()
        self.write_databases()
        with self.connection("api") as connection:
            self._write_api(connection)
        for cell in self.fleet.cells:
            self._write_cell(cell)
        instances.fill_placement(self.engine(self.database("placement")), self.placed)
        self.config_file = self.configure("fake://", sections=SECTIONS)

    def _write_api(self, connection: sa.Connection) -> None:
        group = str(uuid.uuid5(uuid.NAMESPACE_DNS, GROUP))
        write_flavors(connection, FLAVORS)
        named = {"id": 1, "uuid": group, "name": GROUP, "user_id": "u", "project_id": PROJECT}
        connection.execute(sa.insert(schema.instance_groups).values(named))
        policy = {"group_id": 1, "policy": "anti-affinity", "rules": "{}"}
        connection.execute(sa.insert(schema.instance_group_policy).values(policy))
        members = [{"group_id": 1, "instance_uuid": one.uuid} for one in self.placed if one.grouped]
        connection.execute(sa.insert(schema.instance_group_member), members)
        specs = {flavor: BootRequest([""], flavor).spec() for flavor in FLAVORS}
        insert(connection, schema.request_specs, (_request(one, specs, group) for one in self.placed))

    def _write_cell(self, cell: Cell) -> None:
        here = [one for one in self.placed if one.host.cell == cell]
        now = schema.utcnow()
        with self.connection(cell.name) as connection:
            insert(connection, schema.instances, (_instance(one, now) for one in here))
        instances.fill_cell(self.engine(cell.database_url), here)


def _request(one: Placed, specs: Mapping[Flavor, Any], group: str) -> dict[str, Any]:
    spec = specs[one.flavor]
    spec.instance_uuid = one.uuid
    spec.instance_group = objects.InstanceGroup(uuid=group) if one.grouped else None
    return {"instance_uuid": one.uuid, "spec": json.dumps(spec.obj_to_primitive())}


def _instance(one: Placed, now: Any) -> dict[str, Any]:
    return {
        "uuid": one.uuid,
        "host": one.host.name,
        "node": one.host.nodename,
        "deleted": 0,
        "project_id": PROJECT,
        "user_id": "u",
        "vm_state": one.state,
        "hidden": False,
        "vcpus": one.flavor.vcpus,
        "memory_mb": one.flavor.memory_mb,
        "root_gb": one.flavor.root_gb,
        "ephemeral_gb": 0,
        "created_at": now - timedelta(days=one.number * 7 % AGE, hours=1),
    }
