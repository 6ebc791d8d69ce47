"""Run the services of a small cloud in one process, but for Placement: scheduler, conductors, computes.

The services and their connections are the same as in separate processes; only the addresses differ: SQLite
files, a Placement on loopback, and an in-memory message bus or a RabbitMQ with a virtual host for each cell.
"""

from concurrent.futures import ThreadPoolExecutor
import contextlib
from dataclasses import dataclass
from pathlib import Path
import threading

from conductor_client import fake_compute, journal
from conductor_client.bus import Bus
from conductor_client.cell_conductor import CellConductor
from conductor_client.cell_rows import CellRows
from conductor_client.cells import CellMap, client_of_each_cell
from conductor_client.claims import Allocations
from conductor_client.client import SchedulerClient
from conductor_client.fake_compute import Failures, FakeCompute
from conductor_client.move_conductor import MoveConductor
from conductor_client.super_conductor import SuperConductor
from scheduler.cmd import scheduler_parts
from scheduler.health.counters import Counters
from scheduler.manager import SchedulerManager
from scheduler.parts import Outside, put_together
from scheduler.router.service import RouterService
from scheduler.rpc import notifications
from tools.rig import servers
from tools.rig.cloud import Cloud
from tools.rig.fleet import ZONES, Cell

IN_MEMORY = "fake://"
NO_FAILURES = Failures()


#: A flavor of the demo that the last of several partitions is for; others are spread over all.
FLAVOR_OF_PARTITION = "m1.xlarge"


@dataclass(frozen=True)
class Schedulers:
    """Which schedulers a cloud has: ``each`` in every partition, and with several of these ``routers``.

    If ``flavors`` are given they are spread over the partitions, zones over partitions without a flavor.
    """

    partitions: int = 1
    each: int = 1
    flavors: tuple[str, ...] = ()
    routers: int = 1


class Decider:
    """Counts what a scheduler decided.

    Attributes:
        causes: Why there is no host, by instance.
    """

    def __init__(self, name: str, partition: str) -> None:
        """Count nothing yet; ``partition`` is "" for a scheduler of all hosts."""
        self.name = name
        self.partition = partition
        self.placed = self.refused = 0
        self.counters = Counters()
        self.causes = {}
        self._lock = threading.Lock()

    @property
    def decided(self) -> int:
        """All requests that it looked for hosts for."""
        return self.placed + self.refused

    def note(self, trace, error) -> None:
        """Count a decision."""
        with self._lock:
            if error is None:
                self.placed += 1
            else:
                self.refused += 1
                self.causes |= dict.fromkeys(trace.decision.instances, trace.decision.summary or str(error))


class SmallCloud(Cloud):
    """A context manager that starts the services on entry and stops them on exit.

    rabbit: a RabbitMQ, on which it has virtual hosts of its own, or None for the in-memory bus. schedulers:
    which there are; several need a RabbitMQ. announce: called with what is being started. transport_url: the
    message bus of the schedulers.
    """

    def __init__(
        self,
        directory: str | Path,
        hosts: int,
        cells: int,
        failures=NO_FAILURES,
        rabbit: servers.Rabbit | None = None,
        schedulers: Schedulers = Schedulers(),
        announce=lambda _text: None,
    ):
        super().__init__(directory)
        self.announce = announce
        self.schedulers = schedulers
        self.deciders = []
        self.managers = []
        self.rabbit = rabbit
        self.transport_url = self._new_url()
        self.failures = failures
        names = [f"cell{number}" for number in range(1, cells + 1)]
        cells = [Cell(name, self.database(name), self._new_url()) for name in names]
        self.make_fleet(hosts, cells, schedulers.partitions)
        self.conductor = self.client = self.computes = None
        self._servers = []
        self._schedulers = 0

    def _new_url(self):
        return self.rabbit.vhost() if self.rabbit else IN_MEMORY

    def _start(self):
        self.announce(f"Placement with {len(self.fleet.hosts)} resource providers")
        self.placement_url = self.start_placement()
        self.announce("nova's databases")
        self.write_databases()
        self.configure(self.transport_url)
        self._buses = self.enter_context(contextlib.ExitStack())
        bus = self.connect()
        self._start_schedulers()
        self.announce("conductors and computes")
        self._start_super_conductor(bus)
        for cell in self.fleet.cells:
            self._start_cell(bus, cell)

    def connect(self, url=None, exchange=None):
        # Closed after the servers have stopped: in memory, closing one bus empties all of them
        bus = Bus(self.conf, url, exchange)
        self._buses.callback(bus.close)
        return bus

    def _cell_bus(self, cell):
        return self.connect(cell.transport_url, None if self.rabbit else f"nova-{cell.name}")

    def causes(self):
        """Return why schedulers found no host, by instance."""
        return {instance: cause for each in self.deciders for instance, cause in each.causes.items()}

    def partition_of_host(self):
        """Return the partition of each host; empty if there is only one."""
        return {host.name: each.name for each in self.fleet.partitions for host in each.hosts}

    def _start_schedulers(self):
        common, wanted = self.conf, self.schedulers
        names = [each.name for each in self.fleet.partitions] or [""]
        for partition in names:
            for number in range(wanted.each):
                name = "-".join(filter(None, ("scheduler", partition, str(number + 1))))
                self._start_scheduler(name if wanted != Schedulers() else "controller", partition)
        for number in range(wanted.routers if self.fleet.partitions else 0):
            self._start_router(f"router-{number + 1}")
        self.callback(self._stop_servers)
        self.conf = common

    def _start_scheduler(self, name, partition):
        self.announce(name if self.fleet.partitions or self.schedulers.each > 1 else "the scheduler")
        self.configure(self.transport_url, host=name, sections=self.sections(partition))
        decider = Decider(name, partition)
        self.deciders.append(decider)
        parts = put_together(self.conf, Outside.from_conf(self.conf))
        announced = notifications.Notifications(())
        manager = SchedulerManager(self.conf, announced, parts, on_decision=decider.note)
        self.managers.append(manager)
        manager.start()
        self.callback(manager.stop, lambda: 10)
        manager.wait_until_ready(0)
        manager.catch_up()
        rpc_server = scheduler_parts.make_server(self.conf, manager, counters=decider.counters)
        self.callback(rpc_server.transport.cleanup)
        self._serve(rpc_server)
        self._schedulers += 1
        return manager, rpc_server

    def _start_router(self, name):
        self.announce(name)
        self.configure(self.transport_url, host=name, sections=self.sections())
        router = RouterService(self.conf)
        router.start()
        self.callback(router.stop, lambda: 10)
        self._serve(router.server())
        self._schedulers += 1
        return router

    def sections(self, own=""):
        """Return the sections on partitions in the configuration of a scheduler, or of a router."""
        if not self.fleet.partitions:
            return ""
        lines = ["[berth]", f"partition = {own}"] if own else []
        for number, each in enumerate(self.fleet.partitions):
            lines += [f"[berth_partition_{each.name}]", f"aggregates = {each.name}", "default = true"]
            lines += self._purpose(number)
        return "\n".join([*lines, ""])

    def _purpose(self, number):
        """Return which requests a partition is for."""
        partitions, flavors = len(self.fleet.partitions), self.schedulers.flavors
        if not flavors:
            return [f"flavors = {FLAVOR_OF_PARTITION}"] * (number == partitions - 1)
        if number < len(flavors):
            return [f"flavors = {', '.join(flavors[number::partitions])}"]
        return [f"zones = {ZONES[number % len(ZONES)]}"]

    def _start_super_conductor(self, bus):
        cells = CellMap(self.engine(self.conf.api_database.connection), self.conf.transport_url)
        scheduler = SchedulerClient.from_conf(bus)
        conductors = client_of_each_cell(self._cell_bus, journal.TOPIC)
        self.conductor = SuperConductor(scheduler, cells, conductors, journal.Journal())
        self.computes = client_of_each_cell(self._cell_bus, fake_compute.TOPIC)
        moves = MoveConductor(
            scheduler,
            cells,
            self.computes,
            Allocations.from_conf(self.conf),
            self.conductor.journal,
            self.conf.scheduler.max_attempts,
        )
        self._serve(bus.server(journal.TOPIC, "super", self.conductor, moves))
        self.client = bus.client(journal.TOPIC, journal.VERSION)

    def _start_cell(self, api_bus, cell):
        bus, reports = self._cell_bus(cell), journal.Reporter(api_bus, cell.name)
        allocations = Allocations.from_conf(self.conf)
        conductor = CellConductor(
            bus.client(fake_compute.TOPIC, journal.VERSION),
            allocations,
            reports,
            self.conf.scheduler.max_attempts,
        )
        compute = FakeCompute(
            bus.client(journal.TOPIC, journal.VERSION),
            allocations,
            reports,
            SchedulerClient.from_conf(api_bus),
            CellRows(self.engine(cell.database_url)),
            self.failures,
        )
        self._serve(bus.server(journal.TOPIC, "conductor", conductor))
        self._serve(bus.server(fake_compute.TOPIC, "computes", compute))

    def _serve(self, rpc_server):
        rpc_server.start()
        self._servers.append(rpc_server)

    def _stop_servers(self):
        # Schedulers stop last: a conductor that waits for an answer would wait until the call times out
        schedulers, callers = self._servers[: self._schedulers], self._servers[self._schedulers :]
        for group in (callers, schedulers):
            with ThreadPoolExecutor() as pool:
                pool.map(_stop, group)


def _stop(rpc_server):
    rpc_server.stop()
    rpc_server.wait()
