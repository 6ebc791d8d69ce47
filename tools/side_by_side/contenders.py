"""The schedulers that are compared: how each is started, prepared and stopped."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
import time

from conductor_client.bus import Bus
from conductor_client.client import SchedulerClient
from scheduler.rpc.context import RequestContext
from scheduler.stream.broker import StreamBroker, broker_hosts
from tools.rig.load import make_requests, send
from tools.rig.parts import PLACEMENT_KEEPALIVE
from tools.rig.schedulers import BerthSchedulerProcess, NovaSchedulerProcess
from tools.rig.service import until
from tools.side_by_side.counting import Connect
from tools.side_by_side.rig import Rig

NOVA, BERTH = "nova-scheduler", "Berth"

#: Seconds until nova-scheduler answers: it first reads all hosts, on a busy machine for minutes.
START_TIMEOUT = 600
#: Seconds for casts to be consumed.
SYNC_TIMEOUT = 600


@dataclass(frozen=True)
class Running:
    """A scheduler that answers: its daemons, their logs, and the seconds from its start to its first answer.

    ``stream`` connects to its decision stream; None: it has none.
    """

    bus: Bus
    pids: Sequence[int]
    logs: Sequence[Path]
    first_answer: float
    stream: Connect | None = None


@dataclass(frozen=True)
class BerthScheduler:
    """Berth: one daemon or several; options are of [berth]."""

    name: str = BERTH
    daemons: int = 1

    @contextmanager
    def run(self, rig: Rig) -> Iterator[Running]:
        """Run Berth."""
        transport_url = rig.rabbit.vhost()
        hosts = [f"controller{number}" for number in range(self.daemons)]
        paths = [rig.configure_nova(transport_url, "", host) for host in hosts]
        with ExitStack() as stack:
            bus = stack.enter_context(closing(Bus(rig.conf)))
            pids, logs, started = [], [], time.monotonic()
            for host, path in zip(hosts, paths, strict=True):
                process = BerthSchedulerProcess(path, rig.directory / f"{host}.log")
                process.start()
                stack.callback(process.stop)
                pids.append(process.pid)
                logs.append(process.log)
                process.wait_until_it_answers(bus, host=host)
            broker = StreamBroker(broker_hosts(rig.conf), "side-by-side")
            yield Running(bus, pids, logs, _first_answer(bus, started), partial(broker.connect, "counter"))


class NovaScheduler:
    """nova-scheduler, whose computes have reported their instances."""

    name = NOVA

    @contextmanager
    def run(self, rig: Rig) -> Iterator[Running]:
        """Run nova-scheduler."""
        transport_url = rig.rabbit.vhost()
        path = rig.configure_nova(transport_url)
        program = rig.world.software.program("nova-scheduler")
        process = NovaSchedulerProcess(program, [path], rig.directory / "nova-scheduler.log")
        with closing(Bus(rig.conf)) as bus:
            started = time.monotonic()
            process.start()
            try:
                process.wait_until_it_answers(bus, START_TIMEOUT)
                first_answer = _first_answer(bus, started)
                _sync_instances(rig, bus, transport_url.rpartition("/")[2])
                # Started before its fork, its connection to Placement must not be alive in two processes.
                time.sleep(PLACEMENT_KEEPALIVE + 1)
                yield Running(bus, [process.pid], [process.log], first_answer)
            finally:
                process.stop()


def _first_answer(bus: Bus, started: float) -> float:
    """Send a request, and return the seconds from ``started`` until it was answered."""
    (call,) = send(bus, make_requests(1, 0), 1, START_TIMEOUT)
    return call.sent + call.seconds - started


def _sync_instances(rig: Rig, bus: Bus, vhost: str) -> None:
    """Report the instances of all computes twice, as computes do; else nova reads the database for each host.

    Raises:
        RuntimeError: The scheduler does not take the messages in time.
    """
    client = SchedulerClient(bus)
    context = RequestContext(user_id="nova", project_id="service", is_admin=True)
    for _ in range(2):
        for host in rig.fleet.hosts:
            client.sync_instance_info(context, host.name, [])
        complaint = "nova-scheduler does not take the reports of the computes"
        until(lambda: not _waiting(rig, vhost), complaint, SYNC_TIMEOUT)


def _waiting(rig: Rig, vhost: str) -> int:
    queues = [name for name in rig.rabbit.queues(vhost) if name.startswith("scheduler_fanout")]
    return sum(rig.rabbit.messages(vhost, name) for name in queues)


#: What can be compared.
Contender = BerthScheduler | NovaScheduler
