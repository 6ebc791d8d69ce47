"""Measuring one load: times of the answers, CPU of each service, truth."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
import json
from pathlib import Path
import statistics
import time
from typing import Any

from tools.rig import truth
from tools.rig.load import BootRequest, Call, make_large_request, make_requests, percentile, send
from tools.rig.usage import Usage
from tools.side_by_side.contenders import Running
from tools.side_by_side.counting import Counting
from tools.side_by_side.rig import Rig

#: The names of the load whose requests are for one instance each, and of the measurement without requests.
SINGLE, IDLE = "single instances", "idle"
#: Those whose CPU a request costs.
SERVICES = ("scheduler", "placement", "mariadb")
#: More than any scheduler answers in the time of a case.
MOST_REQUESTS = 20_000


@dataclasses.dataclass(frozen=True)
class Case:
    """A load; of the requests that it makes only those are sent that fit into the time."""

    name: str
    callers: int
    make: Callable[[], Sequence[BootRequest]]


def cases(callers: Sequence[int], requests: int = 0) -> list[Case]:
    """Return the loads: single instances by so many callers, and large requests one after the other.

    With ``requests`` each load has so many for single instances, and there are no large ones.
    """
    most = requests or MOST_REQUESTS
    single = [Case(SINGLE, number, lambda number=number: make_requests(most, number)) for number in callers]
    if requests:
        return single
    return [
        *single,
        Case("100 instances", 1, lambda: [make_large_request(100, spread=False) for _ in range(5)]),
        Case(
            "20 instances, anti-affinity",
            1,
            lambda: [make_large_request(20, spread=True) for _ in range(5)],
        ),
    ]


@dataclasses.dataclass(frozen=True)
class Result:
    """One measurement.

    Times are in ms, of requests that got hosts. ``cpu`` has the CPU seconds of ``scheduler``, each service
    and ``callers``; ``others`` is the mean number of cores that programs outside the rig used; ``memory_mb``
    is what the processes of the scheduler do not share. ``filled`` instances were there before. ``counts``
    has requests to Placement, records of the decision stream, and other work for the load.
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
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def throughput(self) -> float:
        """Instances a second."""
        return self.instances / self.seconds

    def milliseconds(self, *services: str) -> float:
        """Return the CPU that these services used for an instance, in ms."""
        return sum(self.cpu[service] for service in services) / max(1, self.instances) * 1000


def measure(rig: Rig, running: Running, case: Case, seconds: float) -> dict[str, Any]:
    """Send a load for so many seconds; return the fields of ``Result`` that are measured."""
    rig.reset()
    with Counting(rig, running.stream) as counting, _usage(rig, running) as usage:
        calls = send(running.bus, case.make(), case.callers, seconds)
    found = {"problems": problems(rig, calls), "counts": counting.counts}
    return {**summary(calls), **_used(usage), **found}


def problems(rig: Rig, calls: Sequence[Call]) -> list[str]:
    """Compare the answers to all requests since the last reset with Placement and with the fleet."""
    expected = truth.promised(calls, rig.fleet)
    found = truth.check_database(rig.placement_database, expected, rig.filled).problems
    return [*found, *truth.untrue_replies(calls, rig.fleet)]


def idle(rig: Rig, running: Running, seconds: float) -> dict[str, Any]:
    """Wait for so many seconds, then measure for as long; return the fields of ``Result``."""
    time.sleep(seconds)
    with _usage(rig, running) as usage:
        time.sleep(seconds)
    nothing = dict.fromkeys(("requests", "instances", "p50", "p95", "no_valid_host", "hosts_used"), 0)
    return {**nothing, **_used(usage), "seconds": seconds, "errors": {}, "problems": []}


def _usage(rig: Rig, running: Running) -> Usage:
    def programs() -> Iterator[tuple[str, int]]:
        yield from (("scheduler", pid) for pid in running.pids)
        yield from rig.servers().items()

    return Usage(programs)


def _used(usage: Usage) -> dict[str, Any]:
    return {
        "cpu": {name: round(seconds, 2) for name, seconds in usage.cpu_seconds().items()},
        "others": round(usage.others, 2),
        "memory_mb": round(usage.memory_mb["scheduler"], 1),
    }


def warm_up(rig: Rig, running: Running) -> None:
    """Send a few requests that are not measured."""
    send(running.bus, make_requests(3, 0), 1, 600)
    rig.reset()


def summary(calls: Sequence[Call]) -> dict[str, Any]:
    """Return the fields of ``Result`` that follow from the answers alone."""
    placed = [call for call in calls if call.selections]
    times = sorted(call.seconds * 1000 for call in placed)
    errors = Counter(call.error for call in calls if call.error)
    span = max(call.sent + call.seconds for call in calls) - min(call.sent for call in calls)
    hosts = {selections[0].service_host for call in placed for selections in call.selections}
    return {
        "requests": len(calls),
        "instances": sum(len(call.request.uuids) for call in placed),
        "seconds": round(span, 3),
        "p50": round(statistics.median(times), 1) if times else 0.0,
        "p95": round(percentile(times, 95), 1) if times else 0.0,
        "no_valid_host": errors.pop("NoValidHost", 0),
        "errors": dict(errors),
        "hosts_used": len(hosts),
    }


def append(path: Path, result: Result) -> None:
    """Append a result to a file of JSON lines."""
    with path.open("a") as file:
        file.write(json.dumps(dataclasses.asdict(result)) + "\n")


def read(path: Path) -> list[Result]:
    """Return the results in a file of JSON lines."""
    return [Result(**json.loads(line)) for line in path.read_text().splitlines()]
