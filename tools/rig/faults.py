"""The faults: what breaks on entry of a context, and is healed on its exit.

``CHAOS`` has those of servers and daemons of one machine, ``CLUSTER`` those of members of a cluster. What is
hit, and when, is drawn from a generator of random numbers.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
import contextlib
from functools import partial
from operator import methodcaller
import random
import signal
import threading
import time
from typing import Any

import sqlalchemy as sa

from tools.rig import cluster, loopback
from tools.rig.cluster import BALANCERS, BROKERS, DATABASES
from tools.rig.haproxy import IDLE
from tools.rig.schedulers import SchedulerProcess
from tools.rig.service import ServiceProcess
from tools.rig.tcp_proxy import Direction, Passage, TcpProxy
from tools.rig.world import RunningWorld

JUMPS = (-86400, -3600, -60, 60, 3600, 86400)  # seconds
THROTTLED_FOR = 0.05  # seconds for which a throttled server runs at a time
KILL_INTERVAL = 2.0  # seconds between two kills
LOST_FOR = 45.0  # seconds for which a quorum is lost
CONFLICT_INTERVAL = 0.02  # seconds between two writes of another writer
CONFLICTING = (
    "UPDATE nova_placement.resource_providers SET updated_at = NOW() - INTERVAL RAND() * 9999 SECOND"
)
#: Seconds in which HAProxy notices that a restarted server is back, or a connection carries nothing.
NOTICED, CLOSED_AFTER = 6, 3

#: A function from seconds to the context in which something is broken. A fault that takes its time, as kills
#: one after the other, enters within so many seconds. After the exit the service must be as before.
Fault = Callable[[float], contextlib.AbstractContextManager[None]]

#: Makes the fault of a name in a cloud; None if this machine cannot have it.
Maker = Callable[[RunningWorld, random.Random], Fault | None]


def broken(breaks: Callable[[], Any], heals: Callable[[], Any] = lambda: None) -> Fault:
    """Something is done at the begin, and undone at the end."""

    @contextlib.contextmanager
    def fault(_seconds: float) -> Iterator[None]:
        breaks()
        try:
            yield
        finally:
            heals()

    return fault


def of_all(items: Iterable[Any], breaks: Callable[[Any], Any], heals: Callable[[Any], Any]) -> Fault:
    """The same is done with several, and undone in the same order."""
    each = list(items)
    return broken(lambda: list(map(breaks, each)), lambda: list(map(heals, each)))


def stopped(server: ServiceProcess) -> Fault:
    """A server or a daemon stands still: its connections stay open, nothing answers."""
    return broken(partial(server.signal, signal.SIGSTOP), partial(server.signal, signal.SIGCONT))


def killed(*servers: ServiceProcess) -> Fault:
    """Servers or daemons are killed, and started again some time later."""
    return of_all(servers, methodcaller("kill"), methodcaller("start"))


@contextlib.contextmanager
def throttled(server: ServiceProcess, seconds: float) -> Iterator[None]:
    """A server runs for a tenth of the time only, as in a container with too little CPU."""
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            server.signal(signal.SIGSTOP)
            time.sleep(9 * THROTTLED_FOR)
            server.signal(signal.SIGCONT)
            time.sleep(THROTTLED_FOR)
        yield
    finally:
        server.signal(signal.SIGCONT)


class _Refusing(loopback.Handler):
    """Answers every request as a Placement does whose policy gives the user no rights."""

    def _refuse(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_PUT = do_POST = do_DELETE = _refuse  # noqa: N815 - names of http.server


@contextlib.contextmanager
def refused(ways: Sequence[TcpProxy], port: int, _seconds: float) -> Iterator[None]:
    """Placement refuses the requests that come by some ways, which lead to ``port`` after healing."""
    with loopback.Server(_Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for way in ways:
            way.redirect(server.server_port)
        try:
            yield
        finally:
            for way in ways:
                way.redirect(port)
            server.shutdown()
            server.hang_up()


@contextlib.contextmanager
def together(faults: Sequence[Fault], seconds: float) -> Iterator[None]:
    """Several faults at once, healed in the same order: Placement is started after its database."""
    with contextlib.ExitStack() as stack:
        for fault in reversed(faults):
            stack.enter_context(fault(seconds))
        yield


@contextlib.contextmanager
def schedulers_killed(cloud: RunningWorld, rng: random.Random, seconds: float) -> Iterator[None]:
    """Schedulers are killed one after the other; a service manager starts each again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        scheduler = rng.choice(cloud.schedulers)
        scheduler.kill()
        scheduler.start()
        time.sleep(rng.uniform(0, KILL_INTERVAL))
    yield


def stop(scheduler: SchedulerProcess) -> None:
    """Stop a daemon by SIGTERM.

    Raises:
        RuntimeError: It ends with another status than 0.
    """
    if status := scheduler.stop():
        raise RuntimeError(f"A scheduler that was asked to stop ended with status {status}")


@contextlib.contextmanager
def in_turn(
    servers: Sequence[Any],
    then: Callable[[], Any],
    _seconds: float,
    stops: Callable[[Any], Any] = methodcaller("stop"),
) -> Iterator[None]:
    """Each server is stopped in order and started again, the next one after what is done ``then``."""
    for server in servers:
        stops(server)
        server.start()
        then()
    yield


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


CONNECTIONS = {"held": Passage.HOLD, "lossy": Passage.LOSE, "trickling": Passage.TRICKLE}
SERVERS = ("broker", "mariadb", "postgresql", "placement")


def _of_server(name: str, what: str, cloud: RunningWorld, rng: random.Random) -> Fault:
    if what in CONNECTIONS:
        directions = rng.choice([[Direction.TO_SERVER], [Direction.TO_CLIENT], list(Direction)])
        proxy = cloud.proxies[name]
        return broken(partial(proxy.disturb, CONNECTIONS[what], *directions), proxy.heal)
    server: ServiceProcess = cloud.rabbit if name == "broker" else getattr(cloud, name)
    return stopped(server) if what == "stopped" else killed(server)


def _all_servers(what: str, cloud: RunningWorld, rng: random.Random) -> Fault:
    return partial(together, [_of_server(name, what, cloud, rng) for name in SERVERS])


def _refusing(cloud: RunningWorld, ways: Sequence[TcpProxy]) -> Fault:
    return partial(refused, ways, cloud.proxies["placement"].port)


def _disks_full(cloud: RunningWorld, _rng: random.Random) -> Fault | None:
    """The disks with what daemons keep, and the decision logs, are full."""
    if not all(disk.mounted for disk in cloud.disks):
        return None
    return of_all(cloud.disks, methodcaller("fill"), methodcaller("empty"))


def _disks_full_and_killed(cloud: RunningWorld, rng: random.Random) -> Fault | None:
    full = _disks_full(cloud, rng)
    return partial(together, [partial(schedulers_killed, cloud, rng), full]) if full else None


def _clock_shifted(cloud: RunningWorld, rng: random.Random) -> Fault | None:
    """The wall clock of a daemon jumps, and jumps back."""
    clock, jump = cloud.clock, rng.choice(JUMPS)
    return broken(partial(clock.shift, jump), partial(clock.shift, 0)) if clock else None


#: Load alone: whether the schedulers stay as large as they are.
NOTHING = "nothing"
#: Faults by which a request may end the process in which it runs too often, and is answered with an error.
MAY_REFUSE = ("scheduler killed", "disk full, scheduler killed")
#: "held" is a connection whose bytes arrive after healing.
CHAOS: dict[str, Maker] = {
    NOTHING: lambda _cloud, _rng: contextlib.nullcontext,
    "scheduler killed": lambda cloud, rng: partial(schedulers_killed, cloud, rng),
    "scheduler stopped": lambda cloud, rng: stopped(rng.choice(cloud.schedulers)),
    "daemon restarted": lambda cloud, rng: of_all(
        [rng.choice(cloud.schedulers)], stop, methodcaller("start")
    ),
    "all schedulers killed": lambda cloud, _rng: killed(*cloud.schedulers),
    "disk full": _disks_full,
    "disk full, scheduler killed": _disks_full_and_killed,
    "clock jumps": _clock_shifted,
    "placement throttled": lambda cloud, _rng: partial(throttled, cloud.placement),
    "placement refuses": lambda cloud, _rng: _refusing(cloud, cloud.ways_to_placement),
    "placement refuses one daemon": lambda cloud, rng: _refusing(
        cloud, [rng.choice(cloud.ways_to_placement)]
    ),
    "everything stopped": partial(_all_servers, "stopped"),
    "everything killed": partial(_all_servers, "killed"),
    **{
        f"{name} {what}": partial(_of_server, name, what)
        for name in SERVERS
        for what in ("stopped", "killed", *CONNECTIONS)
    },
}


def _member(kind: str, way: str, cloud: RunningWorld, rng: random.Random) -> Fault:
    members = cloud.members
    databases = list(zip(members.galera.nodes, DATABASES, strict=True))
    brokers = list(zip(members.rabbits, BROKERS, strict=True))
    server, name = rng.choice({"writer": databases[:1], "backup": databases[1:], "broker": brokers}[kind])
    if way == "cut off":
        return _cut_off(name)(cloud, rng)
    return killed(server) if way == "killed" else stopped(server)


def _cut_off(*names: str) -> Maker:
    """Nothing passes between each of these members and all others."""
    return lambda cloud, _rng: of_all(names, cloud.members.network.cut, cloud.members.network.join)


def _separated(names: Sequence[str], kind: Sequence[str]) -> Maker:
    """These members do not reach the others of their kind; clients and health checks reach all."""

    def make(cloud: RunningWorld, _rng: random.Random) -> Fault:
        network = cloud.members.network
        return of_all(
            names,
            lambda name: network.separate(name, [other for other in kind if other != name]),
            network.unite,
        )

    return make


def _balancer_lost(cloud: RunningWorld, _rng: random.Random) -> Fault:
    """The address moves to the other HAProxy, which does not know the connections, and later moves back."""
    (first, second), network = BALANCERS, cloud.members.network

    def heal() -> None:
        network.join(first)
        network.take_over(first, second)
        network.join(second)

    return broken(partial(network.take_over, second, first), heal)


def _read_only(cloud: RunningWorld, _rng: random.Random) -> Fault:
    write = cloud.members.galera.nodes[0].execute
    return broken(partial(write, "SET GLOBAL read_only = 1"), partial(write, "SET GLOBAL read_only = 0"))


def _closing(cloud: RunningWorld, _rng: random.Random) -> Fault:
    restart = cloud.members.balancers[0].restart
    return broken(partial(restart, CLOSED_AFTER), partial(restart, IDLE))


def _restarted(servers: Callable[[cluster.Members], Sequence[Any]]) -> Maker:
    """The next one is restarted when the cluster is complete, and HAProxy has noticed."""

    def make(cloud: RunningWorld, _rng: random.Random) -> Fault:
        def wait() -> None:
            cluster.wait_until_complete(cloud)
            time.sleep(NOTICED)

        return partial(in_turn, servers(cloud.members), wait)

    return make


CLUSTER: dict[str, Maker] = {
    **{
        f"{kind} {way}": partial(_member, kind, way)
        for way in ("killed", "frozen", "cut off")
        for kind in ("writer", "backup", "broker")
    },
    "writer read only": _read_only,
    "one placement killed": lambda cloud, rng: killed(rng.choice(cloud.members.placements)),
    "one placement frozen": lambda cloud, rng: stopped(rng.choice(cloud.members.placements)),
    "keystone killed": lambda cloud, _rng: killed(cloud.members.keystone),
    "keystone frozen": lambda cloud, _rng: stopped(cloud.members.keystone),
    "keystone keys replaced": lambda cloud, _rng: broken(cloud.members.keystone.replace_keys),
    "haproxy killed": lambda cloud, _rng: killed(cloud.members.balancers[0]),
    "haproxy frozen": lambda cloud, _rng: stopped(cloud.members.balancers[0]),
    "haproxy lost": _balancer_lost,
    "haproxy closes connections": _closing,
    "writer separated": _separated(DATABASES[:1], DATABASES),
    "writer conflicts": lambda cloud, _rng: partial(conflicting_writes, cloud),
    "broker separated": lambda cloud, rng: _separated([rng.choice(BROKERS)], BROKERS)(cloud, rng),
    "galera restarted in turn": _restarted(lambda members: members.galera.nodes),
    "rabbitmq restarted in turn": _restarted(lambda members: members.rabbits),
    "placements restarted in turn": _restarted(lambda members: members.placements),
    "haproxy and keystone restarted in turn": _restarted(
        lambda members: [*members.balancers[::-1], members.keystone]
    ),
    "daemons restarted in turn": lambda cloud, _rng: partial(
        in_turn, cloud.schedulers, lambda: None, stops=stop
    ),
    "galera without quorum": _cut_off(*DATABASES[:2]),
    "rabbitmq without quorum": _cut_off(*BROKERS[:2]),
    "galera split without quorum": _separated(DATABASES, DATABASES),
    "rabbitmq split without quorum": _separated(BROKERS, BROKERS),
}
