"""The faults: what breaks on entry of a context, and is healed on its exit.

What is hit, and when, is drawn from a generator of random numbers.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
from functools import partial
import random
import signal
import threading
import time
from typing import Any

import psutil

from tools.rig import loopback
from tools.rig.machine import Clock
from tools.rig.schedulers import SchedulerProcess
from tools.rig.service import ServiceProcess
from tools.rig.tcp_proxy import Direction, Passage, TcpProxy
from tools.rig.world import RunningWorld

JUMPS = (-86400, -3600, -60, 60, 3600, 86400)  # seconds
THROTTLED_FOR = 0.05  # seconds for which a throttled server runs at a time
KILL_INTERVAL = 2.0  # seconds between two kills

#: A function from seconds to the context in which something is broken. A fault that takes its time, as kills
#: one after the other, enters within so many seconds. After the exit the service must be as before.
Fault = Callable[[float], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def broken(breaks: Callable[[], Any], heals: Callable[[], Any], _seconds: float) -> Iterator[None]:
    """Something is done at the begin, and undone at the end."""
    breaks()
    try:
        yield
    finally:
        heals()


def stopped(server: ServiceProcess) -> Fault:
    """A server stands still: its connections stay open, nothing answers."""
    return partial(broken, partial(server.signal, signal.SIGSTOP), partial(server.signal, signal.SIGCONT))


def killed(server: ServiceProcess) -> Fault:
    """A server is killed, and started again some time later."""
    return partial(broken, server.kill, server.start)


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


def scheduler_stopped(scheduler: SchedulerProcess) -> Fault:
    """A scheduler stands still, with the requests that the broker gave it."""
    process = psutil.Process(scheduler.pid)
    return partial(broken, process.suspend, process.resume)


@contextlib.contextmanager
def all_killed(schedulers: Sequence[SchedulerProcess], _seconds: float) -> Iterator[None]:
    """All schedulers are killed, and started again later."""
    for scheduler in schedulers:
        scheduler.kill()
    try:
        yield
    finally:
        for scheduler in schedulers:
            scheduler.start()


@contextlib.contextmanager
def daemon_restarted(scheduler: SchedulerProcess, _seconds: float) -> Iterator[None]:
    """A daemon is stopped by SIGTERM and started again, while others serve."""
    status = scheduler.stop()
    try:
        if status != 0:
            raise RuntimeError(f"A scheduler that was asked to stop ended with status {status}")
        yield
    finally:
        scheduler.start()


@contextlib.contextmanager
def disks_full(cloud: RunningWorld, kills: Fault | None, seconds: float) -> Iterator[None]:
    """The disks with what daemons keep, and the decision logs, are full; schedulers may be killed."""
    pairs = list(zip(cloud.disks, cloud.schedulers, strict=True))
    for disk, scheduler in pairs:
        disk.fill(scheduler)
    try:
        with kills(seconds) if kills else contextlib.nullcontext():
            yield
    finally:
        for disk, scheduler in pairs:
            disk.empty(scheduler)


CONNECTIONS = {"held": Passage.HOLD, "lossy": Passage.LOSE, "trickling": Passage.TRICKLE}
SERVERS = ("broker", "mariadb", "postgresql", "placement")

#: Makes the fault of a name in a cloud.
Maker = Callable[[RunningWorld, random.Random], Fault]

#: Load alone: whether the schedulers stay as large as they are.
NOTHING = "nothing"
_PROCESSES: dict[str, Maker] = {
    NOTHING: lambda _cloud, _rng: contextlib.nullcontext,
    "scheduler killed": lambda cloud, rng: partial(schedulers_killed, cloud, rng),
    "scheduler stopped": lambda cloud, rng: scheduler_stopped(rng.choice(cloud.schedulers)),
    "daemon restarted": lambda cloud, rng: partial(daemon_restarted, rng.choice(cloud.schedulers)),
    "all schedulers killed": lambda cloud, _rng: partial(all_killed, cloud.schedulers),
    "disk full": lambda cloud, _rng: partial(disks_full, cloud, None),
    "disk full, scheduler killed": lambda cloud, rng: partial(
        disks_full, cloud, partial(schedulers_killed, cloud, rng)
    ),
    "clock jumps": lambda cloud, rng: _clock_shifted(cloud.clock, rng.choice(JUMPS)),
}
_OUTAGES: dict[str, Maker] = {
    "placement throttled": lambda cloud, _rng: partial(throttled, cloud.placement),
    "placement refuses": lambda cloud, _rng: _refusing(cloud, cloud.ways_to_placement),
    "placement refuses one daemon": lambda cloud, rng: _refusing(
        cloud, [rng.choice(cloud.ways_to_placement)]
    ),
    "everything stopped": lambda cloud, rng: _all_servers("stopped", cloud, rng),
    "everything killed": lambda cloud, rng: _all_servers("killed", cloud, rng),
}
#: Faults by which a request may end the process in which it runs too often, and is answered with an error.
MAY_REFUSE = ("scheduler killed", "disk full, scheduler killed")
#: All faults. "held" is a connection whose bytes arrive after healing.
NAMES = (
    *_PROCESSES,
    *_OUTAGES,
    *(f"{name} {what}" for name in SERVERS for what in ("stopped", "killed", *CONNECTIONS)),
)


def make(name: str, cloud: RunningWorld, rng: random.Random) -> Fault | None:
    """Return a fault by its name; None if this machine cannot have it."""
    if name == "clock jumps" and not cloud.clock:
        return None
    maker = _PROCESSES.get(name) or _OUTAGES.get(name)
    return maker(cloud, rng) if maker else _of_server(*name.split(), cloud, rng)


def _clock_shifted(clock: Clock, jump: int) -> Fault:
    """Let the wall clock of a daemon jump, and jump back."""
    return partial(broken, partial(clock.shift, jump), partial(clock.shift, 0))


def _refusing(cloud: RunningWorld, ways: Sequence[TcpProxy]) -> Fault:
    return partial(refused, ways, cloud.proxies["placement"].port)


def _all_servers(what: str, cloud: RunningWorld, rng: random.Random) -> Fault:
    return partial(together, [_of_server(name, what, cloud, rng) for name in SERVERS])


def _of_server(name: str, what: str, cloud: RunningWorld, rng: random.Random) -> Fault:
    if what in CONNECTIONS:
        directions = rng.choice([[Direction.TO_SERVER], [Direction.TO_CLIENT], list(Direction)])
        proxy = cloud.proxies[name]
        return partial(broken, partial(proxy.disturb, CONNECTIONS[what], *directions), proxy.heal)
    server: ServiceProcess = cloud.rabbit if name == "broker" else getattr(cloud, name)
    return stopped(server) if what == "stopped" else killed(server)
