"""The schedulers that are compared: how each is started, prepared and stopped."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
import time
from typing import Protocol

from conductor_client.bus import Bus
from conductor_client.client import SchedulerClient
from scheduler.rpc.context import RequestContext
from tools.cloud import BerthSchedulerProcess, NovaSchedulerProcess
from tools.side_by_side.rig import PLACEMENT_KEEPALIVE, Rig

#: Seconds until nova-scheduler answers: it first reads all hosts, on a busy machine for minutes.
START_TIMEOUT = 600
#: Seconds for casts to be consumed.
SYNC_TIMEOUT = 600
#: Seconds between two looks at the length of a queue.
LOOK_INTERVAL = 0.5


@dataclass(frozen=True)
class Running:
    """A scheduler that answers.

    Attributes:
        bus: Where it answers.
        pids: Its process, or one for each daemon; others may be below them.
    """

    bus: Bus
    pids: Sequence[int]


class Contender(Protocol):
    """A scheduler.

    Attributes:
        name: How results call it.
    """

    @property
    def name(self) -> str:
        """How results call it."""

    def run(self, rig: Rig) -> AbstractContextManager[Running]:
        """Run the scheduler on a virtual host of its own."""


class BerthScheduler:
    """Berth in one of its modes: one worker, or several in one daemon or in daemons of their own."""

    def __init__(self, candidates: str, daemons: int = 1, workers: int = 1) -> None:
        """Name the mode, ``[berth] candidates``, the number of daemons, and that of the workers of each."""
        self._candidates = candidates
        self._daemons = daemons
        self._workers = workers

    @property
    def name(self) -> str:
        """How results call it."""
        daemons = f", {self._daemons}" if self._daemons > 1 else ""
        workers = f", {self._workers} workers" if self._workers > 1 else ""
        return f"Berth, {self._candidates}{daemons}{workers}"

    @contextmanager
    def run(self, rig: Rig) -> Iterator[Running]:
        """Run Berth."""
        transport_url = rig.rabbit.vhost()
        sections = f"[scheduler]\nworkers = {self._workers}\n[berth]\ncandidates = {self._candidates}\n"
        hosts = [f"controller{number}" for number in range(self._daemons)]
        paths = [rig.configure_nova(transport_url, sections, host) for host in hosts]
        with ExitStack() as stack:
            bus = stack.enter_context(_bus(rig))
            pids = []
            for host, path in zip(hosts, paths, strict=True):
                process = BerthSchedulerProcess(path, rig.directory / f"{host}-{self._candidates}.log")
                process.start()
                stack.callback(process.stop)
                pids.append(process.pid)
                process.wait_until_it_answers(bus, host=host)
            yield Running(bus, pids)


class NovaScheduler:
    """nova-scheduler, whose computes have reported their instances."""

    name = "nova-scheduler"

    @contextmanager
    def run(self, rig: Rig) -> Iterator[Running]:
        """Run nova-scheduler."""
        transport_url = rig.rabbit.vhost()
        path = rig.configure_nova(transport_url)
        program = rig.software.program("nova-scheduler")
        process = NovaSchedulerProcess(program, [path], rig.directory / "nova-scheduler.log")
        with _bus(rig) as bus:
            process.start()
            try:
                process.wait_until_it_answers(bus, START_TIMEOUT)
                _sync_instances(rig, bus, transport_url.rpartition("/")[2])
                # Started before its fork, its connection to Placement must not be alive in two processes.
                time.sleep(PLACEMENT_KEEPALIVE + 1)
                yield Running(bus, [process.pid])
            finally:
                process.stop()


@contextmanager
def _bus(rig: Rig) -> Iterator[Bus]:
    bus = Bus(rig.conf)
    try:
        yield bus
    finally:
        bus.close()


def _sync_instances(rig: Rig, bus: Bus, vhost: str) -> None:
    """Report the instances of all computes twice, as computes do; else nova reads the database for each host.

    Raises:
        RuntimeError: The scheduler does not take the messages in time.
    """
    client = SchedulerClient(bus)
    context = RequestContext(user_id="nova", project_id="service", is_admin=True)
    deadline = time.monotonic() + SYNC_TIMEOUT
    for _ in range(2):
        for host in rig.fleet.hosts:
            client.sync_instance_info(context, host.name, [])
        while _waiting(rig, vhost):
            if time.monotonic() > deadline:
                raise RuntimeError("nova-scheduler does not take the reports of the computes")
            time.sleep(LOOK_INTERVAL)


def _waiting(rig: Rig, vhost: str) -> int:
    queues = [name for name in rig.rabbit.queues(vhost) if name.startswith("scheduler_fanout")]
    return sum(rig.rabbit.messages(vhost, name) for name in queues)
