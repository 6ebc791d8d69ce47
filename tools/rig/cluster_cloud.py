"""A cluster: Galera behind two HAProxies, three RabbitMQ nodes, two Placements, Keystone, two daemons."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import re

import sqlalchemy as sa

from conductor_client.bus import Bus
from tools.rig import rabbit_members, servers
from tools.rig.cloud import BerthSchedulerProcess, Cloud, SchedulerProcess
from tools.rig.debian import until
from tools.rig.fleet import Cell
from tools.rig.galera import PORT, Galera
from tools.rig.haproxy import MARIADB, PLACEMENT, HaProxy
from tools.rig.keystone import Keystone
from tools.rig.namespaces import BRIDGE_ADDRESS, SHARED_ADDRESS, Network
from tools.rig.placement import PlacementProcess
from tools.rig.providers import create_fleet
from tools.rig.rabbit_members import Member
from tools.rig.software import Software

DATABASES, BROKERS, BALANCERS = ["db1", "db2", "db3"], ["mq1", "mq2", "mq3"], ["lb1", "lb2"]
DAEMONS = 2
PATIENCE = 120  # seconds that requests wait during an outage
PLACEMENT_PORTS = range(29000, 29900)
START_TIMEOUT = 180
#: As kolla-ansible sets them, for services and callers alike.
QUEUES = """\
[oslo_messaging_rabbit]
rabbit_quorum_queue = true
rabbit_transient_quorum_queue = true
heartbeat_timeout_threshold = 15
"""
#: Seconds for which a token is valid. keystoneauth gets another one 120 s before: each is used for 30 s.
TOKEN_SECONDS = 150
#: Seconds for which Placement does not ask again whether a token is valid.
MIDDLEWARE = "token_cache_time = 10\n"
USER = "nova"  # without the right to write while a server is read only, which root has


class ClusterCloud(Cloud):
    """A context manager that starts everything on entry and stops it on exit. Needs root.

    Attributes:
        network: What can be cut.
        galera, rabbits, balancers, placements, keystone, schedulers: The members; services reach the first
            balancer.
    """

    network: Network
    galera: Galera
    keystone: Keystone
    bus: Bus

    def __init__(self, directory: Path, software: Software, hosts: int, system: Path | None = None) -> None:
        """Describe a cloud in two cells; ``system`` has another RabbitMQ than this machine."""
        super().__init__(directory)
        self.rabbits: list[Member] = []
        self.balancers: list[HaProxy] = []
        self.placements: list[PlacementProcess] = []
        self.schedulers: list[SchedulerProcess] = []
        self._software = software
        self._hosts = hosts
        self._system = system

    def database(self, name: str) -> str:
        """Return the URL of a database by way of HAProxy."""
        return f"mysql+pymysql://{USER}@{SHARED_ADDRESS}:{MARIADB}/nova_{name}"

    def errors(self) -> Counter[str]:
        """Return how often logs have errors of databases, lost transactions, tokens and paused brokers."""
        found: Counter[str] = Counter()
        for service in (*self.placements, *self.schedulers):
            found.update(re.findall(r"\((1047|1205|1213|1290|2003|2006|2013), ['\"]", service.text()))
        found["aborted"] = sum(node.aborted() for node in self.galera.nodes)
        found["tokens"] = self.keystone.tokens()
        found["paused"] = sum(member.pauses() for member in self.rabbits)
        return found

    def waiting_messages(self) -> int:
        """Return how many requests the brokers still have."""
        return rabbit_members.waiting_messages(self.rabbits, "scheduler")

    def _start(self) -> None:
        self.network = self.enter_context(Network([*DATABASES, *BROKERS, *BALANCERS]))
        with ThreadPoolExecutor() as pool:
            starting = pool.submit(self._start_brokers)
            directory = self.directory / "keystone"
            making = pool.submit(Keystone, self._software, directory, TOKEN_SECONDS)
            self.galera = self.enter_context(Galera(self.network, DATABASES))
            starting.result()
            self.keystone = making.result()
        self.start_server(self.keystone)
        self._start_placements()
        self.make_fleet(self._hosts, [Cell(name, self.database(name)) for name in ("cell1", "cell2")])
        create_fleet(self.placement_url, self.fleet.providers())
        self.write_databases()
        self.callback(self._stop_schedulers)
        for number in range(1, DAEMONS + 1):
            self._start_scheduler(f"controller{number}")
        self._configure("callers")
        self.bus = self.connect()
        for scheduler in self.schedulers:
            scheduler.wait_for_line("The daemon takes requests", START_TIMEOUT)

    def _start_brokers(self) -> None:
        directory = self.directory / "rabbit"
        directory.mkdir()
        rabbit_members.write_cookie(directory)
        self.rabbits = [Member(self.network, name, BROKERS, directory, self._system) for name in BROKERS]
        for member in self.rabbits:
            self.start_server(member)
            # A new node of RabbitMQ 4 waits for the others; one of 3.10 needs one that is up to join
            if member is self.rabbits[0] and not self._system:
                member.wait()
        for member in self.rabbits:
            member.wait()

    def _start_placements(self) -> None:
        ports = [servers.free_port(PLACEMENT_PORTS) for _ in range(2)]
        writers = [
            (f"{node.address}:{PORT}", check)
            for node, check in zip(self.galera.nodes, self.galera.checks, strict=True)
        ]
        for name in BALANCERS:
            balancer = HaProxy(self.network, name, writers, ports, self.directory / name)
            self.start_server(balancer)
            self.balancers.append(balancer)
        self.network.take_over(BALANCERS[0])
        first = self.galera.nodes[0]
        first.execute(f"CREATE USER {USER}@'%'")
        for name in ("api", "cell0", "cell1", "cell2", "placement"):
            first.execute(f"CREATE DATABASE nova_{name}")
            first.execute(f"GRANT ALL ON nova_{name}.* TO {USER}@'%'")
        until(self._reaches_writer, "HAProxy finds no writer", START_TIMEOUT)
        for port in ports:
            log = self.directory / f"placement-{port}.log"
            credentials = self.keystone.credentials + MIDDLEWARE
            placement = PlacementProcess(
                self.database("placement"), port, log=log, keystone=credentials, address=BRIDGE_ADDRESS
            )
            self.enter_context(placement)
            self.placements.append(placement)
        # By this one replies are compared; no daemon uses it, and it needs no token
        other = PlacementProcess(self.database("placement"), log=self.directory / "placement.log")
        self.placement_url = self.enter_context(other)

    def _reaches_writer(self) -> bool:
        try:
            with sa.create_engine(self.database("api"), poolclass=sa.NullPool).connect():
                return True
        except sa.exc.OperationalError:
            return False

    def _configure(self, name: str, more: str = "") -> Path:
        state = self.directory / f"{name}-state"
        state.mkdir()
        return self.configure(
            rabbit_members.transport_url(self.rabbits),
            host=name,
            defaults=f"state_path = {state}",
            sections=f"[berth]\noutage_patience = {PATIENCE}\n{QUEUES}{more}",
        )

    def _start_scheduler(self, name: str) -> None:
        placement = f"endpoint_override = http://{SHARED_ADDRESS}:{PLACEMENT}\n"
        path = self._configure(name, f"[placement]\n{self.keystone.credentials}{placement}")
        scheduler = BerthSchedulerProcess(path, self.directory / f"{name}.log")
        scheduler.start()
        self.schedulers.append(scheduler)

    def _stop_schedulers(self) -> None:
        with ThreadPoolExecutor() as pool:
            pool.map(SchedulerProcess.stop, self.schedulers)
