"""What breaks in a cluster: members killed, frozen or cut off, all restarted in turn, the quorum lost."""

from collections.abc import Iterator, Sequence
import contextlib
from functools import partial
import random
from typing import Any

from tools.rig.cluster_cloud import BROKERS, DATABASES, ClusterCloud
from tools.rig.debian import until
from tools.rig.faults import Fault, broken, daemon_restarted, killed, stopped

#: Seconds for which a quorum is lost.
LOST_FOR = 45.0
REJOIN_TIMEOUT = 180
WAYS = ("killed", "frozen", "cut off")


@contextlib.contextmanager
def cut_off(cloud: ClusterCloud, names: Sequence[str], _seconds: float) -> Iterator[None]:
    """Nothing passes between each of these members and all others."""
    for name in names:
        cloud.network.cut(name)
    try:
        yield
    finally:
        for name in names:
            cloud.network.join(name)


@contextlib.contextmanager
def restarted_in_turn(cloud: ClusterCloud, kind: str, _seconds: float) -> Iterator[None]:
    """Each member is stopped in order and started again, the next one when all are complete."""
    for member in cloud.galera.nodes if kind == "galera" else cloud.rabbits:
        member.stop()
        member.start()
        until(lambda: complete(cloud), f"{kind} is not complete again", REJOIN_TIMEOUT)
    yield


@contextlib.contextmanager
def daemons_in_turn(cloud: ClusterCloud, seconds: float) -> Iterator[None]:
    """Each daemon is restarted while the other serves."""
    for scheduler in cloud.schedulers:
        with daemon_restarted(scheduler, seconds):
            pass
    yield


def complete(cloud: ClusterCloud) -> bool:
    """Return whether all members of Galera and RabbitMQ serve."""
    return all(node.synced() for node in cloud.galera.nodes) and all(
        member.answers() for member in cloud.rabbits
    )


def make_all(cloud: ClusterCloud, rng: random.Random) -> dict[str, Fault]:
    """Return all faults by their names; ``rng`` draws which member is hit."""
    writer, *backups = cloud.galera.nodes
    found: dict[str, Fault] = {}
    for way in WAYS:
        broker = rng.randrange(len(BROKERS))
        backup = rng.randrange(len(backups))
        found[f"writer {way}"] = _member(cloud, writer, DATABASES[0], way)
        found[f"backup {way}"] = _member(cloud, backups[backup], DATABASES[1 + backup], way)
        found[f"broker {way}"] = _member(cloud, cloud.rabbits[broker], BROKERS[broker], way)
    found["writer read only"] = partial(
        broken,
        partial(writer.execute, "SET GLOBAL read_only = 1"),
        partial(writer.execute, "SET GLOBAL read_only = 0"),
    )
    placement = rng.choice(cloud.placements)
    found["one placement killed"] = killed(placement)
    found["one placement frozen"] = stopped(placement)
    found["keystone killed"] = killed(cloud.keystone)
    found["keystone frozen"] = stopped(cloud.keystone)
    found["haproxy killed"] = killed(cloud.haproxy)
    found["haproxy frozen"] = stopped(cloud.haproxy)
    found["galera restarted in turn"] = partial(restarted_in_turn, cloud, "galera")
    found["rabbitmq restarted in turn"] = partial(restarted_in_turn, cloud, "rabbitmq")
    found["daemons restarted in turn"] = partial(daemons_in_turn, cloud)
    found["galera without quorum"] = partial(cut_off, cloud, DATABASES[:2])
    found["rabbitmq without quorum"] = partial(cut_off, cloud, BROKERS[:2])
    return found


def _member(cloud: ClusterCloud, server: Any, name: str, way: str) -> Fault:
    if way == "killed":
        return killed(server)
    return stopped(server) if way == "frozen" else partial(cut_off, cloud, [name])
