"""A small cloud in which builds can be made to fail, and what is asked of its scheduler."""

from collections.abc import Callable, Iterable, Sequence
import json
from pathlib import Path
import subprocess
import sys
import uuid

import sqlalchemy as sa

from conductor_client.client import SchedulerClient
from scheduler.nova_db import schema
from scheduler.placement.providers import list_path
from scheduler.rpc.context import RequestContext
from tools.rig.fleet import Aggregate, Cell, Fleet, Host
from tools.rig.load import PROJECT, BootRequest, Flavor
from tools.rig.providers import PlacementAdmin
from tools.rig.servers import Rabbit
from tools.rig.service import ROOT
from tools.rig.world import RunningWorld, World

HOSTS = 12

#: Seconds that all commands may take.
PATIENCE = 180

#: Runs commands one after the other, in a process whose connections end with it.
COMMANDS = """
import io, json, sys
from scheduler.operators import programs
found = []
for program, *argv in json.load(sys.stdin):
    output = io.StringIO()
    found.append((programs.run(program, argv, stdout=output), output.getvalue()))
print(json.dumps(found))
"""

OTHER_PROJECT = "0c1f4f8e7a3b4d659e2b7a10c4d5e6f7"

#: Filters that the cases are about, beside the default ones, and no patience with a cell that is away.
SECTIONS = """
[filter_scheduler]
enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,NUMATopologyFilter,\
AggregateMultiTenancyIsolation
[berth]
unread_cell_max_age = 0
outage_patience = 0
mirror_interval = 1
"""

#: A finding on a query is remembered for a minute, so cases that need one differ in flavor or zone.
FLAVORS = (
    Flavor(1, "m1.medium", 2, 4096, 40),
    Flavor(1, "m1.vgpu", 2, 4096, 40, (("trait:CUSTOM_GPU", "required"),)),
    Flavor(1, "m1.large", 4, 8192, 80),
    Flavor(1, "m1.gpu", 4, 8192, 80, (("trait:CUSTOM_GPU", "required"),)),
    Flavor(1, "m1.huge", 128, 8192, 80),
    Flavor(1, "m1.wide", 16, 307200, 40, (("hw:numa_nodes", "1"),)),
    Flavor(1, "m1.wide-2", 16, 307200, 40, (("hw:numa_nodes", "2"),)),
)


def write_flavors(connection: sa.Connection, flavors: Iterable[Flavor]) -> None:
    """Write flavors to nova's API database."""
    for number, flavor in enumerate(flavors, 1):
        row = {"id": number, "flavorid": flavor.name, "name": flavor.name, "vcpus": flavor.vcpus}
        row |= {"memory_mb": flavor.memory_mb, "root_gb": flavor.root_gb, "ephemeral_gb": 0, "swap": 0}
        connection.execute(sa.insert(schema.flavors).values(row))
        for key, value in flavor.extra_specs:
            spec = {"flavor_id": number, "key": key, "value": value}
            connection.execute(sa.insert(schema.flavor_extra_specs).values(spec))


class CasesCloud(RunningWorld):
    """A cloud whose Placement can be told to serve others first. Its hosts are in zones az1, az2 and az3."""

    def __init__(self, directory: str | Path, rabbit: Rabbit | None) -> None:
        """Describe a cloud, on a virtual host of a RabbitMQ if that runs already; it is started on entry."""
        super().__init__(World(HOSTS, faulty=True, options=SECTIONS), directory, rabbit)

    def _start(self) -> None:
        super()._start()
        self._client = SchedulerClient.from_conf(self.bus)

    def make_fleet(self, cells: Sequence[Cell]) -> Fleet:
        """Return the hosts; those of a zone are for other tenants only."""
        fleet = super().make_fleet(cells)
        others = [host for host in fleet.hosts if host.zone == "az3"]
        fleet.aggregates.append(Aggregate("tenants", {"filter_tenant_id": OTHER_PROJECT}, others))
        return fleet

    def _prepare(self) -> None:
        self.admin = PlacementAdmin(self.behind)
        self.admin.call("PUT", "/traits/CUSTOM_GPU")
        with self.connection("api") as connection:
            write_flavors(connection, FLAVORS)

    def of_zone(self, zone: str) -> list[Host]:
        """Return the hosts of a zone."""
        return [host for host in self.fleet.hosts if host.zone == zone]

    def boot(self, request_id: str, instance_uuid: str, flavor: str, zone: str | None) -> None:
        """Ask for a host as a conductor does, for a build that is to fail."""
        context = RequestContext(user_id="u", project_id=PROJECT, request_id=request_id)
        asked = next(each for each in FLAVORS if each.name == flavor)
        spec = BootRequest([instance_uuid], asked, zone).spec()
        try:
            self._client.select_destinations(context, spec, [instance_uuid], return_alternates=True)
        except Exception:  # noqa: BLE001 - the caller's error is not what the cases show
            return
        raise RuntimeError(f"The build of a {flavor} in zone {zone} has found a host")

    def refresh_mirror(self) -> None:
        """Let the scheduler read what was changed in Placement, as it does some seconds later in any case."""
        # The second list begins when what the first one showed as changed has been read.
        wanted = self._lists() + 2
        self._ask_until(lambda: self._lists() >= wanted, "does not read its mirror again")

    def notice_lost_cell(self, name: str) -> None:
        """Let the scheduler find that it cannot read a cell; what it has read may still be new enough."""
        line = f"Cannot read the hosts of cell {name}"
        self._ask_until(lambda: line in self.scheduler.text(), f"does not say: {line}")

    def _lists(self) -> int:
        return self.proxy.seen.count(("GET", list_path()))

    def _ask_until(self, condition: Callable[[], bool], complaint: str) -> None:
        """Ask for a host that is not to be had until a condition holds: without requests little is read."""

        def holds() -> bool:
            self.boot(f"req-{uuid.uuid4()}", str(uuid.uuid4()), "m1.wide", "az2")
            return condition()

        self.scheduler.wait_until(holds, f"The scheduler {complaint}", PATIENCE)

    def explain(self, commands: Sequence[str]) -> list[str]:
        """Return what each of some commands of berth-explain or berth-plan prints."""
        words = [command.split() for command in commands]
        argvs = [[program, "--config-file", str(self.config_file), *rest] for program, *rest in words]
        printed = []
        for command, (status, output) in zip(commands, run_commands(argvs, PATIENCE), strict=True):
            if status:
                raise RuntimeError(f"{command} ends with status {status}")
            printed.append(output)
        return printed


def run_commands(argvs: Sequence[Sequence[str]], timeout: float) -> list[tuple[int, str]]:
    """Return exit status and output of commands of berth-explain and berth-plan, run in one process.

    Each is the program, then its arguments; all together may take ``timeout`` seconds.
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMMANDS],
        cwd=ROOT,
        input=json.dumps(argvs),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=timeout,
    )
    return [(status, output) for status, output in json.loads(done.stdout)]
