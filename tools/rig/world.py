"""A cloud of real services by what is wanted of it.

::

    with RunningWorld(World(databases="mixed", daemons=(Daemon("a"), Daemon("b"))), directory) as cloud: ...

How each part is started is in ``parts``, how it is broken in ``faults``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
import contextlib
from dataclasses import dataclass, field
from pathlib import Path
import signal
import sys
from typing import Any, Self

import sqlalchemy as sa

from conductor_client.bus import Bus
from conductor_client.fake_compute import Failures
from conductor_client.journal import Journal
from scheduler import conf as configuration
from tools.rig import instances, parts, servers
from tools.rig.cluster import Members
from tools.rig.faulty_proxy import FaultyProxy
from tools.rig.fleet import Cell, Fleet
from tools.rig.machine import Clock, SmallDisk
from tools.rig.memory_bus import IN_MEMORY
from tools.rig.providers import fill
from tools.rig.schedulers import (
    BerthRouterProcess,
    BerthSchedulerProcess,
    LocalRouter,
    LocalScheduler,
)
from tools.rig.service import ServiceProcess, environment_of_berth
from tools.rig.software import Software
from tools.rig.tcp_proxy import TcpProxy

QUEUE = "scheduler"
NO_FAILURES = Failures()
#: Variables that the unit of systemd and the image set.
AS_SHIPPED = {"MALLOC_ARENA_MAX": "2"}

# The hosts of the fleet send no heartbeats; with this interval the scheduler regards them as up.
CONFIGURATION = """\
[DEFAULT]
host = {host}
transport_url = {transport_url}
service_down_time = 315360000
{defaults}
[api_database]
connection = {api}
[database]
connection = {cell0}
[placement]
auth_type = admin_token
endpoint = {placement}
token = admin
"""


@dataclass(frozen=True)
class Daemon:
    """A ``berth-scheduler``, or a ``berth-router``.

    Attributes:
        host: Its ``[DEFAULT]/host``, by which its files are named.
        router: Whether it is a router.
        partition: That of a scheduler which has not all hosts.
        here: Whether it is in this process.
        defaults: Lines of the section DEFAULT of its configuration.
        options: Sections of its configuration.
        breakable: Its decision log is on a small disk, and a proxy of its own leads to Placement.
        own_clock: Its wall clock can be changed, where there is a C compiler.
    """

    host: str = "controller"
    router: bool = False
    partition: str = ""
    here: bool = False
    defaults: str = ""
    options: str = ""
    breakable: bool = False
    own_clock: bool = False


@dataclass(frozen=True)
class World:
    """What a cloud has. The names of parts are those of ``parts``.

    Attributes:
        hosts: Compute hosts.
        cells: Cells that the hosts are in.
        partitions: Lines of the section of each partition, which are named part1 and so on; none: there is
            only one.
        instances: Instances that are on the hosts before anything is asked.
        databases: Of nova and Placement: ``sqlite``, ``mariadb``, ``mixed`` with the last cell on PostgreSQL,
            ``nova`` with the tables that nova makes, or ``galera``.
        urls: Databases that are there already, by their names.
        placement: ``process``, ``gunicorn``, ``balanced``, or the URL of a Placement that is there already.
        bus: ``rabbitmq``, ``cluster``, or ``memory`` if there is no other process.
        proxied: Whether daemons reach all servers through proxies. Callers and Placement never do.
        faulty: Whether Placement is behind a proxy that misbehaves on demand.
        options: Sections of the configuration of daemons and callers.
        queues: Options of ``[oslo_messaging_rabbit]`` of both.
        daemons: The schedulers and routers.
        conductors: Where conductors and computes are: ``here``, or in ``processes``; "": there are none.
        failures: What their builds and moves fail by.
        software: With other services of OpenStack, for ``nova``, ``gunicorn`` and ``cluster``.
        system: A directory of a system whose RabbitMQ the cluster runs; None: that of this machine.
    """

    hosts: int = 12
    cells: int = 2
    partitions: tuple[str, ...] = ()
    instances: int = 0
    databases: str = "sqlite"
    urls: Mapping[str, str] = field(default_factory=dict)
    placement: str = "process"
    bus: str = "rabbitmq"
    proxied: bool = False
    faulty: bool = False
    options: str = ""
    queues: str = ""
    daemons: tuple[Daemon, ...] = (Daemon(),)
    conductors: str = ""
    failures: Failures = NO_FAILURES
    software: Software | None = None
    system: Path | None = None

    @property
    def common_options(self) -> str:
        """The sections of daemons and callers."""
        return f"{self.options}\n[oslo_messaging_rabbit]\n{self.queues}\n"

    def partition_options(self, own: str = "") -> str:
        """Return the sections on partitions of a scheduler of a partition, or of a router."""
        text = f"[berth]\npartition = {own}\n" if own else ""
        for number, purpose in enumerate(self.partitions, 1):
            text += f"[berth_partition_part{number}]\naggregates = part{number}\ndefault = true\n{purpose}\n"
        return text


class RunningWorld(contextlib.ExitStack):
    """A context manager that starts the parts of a world on entry, in their order, and stops them on exit.

    Attributes:
        directory: Where databases, configuration and logs are created.
        fleet: The hosts.
        placement_url: The URL of Placement, once it is started.
        conf: The options of callers.
        config_file: The configuration of the first daemon.
        vhost: The virtual host of daemons and callers.
        bus: The bus, as callers connect to it.
        proxies: By the name of the server behind each: broker, mariadb, postgresql, placement.
        proxy, behind: The proxy before a faulty Placement, and the URL of that Placement.
        ways_to_placement: The proxy of each breakable daemon, between it and that of Placement.
        disks: The directories with the decision log of each of these.
        clock: That of the daemon with a clock of its own; None where it cannot be changed.
        schedulers: The daemons.
        processes: What else was run.
        urls: Of databases on servers, by their names.
        daemon_options: Sections of the configuration of all daemons.
        members: Of a cluster.
        client: The super-conductor, if there is one.
        computes, journal: If they are here, the computes by cell, and what became of instances.
    """

    mariadb: servers.Database
    postgresql: servers.Database
    members: Members
    placement: ServiceProcess
    proxy: FaultyProxy
    behind: str
    placement_url = "http://127.0.0.1:1"
    placement_port = 0
    fleet: Fleet
    conf: Any
    bus: Bus
    config_file: Path
    callers_bus: str
    daemons_bus: str
    client: Any
    computes: Callable[[Cell], Any]
    journal: Journal

    def __init__(
        self,
        world: World,
        directory: str | Path,
        rabbit: Any = None,
        announce: Callable[[str], object] = lambda _text: None,
    ) -> None:
        """Describe a cloud; it is started on entry.

        Args:
            rabbit: A RabbitMQ that runs already; the cloud has virtual hosts of its own on it.
            announce: Is called with what is being started.
        """
        super().__init__()
        self.world = world
        self.directory = Path(directory)
        self.rabbit = rabbit
        self.announce = announce
        self.vhost = "/"
        self.proxies: dict[str, TcpProxy] = {}
        self.ways_to_placement: list[TcpProxy] = []
        self.disks: list[SmallDisk] = []
        self.clock: Clock | None = None
        self.schedulers: list[Any] = []
        self.processes: list[ServiceProcess] = []
        self.urls: dict[str, str] = {}
        self.daemon_options = ""
        self._buses = contextlib.ExitStack()

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    @property
    def cells(self) -> Sequence[str]:
        """The names of the cells."""
        return [f"cell{number}" for number in range(1, self.world.cells + 1)]

    @property
    def databases(self) -> Sequence[str]:
        """The names of nova's databases."""
        return ["api", "cell0", *self.cells]

    @property
    def scheduler(self) -> Any:
        """The first daemon."""
        return self.schedulers[0]

    def database(self, name: str) -> str:
        """Return the URL of a database, as daemons reach it."""
        return self.urls.get(name) or f"sqlite:///{self.directory}/{name}.sqlite"

    def waiting_messages(self) -> int:
        """Return how many requests the broker still has."""
        return self.rabbit.messages(self.vhost, QUEUE) if self.rabbit else 0

    def way(self, name: str, port: int) -> int:
        """Return the port by which daemons reach a server."""
        if not self.world.proxied:
            return port
        self.proxies[name] = self.enter_context(TcpProxy(port))
        return self.proxies[name].port

    @contextlib.contextmanager
    def connection(self, database: str) -> Iterator[sa.Connection]:
        """Give a connection to a database of the cloud; what is written is committed at the end."""
        engine = sa.create_engine(self.database(database), poolclass=sa.NullPool)
        with engine.begin() as connection:
            yield connection

    def engine(self, url: str) -> sa.Engine:
        """Return an engine that ends with the cloud."""
        engine = sa.create_engine(url)
        self.callback(engine.dispose)
        return engine

    def connect(self, url: str | None = None, exchange: str | None = None) -> Bus:
        """Return a connection to a message bus, by default that of callers, which ends with the cloud."""
        bus = Bus(self.conf, url, exchange)
        # After all servers: in memory, closing one bus empties all of them
        self._buses.callback(bus.close)
        return bus

    def at_once(self, stopped: Iterable[Any], stop: Callable[[Any], object]) -> None:
        """Stop things at the same time when the cloud ends."""

        def stop_all() -> None:
            with ThreadPoolExecutor() as pool:
                pool.map(stop, stopped)

        self.callback(stop_all)

    def _start(self) -> None:
        parts.BUSES[self.world.bus](self)
        self.enter_context(self._buses)
        parts.DATABASES[self.world.databases](self)
        if "://" in self.world.placement:
            self.placement_url = self.world.placement
        else:
            parts.PLACEMENTS[self.world.placement](self)
        self._write_fleet()
        self._prepare()
        daemons = self.world.daemons
        self.config_file = self._configure(daemons[0] if daemons else Daemon())
        self.at_once(self.schedulers, lambda each: each.stop())
        for daemon in daemons:
            self.start_daemon(daemon)
        # Callers connect directly, and with the same kind of queues
        self.configure(self.callers_bus, host="callers", sections=self.world.common_options)
        self.bus = self.connect()
        parts.CONDUCTORS[self.world.conductors](self)
        for scheduler in self.schedulers:
            scheduler.wait_until_ready()

    def _write_fleet(self) -> None:
        buses = [self.rabbit.vhost() if self.rabbit else IN_MEMORY for _ in self.cells]
        urls = map(self.database, self.cells)
        self.fleet = self.make_fleet(list(map(Cell, self.cells, urls, buses)))
        if "placement" in self.urls:
            fill(self.urls["placement"], self.fleet.providers())
            instances.fill_placement(self.engine(self.urls["placement"]), self.fleet.placed)
        self.announce("nova's databases")
        self.write_databases()

    def make_fleet(self, cells: Sequence[Cell]) -> Fleet:
        """Return the hosts with their instances; nothing is written yet."""
        fleet = Fleet(self.world.hosts, cells, len(self.world.partitions))
        fleet.placed = instances.place(fleet, self.world.instances)
        return fleet

    def write_databases(self) -> None:
        """Write the fleet to nova's databases."""
        self.fleet.write(self.database("api"), self.database("cell0"))

    def _prepare(self) -> None:
        """Write what is special before a daemon starts."""

    def configure(
        self,
        transport_url: str,
        *,
        host: str = "controller",
        defaults: str = "",
        sections: str = "",
        placement: str | None = None,
    ) -> Path:
        """Write the configuration of a scheduler, read it as ``conf``, and return its file.

        ``host`` also names the file; ``defaults`` are lines of the section DEFAULT, ``sections`` are added.
        """
        path = self.directory / f"{host}.conf"
        text = CONFIGURATION.format(
            host=host,
            transport_url=transport_url,
            api=self.database("api"),
            cell0=self.database("cell0"),
            placement=placement or self.placement_url,
            defaults=defaults,
        )
        path.write_text(text + sections)
        self.conf = configuration.load(["--config-file", str(path)])
        return path

    def _configure(self, daemon: Daemon, defaults: str = "", sections: str = "", port: int = 0) -> Path:
        world, port = self.world, port or self.placement_port
        return self.configure(
            self.daemons_bus,
            host=daemon.host,
            defaults=daemon.defaults + defaults,
            sections=world.common_options
            + world.partition_options(daemon.partition)
            + daemon.options
            + self.daemon_options
            + sections,
            placement=f"http://127.0.0.1:{port}" if world.proxied else None,
        )

    def start_daemon(self, daemon: Daemon) -> Any:
        """Start a daemon, one more or one that ended before; it need not serve yet."""
        environment, defaults, options, port = dict(AS_SHIPPED), "", "", 0
        if daemon.breakable:
            disk = self.enter_context(SmallDisk.made(self.directory / f"{daemon.host}-disk"))
            (disk.path / "decisions").mkdir()
            self.disks.append(disk)
            defaults = f"state_path = {disk.path}\n"
            options = f"[berth]\ndecision_log = {disk.path / 'decisions'}\n"
            way = self.enter_context(TcpProxy(self.placement_port))
            self.ways_to_placement.append(way)
            port = way.port
        if daemon.own_clock:
            self.clock = Clock.made(self.directory)
            environment |= self.clock.environment if self.clock else {}
        path = self._configure(daemon, defaults, options, port)
        several = self.world.partitions or len(self.world.daemons) > 1
        self.announce(daemon.host if several else "the scheduler")
        scheduler: Any
        if daemon.here:
            local = LocalRouter if daemon.router else LocalScheduler
            scheduler = local(daemon.host, self.conf, daemon.partition)
        else:
            program = BerthRouterProcess if daemon.router else BerthSchedulerProcess
            scheduler = program(path, self.directory / f"{daemon.host}.log", environment)
        self.schedulers.append(scheduler)
        scheduler.start()
        return scheduler

    def run(self, module: str, *arguments: str | Path, name: str) -> ServiceProcess:
        """Start a program of Berth, which ends with the cloud; ``name`` is that of its output."""
        command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
        process = ServiceProcess(command, self.directory / f"{name}.out", environment_of_berth())
        process.start()
        if not self.processes:
            self.at_once(self.processes, ServiceProcess.stop)
        self.processes.append(process)
        return process

    def stop_processes(self) -> list[tuple[str, int]]:
        """Stop all processes at once, and return the name and the exit status of each."""
        running = [*self.processes, *self.schedulers]
        for process in running:
            process.signal(signal.SIGTERM)
        return [(process.log.stem, process.stop()) for process in running]
