"""What breaks in a cluster: members killed, frozen or cut off, all restarted in turn, the quorum lost."""

from collections.abc import Iterator, Sequence
import contextlib
from functools import partial
import random
import threading
import time
from typing import Any

import sqlalchemy as sa

from tools.rig.cluster import BALANCERS, BROKERS, DATABASES
from tools.rig.debian import until
from tools.rig.faults import Fault, broken, daemon_restarted, killed, stopped
from tools.rig.haproxy import IDLE
from tools.rig.world import RunningWorld

#: Seconds for which a quorum is lost.
LOST_FOR = 45.0
REJOIN_TIMEOUT = 180
CONFLICTING = (
    "UPDATE nova_placement.resource_providers SET updated_at = NOW() - INTERVAL RAND() * 9999 SECOND"
)
WAYS = ("killed", "frozen", "cut off")
#: Seconds between two writes of another writer.
CONFLICT_INTERVAL = 0.02
#: Seconds in which HAProxy notices that a restarted server is back, or a connection carries nothing.
NOTICED, CLOSED_AFTER = 6, 3


@contextlib.contextmanager
def cut_off(cloud: RunningWorld, names: Sequence[str], _seconds: float) -> Iterator[None]:
    """Nothing passes between each of these members and all others."""
    for name in names:
        cloud.members.network.cut(name)
    try:
        yield
    finally:
        for name in names:
            cloud.members.network.join(name)


@contextlib.contextmanager
def separated(
    cloud: RunningWorld, names: Sequence[str], kind: Sequence[str], _seconds: float
) -> Iterator[None]:
    """These members do not reach the others of their kind; clients and health checks reach all."""
    for name in names:
        cloud.members.network.separate(name, [other for other in kind if other != name])
    try:
        yield
    finally:
        for name in names:
            cloud.members.network.unite(name)


@contextlib.contextmanager
def balancer_lost(cloud: RunningWorld, _seconds: float) -> Iterator[None]:
    """The address moves to the other HAProxy, which does not know the connections, and later moves back."""
    first, second = BALANCERS
    cloud.members.network.take_over(second, first)
    try:
        yield
    finally:
        cloud.members.network.join(first)
        cloud.members.network.take_over(first, second)
        cloud.members.network.join(second)


@contextlib.contextmanager
def conflicting_writes(cloud: RunningWorld, _seconds: float) -> Iterator[None]:
    """A backup gets writes to the same rows of Placement: the writer rolls transactions back (1213)."""
    stopped_writing = threading.Event()
    backup = cloud.members.galera.nodes[1]

    def write() -> None:
        engine = sa.create_engine(backup.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            while not stopped_writing.wait(CONFLICT_INTERVAL):
                with contextlib.suppress(sa.exc.DBAPIError):  # its own writes may be those that lose
                    connection.execute(sa.text(CONFLICTING))
        engine.dispose()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped_writing.set()
        thread.join()


@contextlib.contextmanager
def servers_in_turn(servers: Sequence[Any], _seconds: float) -> Iterator[None]:
    """Each server is stopped in order and started again, the next one once HAProxy has noticed."""
    for server in servers:
        server.stop()
        server.start()
        time.sleep(NOTICED)
    yield


@contextlib.contextmanager
def restarted_in_turn(cloud: RunningWorld, kind: str, _seconds: float) -> Iterator[None]:
    """Each member is stopped in order and started again, the next one when all are complete."""
    for member in cloud.members.galera.nodes if kind == "galera" else cloud.members.rabbits:
        member.stop()
        member.start()
        until(lambda: complete(cloud), f"{kind} is not complete again", REJOIN_TIMEOUT)
    yield


@contextlib.contextmanager
def daemons_in_turn(cloud: RunningWorld, seconds: float) -> Iterator[None]:
    """Each daemon is restarted while the other serves."""
    for scheduler in cloud.schedulers:
        with daemon_restarted(scheduler, seconds):
            pass
    yield


def complete(cloud: RunningWorld) -> bool:
    """Return whether all members of Galera and RabbitMQ serve."""
    return all(node.synced() for node in cloud.members.galera.nodes) and all(
        member.accepts() for member in cloud.members.rabbits
    )


def make_all(cloud: RunningWorld, rng: random.Random) -> dict[str, Fault]:
    """Return all faults by their names; ``rng`` draws which member is hit."""
    writer, *backups = cloud.members.galera.nodes
    found: dict[str, Fault] = {}
    for way in WAYS:
        broker = rng.randrange(len(BROKERS))
        backup = rng.randrange(len(backups))
        found[f"writer {way}"] = _member(cloud, writer, DATABASES[0], way)
        found[f"backup {way}"] = _member(cloud, backups[backup], DATABASES[1 + backup], way)
        found[f"broker {way}"] = _member(cloud, cloud.members.rabbits[broker], BROKERS[broker], way)
    found["writer read only"] = partial(
        broken,
        partial(writer.execute, "SET GLOBAL read_only = 1"),
        partial(writer.execute, "SET GLOBAL read_only = 0"),
    )
    placement = rng.choice(cloud.members.placements)
    found["one placement killed"] = killed(placement)
    found["one placement frozen"] = stopped(placement)
    found["keystone killed"] = killed(cloud.members.keystone)
    found["keystone frozen"] = stopped(cloud.members.keystone)
    found["keystone keys replaced"] = partial(broken, cloud.members.keystone.replace_keys, lambda: None)
    balancer = cloud.members.balancers[0]
    found["haproxy killed"] = killed(balancer)
    found["haproxy frozen"] = stopped(balancer)
    found["haproxy lost"] = partial(balancer_lost, cloud)
    found["haproxy closes connections"] = partial(
        broken, partial(balancer.restart, CLOSED_AFTER), partial(balancer.restart, IDLE)
    )
    found["writer separated"] = partial(separated, cloud, DATABASES[:1], DATABASES)
    found["writer conflicts"] = partial(conflicting_writes, cloud)
    found["broker separated"] = partial(separated, cloud, [rng.choice(BROKERS)], BROKERS)
    found["galera restarted in turn"] = partial(restarted_in_turn, cloud, "galera")
    found["rabbitmq restarted in turn"] = partial(restarted_in_turn, cloud, "rabbitmq")
    found["placements restarted in turn"] = partial(servers_in_turn, cloud.members.placements)
    found["haproxy and keystone restarted in turn"] = partial(
        servers_in_turn, [*cloud.members.balancers[::-1], cloud.members.keystone]
    )
    found["daemons restarted in turn"] = partial(daemons_in_turn, cloud)
    found["galera without quorum"] = partial(cut_off, cloud, DATABASES[:2])
    found["rabbitmq without quorum"] = partial(cut_off, cloud, BROKERS[:2])
    found["galera split without quorum"] = partial(separated, cloud, DATABASES, DATABASES)
    found["rabbitmq split without quorum"] = partial(separated, cloud, BROKERS, BROKERS)
    return found


def _member(cloud: RunningWorld, server: Any, name: str, way: str) -> Fault:
    if way == "killed":
        return killed(server)
    return stopped(server) if way == "frozen" else partial(cut_off, cloud, [name])
