"""The faults: how each begins and how it is healed.

A fault is a class with one instance for each use: ``begin`` breaks something, ``heal`` puts it right. What is
hit, and when, is drawn from a generator of random numbers.
"""

from collections.abc import Callable, Sequence
import contextlib
import random
import signal
import threading
import time
from typing import Any, Protocol

import psutil

from tools.rig import loopback
from tools.rig.chaos_cloud import ChaosCloud
from tools.rig.cloud import SchedulerProcess
from tools.rig.machine import Clock
from tools.rig.tcp_proxy import Direction, Passage, TcpProxy

JUMPS = (-86400, -3600, -60, 60, 3600, 86400)  # seconds
THROTTLED_FOR = 0.05  # seconds for which a throttled server runs at a time
KILL_INTERVAL = 2.0  # seconds between two kills of workers


class Fault(Protocol):
    """Something that breaks for a while."""

    def begin(self, seconds: float) -> None:
        """Break it. A fault that takes its time ends within ``seconds``."""

    def heal(self) -> None:
        """Put it right; afterwards the service must be as before."""


class Server(Protocol):
    """What can be stopped, killed and started again."""

    def signal(self, number: int) -> None:
        """Send a signal to all of its processes."""

    def kill(self) -> None:
        """Kill it."""

    def start(self) -> Any:
        """Start it again."""


class Stop:
    """A server that stands still: its connections stay open, nothing answers."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def begin(self, seconds: float) -> None:
        self._server.signal(signal.SIGSTOP)

    def heal(self) -> None:
        self._server.signal(signal.SIGCONT)


class Restart:
    """A server that is killed, and started again some time later."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def begin(self, seconds: float) -> None:
        self._server.kill()

    def heal(self) -> None:
        self._server.start()


class Disturb:
    """A connection that holds, loses or trickles what is sent in one direction or both."""

    def __init__(self, proxy: TcpProxy, rng: random.Random, passage: Passage) -> None:
        self._proxy = proxy
        self._passage = passage
        one_or_both = [[Direction.TO_SERVER], [Direction.TO_CLIENT], list(Direction)]
        self._directions = rng.choice(one_or_both)

    def begin(self, seconds: float) -> None:
        self._proxy.disturb(self._passage, *self._directions)

    def heal(self) -> None:
        self._proxy.heal()


class Throttle:
    """A server that runs for a tenth of the time only, as in a container with too little CPU."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def begin(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._server.signal(signal.SIGSTOP)
            time.sleep(9 * THROTTLED_FOR)
            self._server.signal(signal.SIGCONT)
            time.sleep(THROTTLED_FOR)

    def heal(self) -> None:
        self._server.signal(signal.SIGCONT)


class _Refusing(loopback.Handler):
    """Answers every request as a Placement does whose policy gives the user no rights."""

    def _refuse(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_PUT = do_POST = do_DELETE = _refuse  # noqa: N815 - names of http.server


class Refuse:
    """Placement refuses the requests of some daemons."""

    def __init__(self, ways: Sequence[TcpProxy], port: int) -> None:
        """Redirect the ways to Placement; ``port`` is where they lead after healing."""
        self._ways = ways
        self._port = port
        self._server = loopback.Server(_Refusing)

    def begin(self, seconds: float) -> None:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        for way in self._ways:
            way.redirect(self._server.server_port)

    def heal(self) -> None:
        for way in self._ways:
            way.redirect(self._port)
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()


class Together:
    """Several faults at once."""

    def __init__(self, *faults: Fault) -> None:
        self._faults = faults

    def begin(self, seconds: float) -> None:
        for fault in self._faults:
            fault.begin(seconds)

    def heal(self) -> None:
        for fault in self._faults:
            fault.heal()


class KillWorkers:
    """Workers are killed one after the other; their master starts others."""

    def __init__(self, cloud: ChaosCloud, rng: random.Random) -> None:
        self._cloud = cloud
        self._rng = rng

    def begin(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for worker in self._rng.sample(self._rng.choice(self._cloud.schedulers).workers(), 1):
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.kill()
            time.sleep(self._rng.uniform(0, KILL_INTERVAL))

    def heal(self) -> None:
        """Do nothing: the master does it."""


class StopWorker:
    """A worker stands still, with the requests that the broker gave it."""

    def __init__(self, cloud: ChaosCloud, rng: random.Random) -> None:
        self._worker = rng.choice(rng.choice(cloud.schedulers).workers())

    def begin(self, seconds: float) -> None:
        self._worker.suspend()

    def heal(self) -> None:
        self._worker.resume()


class KillMaster:
    """The master of a daemon is killed; a service manager ends its workers and starts it again."""

    def __init__(self, schedulers: list[SchedulerProcess]) -> None:
        self._schedulers = schedulers

    def begin(self, seconds: float) -> None:
        for scheduler in self._schedulers:
            psutil.Process(scheduler.pid).kill()

    def heal(self) -> None:
        for scheduler in self._schedulers:
            scheduler.kill()  # what is left of the group
            scheduler.start()


class RestartDaemon:
    """A daemon is stopped by SIGTERM and started again, while others serve."""

    def __init__(self, scheduler: SchedulerProcess) -> None:
        self._scheduler = scheduler

    def begin(self, seconds: float) -> None:
        status = self._scheduler.stop()
        if status != 0:
            raise RuntimeError(f"A scheduler that was asked to stop ended with status {status}")

    def heal(self) -> None:
        self._scheduler.start()


class FillDisks:
    """The disks with the journals and the decision logs are full."""

    def __init__(self, cloud: ChaosCloud) -> None:
        self._cloud = cloud

    def begin(self, seconds: float) -> None:
        for disk, scheduler in zip(self._cloud.disks, self._cloud.schedulers, strict=True):
            disk.fill(scheduler)

    def heal(self) -> None:
        for disk, scheduler in zip(self._cloud.disks, self._cloud.schedulers, strict=True):
            disk.empty(scheduler)


class FillDisksAndKill(FillDisks):
    """Workers are killed while the disks are full."""

    def __init__(self, cloud: ChaosCloud, rng: random.Random) -> None:
        super().__init__(cloud)
        self._kills = KillWorkers(cloud, rng)

    def begin(self, seconds: float) -> None:
        super().begin(seconds)
        self._kills.begin(seconds)


class ShiftClock:
    """The wall clock of a daemon jumps; healing lets it jump back."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._seconds = rng.choice(JUMPS)

    def begin(self, seconds: float) -> None:
        self._clock.shift(self._seconds)

    def heal(self) -> None:
        self._clock.shift(0)


CONNECTIONS = {Passage.HOLD: "held", Passage.LOSE: "lossy", Passage.TRICKLE: "trickling"}
SERVERS = ("broker", "mariadb", "postgresql", "placement")
PROCESSES = (
    "worker killed",
    "worker stopped",
    "daemon restarted",
    "master killed",
    "all masters killed",
    "disk full",
    "disk full, worker killed",
    "clock jumps",
)
OUTAGES = (
    "placement throttled",
    "placement refuses",
    "placement refuses one daemon",
    "everything stopped",
    "everything killed",
)
#: Faults by which a request may end the process in which it runs too often, and is answered with an error.
MAY_REFUSE = ("worker killed", "disk full, worker killed")

#: All faults. "held" is a connection whose bytes arrive after healing.
NAMES = (
    *PROCESSES,
    *OUTAGES,
    *(f"{name} {what}" for name in SERVERS for what in ("stopped", "killed", *CONNECTIONS.values())),
)


def make(name: str, cloud: ChaosCloud, rng: random.Random) -> Fault | None:
    """Return a fault by its name; None if this machine cannot have it."""
    if name in OUTAGES:
        return _outage(name, cloud, rng)
    if name not in PROCESSES:
        return _server_fault(*name.split(), cloud, rng)
    if name == "clock jumps":
        return ShiftClock(cloud.clock, rng) if cloud.clock else None
    makers: dict[str, Callable[[], Fault]] = {
        "worker killed": lambda: KillWorkers(cloud, rng),
        "worker stopped": lambda: StopWorker(cloud, rng),
        "daemon restarted": lambda: RestartDaemon(rng.choice(cloud.schedulers)),
        "master killed": lambda: KillMaster([rng.choice(cloud.schedulers)]),
        "all masters killed": lambda: KillMaster(cloud.schedulers),
        "disk full": lambda: FillDisks(cloud),
        "disk full, worker killed": lambda: FillDisksAndKill(cloud, rng),
    }
    return makers[name]()


def _outage(name: str, cloud: ChaosCloud, rng: random.Random) -> Fault:
    if name == "placement throttled":
        return Throttle(cloud.placement)
    if name.startswith("everything"):
        what = name.removeprefix("everything ")
        # Placement is started after its database
        return Together(*[_server_fault(each, what, cloud, rng) for each in SERVERS])
    ways = cloud.ways_to_placement
    return Refuse(
        [rng.choice(ways)] if name.endswith("one daemon") else ways, cloud.proxies["placement"].port
    )


def _server_fault(name: str, what: str, cloud: ChaosCloud, rng: random.Random) -> Fault:
    if what in CONNECTIONS.values():
        passage = next(passage for passage, word in CONNECTIONS.items() if word == what)
        return Disturb(cloud.proxies[name], rng, passage)
    server: Server = cloud.rabbit if name == "broker" else getattr(cloud, name)
    return Stop(server) if what == "stopped" else Restart(server)
