"""Measuring one load: times of the answers, CPU of each service, truth."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
import contextlib
import dataclasses
from itertools import chain
import json
import os
from pathlib import Path
import statistics
import time
from typing import Any, TypeVar

import psutil

from tools.rig.load import Answer, BootRequest, make_large_request, make_requests, send
from tools.rig.nova_cloud import Rig
from tools.side_by_side.contenders import Running
from tools.side_by_side.truthfulness import problems

T = TypeVar("T")

#: The names of the load whose requests are for one instance each, and of the measurement without requests.
SINGLE, IDLE = "single instances", "idle"

#: More than any scheduler answers in the time of a case.
MOST_REQUESTS = 20_000


@dataclasses.dataclass(frozen=True)
class Case:
    """A load.

    Attributes:
        name: How results call it.
        callers: Callers at the same time.
        make: Makes the requests, of which only those are sent that fit into the time.
    """

    name: str
    callers: int
    make: Callable[[], Sequence[BootRequest]]


def cases(callers: Sequence[int], large: Sequence[int] = (100, 20)) -> list[Case]:
    """Return the loads: single instances by so many callers, and large requests one after the other."""
    many, spread = large
    return [
        *(
            Case(SINGLE, number, lambda number=number: make_requests(MOST_REQUESTS, number))
            for number in callers
        ),
        Case(f"{many} instances", 1, lambda: [make_large_request(many, spread=False) for _ in range(5)]),
        Case(
            f"{spread} instances, anti-affinity",
            1,
            lambda: [make_large_request(spread, spread=True) for _ in range(5)],
        ),
    ]


@dataclasses.dataclass(frozen=True)
class Result:
    """One measurement.

    Attributes:
        scheduler: The name of the contender.
        hosts: Number of hosts.
        round: Number of the round, from 1.
        case: The name of the load.
        callers: Callers at the same time.
        requests: Requests that were answered, with or without a host.
        instances: Instances that got a host.
        seconds: From the first request to the last answer.
        p50: Median time of an answer in ms, of the requests that got hosts.
        p95: 95th percentile of it.
        no_valid_host: Requests that were answered so.
        errors: Other errors, with their numbers.
        hosts_used: Number of hosts that were chosen.
        cpu: CPU seconds of ``scheduler``, each service and ``callers``.
        others: Mean number of cores that were used by programs outside the rig.
        memory_mb: Memory of the scheduler in MiB that its processes do not share.
        problems: What was not true.
        filled: Number of instances that were there before.
        first_answer: Seconds from the start of the scheduler until it answered a request.
    """

    scheduler: str
    hosts: int
    round: int
    case: str
    callers: int
    requests: int
    instances: int
    seconds: float
    p50: float
    p95: float
    no_valid_host: int
    errors: Mapping[str, int]
    hosts_used: int
    cpu: Mapping[str, float]
    others: float
    memory_mb: float
    problems: Sequence[str]
    filled: int = 0
    first_answer: float = 0.0

    @property
    def throughput(self) -> float:
        """Instances a second."""
        return self.instances / self.seconds


def measure(rig: Rig, running: Running, case: Case, seconds: float) -> dict[str, Any]:
    """Send a load for so many seconds; return the fields of ``Result`` that are measured."""
    rig.reset()
    answers, used = _watch(rig, running, lambda: send(running.bus, case.make(), case.callers, seconds))
    return {**summary(answers), **used, "problems": problems(rig, answers)}


def idle(rig: Rig, running: Running, seconds: float) -> dict[str, Any]:
    """Wait for so many seconds, then measure for as long; return the fields of ``Result``."""
    time.sleep(seconds)
    _, used = _watch(rig, running, lambda: time.sleep(seconds))
    nothing = dict.fromkeys(("requests", "instances", "p50", "p95", "no_valid_host", "hosts_used"), 0)
    return {**nothing, **used, "seconds": seconds, "errors": {}, "problems": []}


def _watch(rig: Rig, running: Running, act: Callable[[], T]) -> tuple[T, dict[str, Any]]:
    """Return what ``act`` returns, and what the machine did meanwhile."""
    pids = {"scheduler": running.pids, **{name: [pid] for name, pid in rig.processes().items()}}
    before, started = cpu_seconds(pids), os.times().elapsed
    result = act()
    wall = os.times().elapsed - started
    after = cpu_seconds(pids)
    cpu = {name: round(after[name] - before[name], 2) for name in after}
    ours, busy = cpu.pop("rig"), cpu.pop("machine")
    return result, {
        "cpu": cpu,
        "others": round(max(0.0, busy - ours) / wall, 2),
        "memory_mb": round(_memory_mb(running.pids), 1),
    }


def warm_up(rig: Rig, running: Running) -> None:
    """Send a few requests that are not measured."""
    send(running.bus, make_requests(3, 0), 1, 600)
    rig.reset()


def summary(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the fields of ``Result`` that follow from the answers alone."""
    placed = [answer for answer in answers if answer.selections]
    times = sorted((answer.ended - answer.started) * 1000 for answer in placed)
    errors = Counter(answer.error for answer in answers if answer.error)
    span = max(answer.ended for answer in answers) - min(answer.started for answer in answers)
    hosts = {selections[0].service_host for answer in placed for selections in answer.selections}
    return {
        "requests": len(answers),
        "instances": sum(len(answer.request.uuids) for answer in placed),
        "seconds": round(span, 3),
        "p50": round(statistics.median(times), 1) if times else 0.0,
        "p95": round(percentile(times, 95), 1) if times else 0.0,
        "no_valid_host": errors.pop("NoValidHost", 0),
        "errors": dict(errors),
        "hosts_used": len(hosts),
    }


def percentile(values: Sequence[float], share: int) -> float:
    """Return the smallest of the sorted values that ``share`` per cent of them do not exceed."""
    return values[max(0, -(-len(values) * share // 100) - 1)]


def cpu_seconds(pids: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """Return the CPU seconds so far of processes with their children, callers, rig and machine."""
    found = {name: _cpu_of(map(psutil.Process, each)) for name, each in pids.items()}
    own = psutil.Process().cpu_times()
    found["callers"] = own.user + own.system
    found["rig"] = sum(found.values())
    found["machine"] = busy_seconds()
    return found


def busy_seconds() -> float:
    """Return the CPU seconds so far of all programs of the machine."""
    machine = psutil.cpu_times()
    return float(sum(machine) - machine.idle - getattr(machine, "iowait", 0.0))


def _cpu_of(processes: Iterable[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + _cpu_of(process.children())
    return total


def _memory_mb(pids: Sequence[int]) -> float:
    masters = [psutil.Process(pid) for pid in pids]
    processes = [*masters, *chain.from_iterable(each.children(recursive=True) for each in masters)]
    return sum(each.memory_full_info().uss for each in processes) / 2**20


def append(path: Path, result: Result) -> None:
    """Append a result to a file of JSON lines."""
    with path.open("a") as file:
        file.write(json.dumps(dataclasses.asdict(result)) + "\n")


def read(path: Path) -> list[Result]:
    """Return the results in a file of JSON lines."""
    return [Result(**json.loads(line)) for line in path.read_text().splitlines()]
