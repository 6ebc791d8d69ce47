"""The parts of a cluster: Galera behind two HAProxies, three RabbitMQ nodes, two Placements, Keystone.

Services reach the first HAProxy. All of this needs root.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
import re
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tools.rig import rabbit_members, servers
from tools.rig.galera import PORT, Galera
from tools.rig.haproxy import MARIADB, PLACEMENT, HaProxy
from tools.rig.keystone import Keystone
from tools.rig.namespaces import BRIDGE_ADDRESS, SHARED_ADDRESS, Network
from tools.rig.placement import PlacementProcess
from tools.rig.rabbit_members import Member
from tools.rig.service import until

if TYPE_CHECKING:
    from tools.rig.world import RunningWorld

DATABASES, BROKERS, BALANCERS = ["db1", "db2", "db3"], ["mq1", "mq2", "mq3"], ["lb1", "lb2"]
PLACEMENT_PORTS = range(29000, 29900)
START_TIMEOUT = REJOIN_TIMEOUT = 180
#: Seconds for which a token is valid. keystoneauth gets another one 120 s before: each is used for 30 s.
TOKEN_SECONDS = 150
#: Seconds for which Placement does not ask again whether a token is valid.
MIDDLEWARE = "token_cache_time = 10\n"
USER = "nova"  # without the right to write while a server is read only, which root has


@dataclass
class Members:
    """The members of a cluster; the network is what can be cut."""

    network: Network
    galera: Galera
    keystone: Keystone
    rabbits: list[Member]
    balancers: list[HaProxy] = field(default_factory=list)
    placements: list[PlacementProcess] = field(default_factory=list)


def start(cloud: "RunningWorld", server: servers.Server) -> None:
    """Start a server that ends with the cloud, also if it does not answer in time."""
    cloud.callback(server.kill)
    server.start()


def brokers(cloud: "RunningWorld") -> None:
    """Have three RabbitMQ nodes, and what takes as long to start: Galera and Keystone."""
    network = cloud.enter_context(Network([*DATABASES, *BROKERS, *BALANCERS]))
    with ThreadPoolExecutor() as pool:
        starting = pool.submit(_brokers, cloud, network)
        making = pool.submit(Keystone, cloud.world.software, cloud.directory / "keystone", TOKEN_SECONDS)
        galera = cloud.enter_context(Galera(network, DATABASES))
        cloud.members = Members(network, galera, making.result(), starting.result())
    start(cloud, cloud.members.keystone)
    cloud.rabbit = rabbit_members.Brokers(cloud.members.rabbits)
    cloud.callers_bus = cloud.daemons_bus = cloud.rabbit.vhost()


def _brokers(cloud: "RunningWorld", network: Network) -> list[Member]:
    directory, system = cloud.directory / "rabbit", cloud.world.system
    directory.mkdir()
    rabbit_members.write_cookie(directory)
    members = [Member(network, name, BROKERS, directory, system) for name in BROKERS]
    for member in members:
        start(cloud, member)
        # A new node of RabbitMQ 4 waits for the others; one of 3.10 needs one that is up to join
        if member is members[0] and not system:
            member.wait()
    for member in members:
        member.wait()
    return members


def galera(cloud: "RunningWorld") -> None:
    """Reach Galera by way of HAProxy, which also leads to two Placements."""
    members = cloud.members
    ports = [servers.free_port(PLACEMENT_PORTS) for _ in range(2)]
    nodes = zip(members.galera.nodes, members.galera.checks, strict=True)
    writers = [(f"{node.address}:{PORT}", check) for node, check in nodes]
    for name in BALANCERS:
        balancer = HaProxy(members.network, name, writers, ports, cloud.directory / name)
        start(cloud, balancer)
        members.balancers.append(balancer)
    members.network.take_over(BALANCERS[0])
    first = members.galera.nodes[0]
    first.execute(f"CREATE USER {USER}@'%'")
    for name in (*cloud.databases, "placement"):
        first.execute(f"CREATE DATABASE nova_{name}")
        first.execute(f"GRANT ALL ON nova_{name}.* TO {USER}@'%'")
        cloud.urls[name] = f"mysql+pymysql://{USER}@{SHARED_ADDRESS}:{MARIADB}/nova_{name}"
    until(lambda: _reaches_writer(cloud.urls["api"]), "HAProxy finds no writer", START_TIMEOUT)
    credentials = members.keystone.credentials + MIDDLEWARE
    for port in ports:
        log = cloud.directory / f"placement-{port}.log"
        placement = PlacementProcess(
            cloud.urls["placement"], port, log=log, keystone=credentials, address=BRIDGE_ADDRESS
        )
        cloud.enter_context(placement)
        members.placements.append(placement)


def _reaches_writer(url: str) -> bool:
    try:
        with sa.create_engine(url, poolclass=sa.NullPool).connect():
            return True
    except sa.exc.OperationalError:
        return False


def placements(cloud: "RunningWorld") -> None:
    """Have one more Placement, by which replies are compared; no daemon uses it, and it needs no token."""
    log = cloud.directory / "placement.log"
    cloud.placement_url = cloud.enter_context(PlacementProcess(cloud.urls["placement"], log=log))
    balanced = f"endpoint_override = http://{SHARED_ADDRESS}:{PLACEMENT}\n"
    cloud.daemon_options = f"[placement]\n{cloud.members.keystone.credentials}{balanced}"


def wait_until_complete(cloud: "RunningWorld") -> None:
    """Wait until all members of Galera and RabbitMQ serve; raises as ``until``."""
    galera, rabbits = cloud.members.galera.nodes, cloud.members.rabbits
    until(
        lambda: all(node.synced() for node in galera) and all(member.accepts() for member in rabbits),
        "The cluster is not complete again",
        REJOIN_TIMEOUT,
    )


def errors(cloud: "RunningWorld") -> Counter[str]:
    """Return how often logs have errors of databases, lost transactions, tokens and paused brokers."""
    found: Counter[str] = Counter()
    members = cloud.members
    for service in (*members.placements, *cloud.schedulers):
        found.update(re.findall(r"\((1047|1205|1213|1290|2003|2006|2013), ['\"]", service.text()))
    found["aborted"] = sum(node.aborted() for node in members.galera.nodes)
    found["tokens"] = members.keystone.tokens()
    found["paused"] = sum(member.pauses() for member in members.rabbits)
    return found
