"""The cloud that is broken: real servers, proxies before them, Placement on MariaDB, several schedulers."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sqlalchemy as sa

from conductor_client.bus import Bus
from tools.rig import servers
from tools.rig.cloud import BerthSchedulerProcess, Cloud, SchedulerProcess
from tools.rig.fleet import Cell
from tools.rig.machine import Clock, SmallDisk
from tools.rig.placement import PlacementProcess
from tools.rig.providers import create_fleet
from tools.rig.tcp_proxy import TcpProxy

HOSTS = 12
DAEMONS = 2
WORKERS = 2  # of each daemon
QUEUE = "scheduler"
PATIENCE = 90  # seconds that requests wait during an outage: a minute, and the start of a database server
PLACEMENT_PORTS = range(29000, 29900)

#: Variables that the unit of systemd and the image set.
AS_SHIPPED = {"MALLOC_ARENA_MAX": "2"}
#: What makes requests outlive a restart of the broker.
QUEUES = {
    "classic": "amqp_durable_queues = true\n",
    "quorum": "rabbit_quorum_queue = true\nrabbit_transient_quorum_queue = true\n",
}


class ChaosCloud(Cloud):
    """A context manager that starts everything on entry and stops it on exit.

    nova's API database and cell1 are on MariaDB, as is Placement; cell2 is on PostgreSQL. Schedulers reach
    all servers through proxies, callers and Placement do not.

    Attributes:
        proxies: By the name of the server behind each.
        ways_to_placement: The proxy of each daemon, between it and that of Placement.
        disks: The directories with decision log of each daemon.
        clock: That of the second daemon; None where it cannot be changed.
    """

    rabbit: servers.Rabbit
    mariadb: servers.Database
    postgresql: servers.Database
    placement: PlacementProcess
    bus: Bus
    clock: Clock | None

    def __init__(self, directory: str | Path, queues: str, hosts: int = HOSTS) -> None:
        """Describe a cloud in two cells, with ``queues`` of ``QUEUES``; it is started on entry."""
        super().__init__(directory)
        self.proxies: dict[str, TcpProxy] = {}
        self.ways_to_placement: list[TcpProxy] = []
        self.schedulers: list[SchedulerProcess] = []
        self.disks: list[SmallDisk] = []
        self._queues = queues
        self._hosts = hosts
        self._databases: dict[str, str] = {}

    def database(self, name: str) -> str:
        """Return the URL of one of nova's databases, by way of the proxy."""
        return self._databases[name]

    def waiting_messages(self) -> int:
        """Return how many requests the broker still has."""
        return self.rabbit.messages("/", QUEUE)

    def _start(self) -> None:
        self.rabbit = self.enter_context(servers.rabbitmq())
        self.mariadb = self.enter_context(servers.mariadb(tcp=True))
        self.postgresql = self.enter_context(servers.postgresql(tcp=True))
        placement_port = servers.free_port(PLACEMENT_PORTS)
        database = self.enter_context(servers.made_database(self.mariadb.url, "placement"))
        self.placement = PlacementProcess(database, placement_port, log=self.directory / "placement.log")
        self.placement_url = self.enter_context(self.placement)
        for name, port in (
            ("broker", self.rabbit.port),
            ("mariadb", self.mariadb.port),
            ("postgresql", self.postgresql.port),
            ("placement", placement_port),
        ):
            self.proxies[name] = self.enter_context(TcpProxy(port))
        self._make_databases()
        self.make_fleet(self._hosts, [Cell(name, self.database(name)) for name in ("cell1", "cell2")])
        create_fleet(self.placement_url, self.fleet.providers())
        self.write_databases()
        self.clock = Clock.made(self.directory)
        self.callback(self._stop_schedulers)
        for number in range(DAEMONS):
            self._start_scheduler(number)
        self._connect()

    def _make_databases(self) -> None:
        for name in ("api", "cell0", "cell1", "cell2"):
            kind = "postgresql" if name == "cell2" else "mariadb"
            server = self.postgresql if name == "cell2" else self.mariadb
            direct = sa.make_url(self.enter_context(servers.made_database(server.url, name)))
            url = direct.set(host="127.0.0.1", port=self.proxies[kind].port, query={})
            self._databases[name] = url.render_as_string(hide_password=False)

    def _start_scheduler(self, number: int) -> None:
        name = f"controller{number + 1}"
        disk = self.enter_context(SmallDisk.made(self.directory / f"{name}-disk"))
        decisions = disk.path / "decisions"
        decisions.mkdir()
        way = self.enter_context(TcpProxy(self.proxies["placement"].port))
        self.ways_to_placement.append(way)
        direct_url, self.placement_url = self.placement_url, f"http://127.0.0.1:{way.port}"
        config_file = self.configure(
            self.rabbit.url_of("/", self.proxies["broker"].port),
            host=name,
            workers=WORKERS,
            defaults=f"state_path = {disk.path}",
            sections=f"[berth]\noutage_patience = {PATIENCE}\ndecision_log = {decisions}\n"
            f"[oslo_messaging_rabbit]\n{QUEUES[self._queues]}",
        )
        self.placement_url = direct_url
        environment = AS_SHIPPED | (self.clock.environment if self.clock and number == 1 else {})
        scheduler = BerthSchedulerProcess(config_file, self.directory / f"{name}.log", environment)
        scheduler.start()
        self.schedulers.append(scheduler)
        self.disks.append(disk)

    def _stop_schedulers(self) -> None:
        with ThreadPoolExecutor() as pool:
            pool.map(SchedulerProcess.stop, self.schedulers)

    def _connect(self) -> None:
        """Connect to the bus as callers do: directly, and with the same kind of queues."""
        self.configure(
            self.rabbit.url_of("/"),
            host="callers",
            sections=f"[oslo_messaging_rabbit]\n{QUEUES[self._queues]}",
        )
        self.bus = self.connect()
        for scheduler in self.schedulers:
            scheduler.wait_for_line("All workers take requests (2 of 2)")
