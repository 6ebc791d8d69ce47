"""A cloud with instances, for plans: databases and a Placement, without a scheduler and a message bus.

The same arguments give the same cloud, with the same UUIDs.
"""

from collections.abc import Sequence
from pathlib import Path
import random
import uuid

import sqlalchemy as sa

from scheduler.nova_db import schema
from tools.rig import instances
from tools.rig.fleet import Aggregate, Cell, Fleet, Placed, fleet_share
from tools.rig.load import PROJECT, Flavor
from tools.rig.world import RunningWorld, World
from tools.worked_cases.cloud import write_flavors

C4 = Flavor(1, "c4", 4, 16384, 40)
C16 = Flavor(1, "c16", 16, 65536, 160)
DB8 = Flavor(1, "db8", 8, 32768, 80)
NUMA16 = Flavor(1, "numa16", 16, 65536, 40, (("hw:numa_nodes", "2"),))
FLAVORS = (C4, C16, DB8, NUMA16)
#: What instances are drawn from.
KINDS = (C4, C4, C4, C16, NUMA16)
#: The server groups of the instances of flavor db8, and the policies that they have in turns.
MEMBERS = 6
POLICIES = ("anti-affinity", "soft-anti-affinity", "affinity", "soft-affinity")
RACKS = 4
#: Hosts that are to be emptied.
LEAVING = slice(-6, -3)
SECTIONS = """
[filter_scheduler]
enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,NUMATopologyFilter,\
ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter
"""


class PlanCloud(RunningWorld):
    """A cloud of some hosts; ``config_file`` is what berth-plan takes."""

    def __init__(
        self,
        directory: str | Path,
        hosts: int,
        instances: int,
        used: float = 0.75,
        groups: int = 1,
        racks: int = RACKS,
    ) -> None:
        """Describe a cloud in two cells; at most so many instances use a share of the memory of hosts."""
        world = World(hosts, instances=instances, bus="memory", options=SECTIONS, daemons=())
        super().__init__(world, directory)
        self._used, self._groups, self._racks = used, groups, racks

    def make_fleet(self, cells: Sequence[Cell]) -> Fleet:
        """Return the hosts, which are in racks, with instances; some hosts are to leave."""
        fleet = Fleet(self.world.hosts, cells)
        for number in range(self._racks):
            name = f"rack{number + 1}"
            here = fleet.hosts[fleet_share(number, self._racks, self.world.hosts)]
            fleet.aggregates.append(Aggregate(name, {"failure_domain": name}, here))
        fleet.aggregates.append(Aggregate("old", {"berth:leaving": "true"}, fleet.hosts[LEAVING]))
        fleet.placed = self._place(fleet, random.Random(3))
        return fleet

    def _place(self, fleet: Fleet, chance: random.Random) -> list[Placed]:
        found: list[Placed] = []
        hosts = fleet.hosts
        left = {
            host.name: int((host.hardware.memory_mb - host.hardware.reserved_mb) * self._used)
            for host in hosts
        }
        for number in range(self.world.instances):
            group = number // MEMBERS if number < MEMBERS * self._groups else None
            flavor = chance.choice(KINDS) if group is None else DB8
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

    def _prepare(self) -> None:
        with self.connection("api") as connection:
            self._write_api(connection)
        instances.write(self)

    def _write_api(self, connection: sa.Connection) -> None:
        write_flavors(connection, FLAVORS)
        for number in range(self._groups):
            policy = POLICIES[number % len(POLICIES)]
            named = {"id": number + 1, "uuid": instances.group_uuid(number), "name": instances.GROUP}
            named |= {"user_id": "u", "project_id": PROJECT}
            connection.execute(sa.insert(schema.instance_groups).values(named))
            rules = {"group_id": number + 1, "policy": policy, "rules": "{}"}
            connection.execute(sa.insert(schema.instance_group_policy).values(rules))
        members = [
            {"group_id": each.group + 1, "instance_uuid": each.uuid}
            for each in self.fleet.placed
            if each.group is not None
        ]
        connection.execute(sa.insert(schema.instance_group_member), members)
