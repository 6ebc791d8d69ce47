"""A whole cloud in two partitions: schedulers of each, routers before them, conductors and computes."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
import time

import sqlalchemy as sa

from conductor_client import journal
from conductor_client.bus import Bus
from conductor_client.cells import CellMap, client_of_each_cell
from conductor_client.client import SchedulerClient
from conductor_client.super_conductor import SuperConductor
from tools.rig.cloud import BerthRouterProcess, BerthSchedulerProcess, SchedulerProcess
from tools.rig.fleet import Host
from tools.rig.load import FLAVORS
from tools.rig.nova_cloud import NovaCloud
from tools.rig.service import ServiceProcess
from tools.rig.software import Software

#: Seconds until all schedulers take requests: they start together, and read all hosts.
START_TIMEOUT = 600
#: Seconds after the start in which all schedulers hear of each other: two of their beats.
SETTLE_TIME = 10
READY = "takes requests"


@dataclass(frozen=True)
class Partition:
    """A partition; its hosts are those of its zones, each of which is an aggregate."""

    name: str
    zones: Sequence[str]
    flavors: Sequence[str]

    @property
    def section(self) -> str:
        """Its group of options. No default: flavors that none names are spread over both."""
        return (
            f"[berth_partition_{self.name}]\naggregates = {', '.join(self.zones)}\n"
            f"zones = {', '.join(self.zones)}\nflavors = {', '.join(self.flavors)}\n"
        )


#: The smallest flavor is for one partition, the largest for the other.
PARTITIONS = (
    Partition("general", ("az1", "az2"), [FLAVORS[0].name]),
    Partition("large", ("az3",), [FLAVORS[-1].name]),
)


@dataclass(frozen=True)
class Shape:
    """What the cloud consists of: cells are spread over all partitions, schedulers are those of each.

    Without routers, which get all requests first, the cloud is not divided. ``fail_rate`` is the share of the
    builds that fail, which ``seed`` determines.
    """

    hosts: int
    cells: int = 2
    schedulers: int = 2
    routers: int = 2
    fail_rate: float = 0.02
    build_seconds: float = 2.0
    seed: int = 1


class PartitionedCloud(NovaCloud):
    """A context manager that starts everything on entry and stops it on exit.

    ``schedulers`` are those of each partition by its name; the super-conductor is in this process.
    """

    bus: Bus
    conductor: SuperConductor
    api_database: sa.Engine

    def __init__(self, directory: Path, software: Software, shape: Shape) -> None:
        super().__init__(directory, software, shape.hosts, shape.cells)
        self.schedulers: dict[str, list[SchedulerProcess]] = {}
        self.routers: list[SchedulerProcess] = []
        self._shape = shape

    def all_schedulers(self) -> list[SchedulerProcess]:
        """Return the routers and the schedulers of all partitions."""
        return [*self.routers, *(each for group in self.schedulers.values() for each in group)]

    def killable(self) -> dict[str, list[SchedulerProcess]]:
        """Return the schedulers of each partition, and the routers if there are several."""
        return self.schedulers | ({"router": self.routers} if len(self.routers) > 1 else {})

    def services(self) -> Mapping[str, int]:
        """Return the process IDs of the programs that nothing kills, by name."""
        routers = {each.log.stem: each.pid for each in self.routers if len(self.routers) == 1}
        return {**routers, **super().processes()}

    def partition_of_host(self) -> dict[str, str]:
        """Return the partition of each host."""
        return {host.name: partition_of(host) for host in self.fleet.hosts}

    def _start(self) -> None:
        super()._start()
        self._transport_url = self.rabbit.vhost()
        for cell in self.fleet.cells:
            self.rabbit.vhost(cell.name)
        self._start_schedulers()
        self._start_conductors()
        time.sleep(SETTLE_TIME)

    def _start_schedulers(self) -> None:
        for number in range(self._shape.routers):
            self.routers.append(self._scheduler(f"router-{number + 1}", "", BerthRouterProcess))
        for name in [each.name for each in PARTITIONS] if self._shape.routers else [""]:
            self.schedulers[name] = [
                self._scheduler(f"{name or 'all'}-{number + 1}", f"partition = {name}" if name else "")
                for number in range(self._shape.schedulers)
            ]
        self._run(self.all_schedulers(), READY)

    def _scheduler(
        self, name: str, options: str, program: type[SchedulerProcess] = BerthSchedulerProcess
    ) -> SchedulerProcess:
        sections = f"[berth]\n{options}\n" + "".join(partition.section for partition in PARTITIONS)
        path = self.configure_nova(self._transport_url, sections, name)
        return program(path, self.directory / f"{name}.log")

    def _start_conductors(self) -> None:
        self.bus = self.connect()
        self.api_database = self.engine(self.database("api"))
        cells = CellMap(self.api_database, self._transport_url)
        self.conductor = SuperConductor(
            SchedulerClient.from_conf(self.bus),
            cells,
            client_of_each_cell(lambda cell: self.connect(cell.transport_url), journal.TOPIC),
            journal.Journal(),
        )
        server = self.bus.server(journal.TOPIC, "super", self.conductor)
        server.start()
        self.callback(server.wait)
        self.callback(server.stop)
        shape = self._shape
        options = {
            "fail_rate": shape.fail_rate,
            "fail_seed": shape.seed,
            "build_seconds": shape.build_seconds,
        }
        services = [
            ServiceProcess.of_module(
                "conductor_client.cmd.stand_ins",
                self.configure_cell(cell, self._transport_url, **options),
                self.directory / f"{cell.name}.log",
            )
            for cell in self.fleet.cells
        ]
        self._run(services, "is ready")

    def _run(self, services: Sequence[ServiceProcess], ready: str) -> None:
        """Start services, all at the same time, and wait until each says that it is ready."""
        self.callback(_stop, services)
        for service in services:
            service.start()
        for service in services:
            service.wait_for_line(ready, START_TIMEOUT)


def _stop(services: Sequence[ServiceProcess]) -> None:
    with ThreadPoolExecutor(len(services)) as pool:
        pool.map(ServiceProcess.stop, services)


def partition_of(host: Host) -> str:
    """Return the name of the partition that a host is in."""
    return next(each.name for each in PARTITIONS if host.zone in each.zones)
