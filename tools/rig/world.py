"""A cloud of real services by what is wanted of it.

::

    with RunningWorld(World(databases="mixed", daemons=(Daemon("a"), Daemon("b"))), directory) as cloud: ...
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from conductor_client.bus import Bus
from tools.rig import servers
from tools.rig.cloud import BerthSchedulerProcess, Cloud, SchedulerProcess
from tools.rig.fleet import Cell
from tools.rig.machine import Clock, SmallDisk
from tools.rig.placement import PlacementProcess
from tools.rig.providers import fill
from tools.rig.tcp_proxy import TcpProxy

CELLS = ("cell1", "cell2")
DATABASES = ("api", "cell0", *CELLS)
QUEUE = "scheduler"
PLACEMENT_PORTS = range(29000, 29900)
#: Variables that the unit of systemd and the image set.
AS_SHIPPED = {"MALLOC_ARENA_MAX": "2"}


@dataclass(frozen=True)
class Daemon:
    """A ``berth-scheduler``.

    Attributes:
        host: Its ``[DEFAULT]/host``, by which its files are named.
        defaults: Lines of the section DEFAULT of its configuration.
        breakable: Its decision log is on a small disk, and a proxy of its own leads to Placement.
        own_clock: Its wall clock can be changed, where there is a C compiler.
    """

    host: str = "controller"
    defaults: str = ""
    breakable: bool = False
    own_clock: bool = False


@dataclass(frozen=True)
class World:
    """What a cloud has.

    Attributes:
        hosts: Compute hosts, in two cells.
        databases: Of nova and Placement: ``sqlite``, ``mariadb``, or ``mixed`` with cell2 on PostgreSQL.
        bus: The transport URL; without one it has a RabbitMQ of its own.
        proxied: Whether daemons reach all servers through proxies. Callers and Placement never do.
        options: Sections of the configuration of daemons.
        queues: Options of ``[oslo_messaging_rabbit]``, for daemons and callers.
        daemons: The schedulers.
    """

    hosts: int = 12
    databases: str = "sqlite"
    bus: str = ""
    proxied: bool = False
    options: str = ""
    queues: str = ""
    daemons: tuple[Daemon, ...] = (Daemon(),)


class RunningWorld(Cloud):
    """A context manager that starts the parts of a world on entry, in their order, and stops them on exit.

    Attributes:
        bus: The bus, as callers connect to it.
        config_file: The configuration of the first daemon.
        proxies: By the name of the server behind each: broker, mariadb, postgresql, placement.
        ways_to_placement: The proxy of each breakable daemon, between it and that of Placement.
        disks: The directories with the decision log of each of these.
        clock: That of the daemon with a clock of its own; None where it cannot be changed.
        schedulers: The daemons.
        urls: Of databases on servers, by their names.
    """

    rabbit: servers.Rabbit
    mariadb: servers.Database
    postgresql: servers.Database
    placement: PlacementProcess
    bus: Bus
    config_file: Path

    def __init__(self, world: World, directory: str | Path) -> None:
        """Describe a cloud; it is started on entry."""
        super().__init__(directory)
        self.world = world
        self.proxies: dict[str, TcpProxy] = {}
        self.ways_to_placement: list[TcpProxy] = []
        self.disks: list[SmallDisk] = []
        self.clock: Clock | None = None
        self.schedulers: list[SchedulerProcess] = []
        self.urls: dict[str, str] = {}
        self._placement_port = 0

    @property
    def scheduler(self) -> SchedulerProcess:
        """The first daemon."""
        return self.schedulers[0]

    def database(self, name: str) -> str:
        """Return the URL of a database, as daemons reach it."""
        return self.urls.get(name) or super().database(name)

    def waiting_messages(self) -> int:
        """Return how many requests the broker still has."""
        return self.rabbit.messages("/", QUEUE)

    def _start(self) -> None:
        self._start_bus()
        self._start_databases()
        self._start_placement()
        self._write_fleet()
        self._prepare()
        self.callback(self._stop_daemons)
        for daemon in self.world.daemons:
            self.start_daemon(daemon)
        self._connect_callers()

    def _start_bus(self) -> None:
        if not self.world.bus:
            self.rabbit = self.enter_context(servers.rabbitmq())
        self._callers_bus = self.world.bus or self.rabbit.url
        self._daemons_bus = self.world.bus or self.rabbit.url_of("/", self._port("broker", self.rabbit.port))

    def _port(self, name: str, port: int) -> int:
        """Return the port by which daemons reach a server."""
        if not self.world.proxied:
            return port
        self.proxies[name] = self.enter_context(TcpProxy(port))
        return self.proxies[name].port

    def _start_databases(self) -> None:
        if self.world.databases == "sqlite":
            return
        self.mariadb = self.enter_context(servers.mariadb(tcp=True))
        made = dict.fromkeys(("placement", *DATABASES), self.mariadb)
        ports = {self.mariadb: self._port("mariadb", self.mariadb.port or 0)}
        if self.world.databases == "mixed":
            made["cell2"] = self.postgresql = self.enter_context(servers.postgresql(tcp=True))
            ports[self.postgresql] = self._port("postgresql", self.postgresql.port or 0)
        urls = {}
        for name, server in made.items():
            port = server.port if name == "placement" else ports[server]
            url = sa.make_url(self.enter_context(servers.made_database(server.url, name)))
            # By TCP: neither a proxy nor a machine of its own sees the socket
            url = url.set(host="127.0.0.1", port=port, query={})
            urls[name] = url.render_as_string(hide_password=False)
        self.urls = urls

    def _start_placement(self) -> None:
        database = self.urls.get("placement") or self.directory / "placement.sqlite"
        port = servers.free_port(PLACEMENT_PORTS)
        self.placement = PlacementProcess(database, port, log=self.directory / "placement.log")
        self.placement_url = self.enter_context(self.placement)
        self._placement_port = self._port("placement", port)

    def _write_fleet(self) -> None:
        self.make_fleet(self.world.hosts, [Cell(name, self.database(name)) for name in CELLS])
        fill(self.urls.get("placement") or self.directory / "placement.sqlite", self.fleet.providers())
        self.write_databases()

    def _prepare(self) -> None:
        """Write what is special before a daemon starts."""

    def start_daemon(self, daemon: Daemon) -> SchedulerProcess:
        """Start a scheduler, one more or one that ended before; it need not serve yet."""
        environment, defaults, options = dict(AS_SHIPPED), daemon.defaults, self._options()
        reached, port = self.placement_url, self._placement_port
        if daemon.breakable:
            disk = self.enter_context(SmallDisk.made(self.directory / f"{daemon.host}-disk"))
            (disk.path / "decisions").mkdir()
            self.disks.append(disk)
            defaults += f"state_path = {disk.path}\n"
            options += f"[berth]\ndecision_log = {disk.path / 'decisions'}\n"
            way = self.enter_context(TcpProxy(self._placement_port))
            self.ways_to_placement.append(way)
            port = way.port
        if daemon.own_clock:
            self.clock = Clock.made(self.directory)
            environment |= self.clock.environment if self.clock else {}
        if self.world.proxied:
            self.placement_url = f"http://127.0.0.1:{port}"
        path = self.configure(
            self._daemons_bus,
            host=daemon.host,
            defaults=defaults,
            sections=self.world.options + options,
        )
        self.placement_url = reached
        if not self.schedulers:
            self.config_file = path
        scheduler = BerthSchedulerProcess(path, self.directory / f"{daemon.host}.log", environment)
        scheduler.start()
        self.schedulers.append(scheduler)
        return scheduler

    def _options(self) -> str:
        return f"[oslo_messaging_rabbit]\n{self.world.queues}"

    def _stop_daemons(self) -> None:
        with ThreadPoolExecutor() as pool:
            pool.map(SchedulerProcess.stop, self.schedulers)

    def _connect_callers(self) -> None:
        """Connect to the bus as callers do: directly, and with the same kind of queues."""
        self.configure(self._callers_bus, host="callers", sections=self._options())
        self.bus = self.connect()
        for scheduler in self.schedulers:
            scheduler.wait_for_line("The daemon takes requests")
