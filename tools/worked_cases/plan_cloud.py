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
#: The server groups of the instances of flavor db8, and the policies that they have in turns.
GROUP, MEMBERS = "databases", 6
POLICIES = ("anti-affinity", "soft-anti-affinity", "affinity", "soft-affinity")
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
    """An instance on a host; its number determines its UUID and its age.

    Attributes:
        group: The number of its server group; None: it has none.
    """

    number: int
    state: str
    group: int | None


class PlanCloud(Cloud):
    """A cloud of some hosts; ``config_file`` is what berth-plan takes."""

    def __init__(
        self,
        directory: str | Path,
        hosts: int,
        instances: int,
        used: float = 0.75,
        seed: int = 3,
        groups: int = 1,
        racks: int = RACKS,
    ) -> None:
        """Describe a cloud in two cells; at most so many instances use a share of the memory of hosts."""
        super().__init__(directory)
        self._groups = groups
        self.make_fleet(hosts, [Cell(name, self.database(name)) for name in ("cell1", "cell2")])
        self.fleet.aggregates += [
            Aggregate(
                f"rack{number + 1}",
                {"failure_domain": f"rack{number + 1}"},
                self.fleet.hosts[fleet_share(number, racks, hosts)],
            )
            for number in range(racks)
        ]
        self.fleet.aggregates.append(Aggregate("old", {"berth:leaving": "true"}, self.fleet.hosts[LEAVING]))
        self.placed = self._place(instances, used, random.Random(seed))

    def _place(self, count: int, used: float, chance: random.Random) -> list[Placed]:
        found: list[Placed] = []
        left = {host.name: int((host.hardware.memory_mb - RESERVED_MB) * used) for host in self.fleet.hosts}
        for number in range(count):
            group = number // MEMBERS if number < MEMBERS * self._groups else None
            flavor = chance.choice(KINDS) if group is None else DB8
            hosts = self.fleet.hosts
            if group is None:
                host = chance.choice(hosts)
            else:  # in one cell; each on a host of its own, if that is the policy
                together = POLICIES[group % len(POLICIES)] == "affinity"
                host = hosts[2 * (group * MEMBERS if together else number) % len(hosts)]
            state = "stopped" if chance.random() < 0.1 else "active"
            if left[host.name] >= flavor.memory_mb:
                left[host.name] -= flavor.memory_mb
                name = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"planned instance {number}"))
                found.append(Placed(name, host, flavor, number, state, group))
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
        write_flavors(connection, FLAVORS)
        for number in range(self._groups):
            policy = POLICIES[number % len(POLICIES)]
            named = {"id": number + 1, "uuid": _group_uuid(number), "name": GROUP}
            named |= {"user_id": "u", "project_id": PROJECT}
            connection.execute(sa.insert(schema.instance_groups).values(named))
            rules = {"group_id": number + 1, "policy": policy, "rules": "{}"}
            connection.execute(sa.insert(schema.instance_group_policy).values(rules))
        members = [
            {"group_id": one.group + 1, "instance_uuid": one.uuid}
            for one in self.placed
            if one.group is not None
        ]
        connection.execute(sa.insert(schema.instance_group_member), members)
        specs = {flavor: BootRequest([""], flavor).spec() for flavor in FLAVORS}
        insert(connection, schema.request_specs, (_request(one, specs) for one in self.placed))

    def _write_cell(self, cell: Cell) -> None:
        here = [one for one in self.placed if one.host.cell == cell]
        now = schema.utcnow()
        with self.connection(cell.name) as connection:
            insert(connection, schema.instances, (_instance(one, now) for one in here))
        instances.fill_cell(self.engine(cell.database_url), here)


def _group_uuid(number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{GROUP} {number}" if number else GROUP))


def _request(one: Placed, specs: Mapping[Flavor, Any]) -> dict[str, Any]:
    spec = specs[one.flavor]
    spec.instance_uuid = one.uuid
    spec.instance_group = None if one.group is None else objects.InstanceGroup(uuid=_group_uuid(one.group))
    return {"instance_uuid": one.uuid, "spec": json.dumps(spec.obj_to_primitive())}


def _instance(one: Placed, now: Any) -> dict[str, Any]:
    return {
        "uuid": one.uuid,
        "display_name": f"vm-{one.number}",
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
