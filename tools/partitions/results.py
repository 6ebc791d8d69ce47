"""What a run comes to: from requests, the records of instances, and the logs of schedulers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
import json
from pathlib import Path
import re
from typing import Any

from conductor_client import journal
from conductor_client.errors import NoValidHost
from tools import truth
from tools.fleet import Host
from tools.partitions.building import KINDS, kind_of
from tools.partitions.kills import Kill
from tools.side_by_side.load import BootRequest
from tools.side_by_side.measuring import percentile

#: The target: all builds are at an end within these seconds.
TARGET = 15 * 60

ALL = "all"
_SENT_ON = re.compile(r"(?:Forwarded call \S+ to \S+ \(|Calling )(\w+)")
_PLACED = "Placed instance "

#: Median, 95th percentile and maximum in seconds.
Spread = tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class Row:
    """The requests of one kind that ended in one partition.

    Attributes:
        partition: The partition; ``ALL`` for all.
        kind: One of ``KINDS``; ``ALL`` for all.
        requests: Number of requests that got hosts.
        instances: Number of instances that were built.
        to_host: From a request to its answer.
        to_built: From the request to the end of the build of each instance.
        hosts: Number of hosts that they are on.
    """

    partition: str
    kind: str
    requests: int
    instances: int
    to_host: Spread
    to_built: Spread
    hosts: int


@dataclasses.dataclass(frozen=True)
class Result:
    """One run. Times are in seconds from the first request unless something else is said.

    Attributes:
        hosts: Number of hosts of each partition.
        cells: Number of cells.
        schedulers: Number of schedulers of each partition.
        routers: Number of routers.
        callers: Callers at the same time.
        fail_rate: Share of the builds that fail.
        requests: Number of requests.
        instances: Number of instances that were asked for.
        built: Number of instances that were built.
        asked_again: Number of instances that were asked for in the place of others.
        seconds: The end of the last build.
        answered: The last answer of a scheduler.
        rows: By partition and kind.
        retries: Number of builds on an alternate.
        refused_alternates: Number of alternates that could not be claimed.
        errors: Why instances were not built, with their numbers.
        sent_on: How often each scheduler sent a request on, by the reason.
        placed: Number of instances that each scheduler placed.
        kills: Schedulers that were killed: names, when, and when all took requests again.
        answers: When instances got their hosts; a number for each second.
        builds: When their builds ended; a number for each second.
        cpu: CPU seconds of each program.
        memory_mb: The largest memory of each program in MiB.
        others: Mean number of cores that other programs used.
        deadlocks: How often MariaDB ended one of two writes that waited for each other.
        setup: Seconds that the parts of the start took.
        problems: What was not true.
    """

    hosts: Mapping[str, int]
    cells: int
    schedulers: int
    routers: int
    callers: int
    fail_rate: float
    requests: int
    instances: int
    built: int
    asked_again: int
    seconds: float
    answered: float
    rows: Sequence[Row]
    retries: int
    refused_alternates: int
    errors: Mapping[str, int]
    sent_on: Mapping[str, Mapping[str, int]]
    placed: Mapping[str, int]
    kills: Sequence[tuple[Sequence[str], float, float]]
    answers: Sequence[int]
    builds: Sequence[int]
    cpu: Mapping[str, float]
    memory_mb: Mapping[str, float]
    others: float
    deadlocks: int
    setup: Mapping[str, float]
    problems: Sequence[str]

    @property
    def rate(self) -> float:
        """Builds a second."""
        return self.built / self.seconds if self.seconds else 0.0

    @property
    def in_time(self) -> bool:
        """Whether all that was asked for was built within the target."""
        return self.built == self.instances - self.asked_again and self.seconds <= TARGET


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Requests and what became of their instances.

    Attributes:
        requests: The requests.
        records: The record of each instance by its UUID.
        partitions: The partition of each host.
    """

    requests: Sequence[BootRequest]
    records: Mapping[str, journal.Record]
    partitions: Mapping[str, str]

    def summary(self, kills: Iterable[Kill] = ()) -> dict[str, Any]:
        """Return the fields of ``Result`` that follow from requests and records."""
        records = list(self.records.values())
        begun = min(record.events[0].at for record in records)
        active = [record for record in records if record.state == journal.ACTIVE]
        answered = [
            event.at - begun for record in records for event in record.events if event.took is not None
        ]
        built = [record.last.at - begun for record in active]
        errors = Counter(_error(record) for record in records if record.state == journal.ERROR)
        return {
            "requests": len(self.requests),
            "instances": len(records),
            "built": len(active),
            "seconds": round(max(built, default=0.0), 2),
            "answered": round(max(answered, default=0.0), 2),
            "rows": list(self._rows()),
            "retries": sum(max(0, record.attempts - 1) for record in records),
            "refused_alternates": sum(
                event.state == journal.REFUSED for record in records for event in record.events
            ),
            "errors": dict(errors),
            "kills": [
                (list(kill.schedulers), round(kill.at - begun, 1), round(kill.back - begun, 1))
                for kill in kills
            ],
            "answers": _by_second(answered),
            "builds": _by_second(built),
        }

    def problems(self, fleet_hosts: Iterable[Host], found: truth.Truth) -> list[str]:
        """Return what is not true: in Placement, of zones and groups, and builds that have not ended."""
        hosts = {host.name: host for host in fleet_hosts}
        lines = list(found.problems)
        for request in self.requests:
            for record in self._records_of(request):
                if record.state not in journal.FINAL:
                    lines.append(f"Instance {record.instance_uuid} is still {record.state}")
                elif record.state == journal.ERROR and not _is_refusal(record):
                    lines.append(f"Instance {record.instance_uuid}: {_error(record)}")
                elif record.host and request.zone and hosts[record.host].zone != request.zone:
                    lines.append(f"Instance {record.instance_uuid} is not in {request.zone}")
                elif record.host in request.excluded:
                    lines.append(f"Instance {record.instance_uuid} is on {record.host}, which was excluded")
        for group in {tuple(request.group) for request in self.requests if request.group}:
            used = [self.records[member].host for member in group if member in self.records]
            if any(number > 1 for host, number in Counter(used).items() if host):
                lines.append(f"Two members of the anti-affinity group of {group[0]} are on one host")
        return lines

    def expected(self, fleet_hosts: Iterable[Host]) -> dict[str, tuple[str, Mapping[str, int]]]:
        """Return what each built instance must hold: (provider UUID, amounts)."""
        providers = {host.name: host.uuid for host in fleet_hosts}
        return {
            record.instance_uuid: (providers[record.host], request.amounts)
            for request in self.requests
            for record in self._records_of(request)
            if record.host
        }

    def _records_of(self, request: BootRequest) -> list[journal.Record]:
        return [self.records[instance] for instance in request.uuids]

    def _rows(self) -> Iterator[Row]:
        placed = [(self._partition(request), kind_of(request), request) for request in self.requests]
        for partition in dict.fromkeys(self.partitions.values()):
            for kind in KINDS:
                mine = [request for where, what, request in placed if (where, what) == (partition, kind)]
                if mine:
                    yield self._row(partition, kind, mine)
        yield self._row(ALL, ALL, [request for where, _kind, request in placed if where])

    def _partition(self, request: BootRequest) -> str:
        """Return the partition that the first instance of a request was built in; "" if none was."""
        hosts = [record.host for record in self._records_of(request) if record.host]
        return self.partitions[hosts[0]] if hosts else ""

    def _row(self, partition: str, kind: str, requests: Sequence[BootRequest]) -> Row:
        active = [
            record for request in requests for record in self._records_of(request) if record.host is not None
        ]
        return Row(
            partition,
            kind,
            len(requests),
            len(active),
            _spread(_waited(self.records[request.uuids[0]]) for request in requests),
            _spread(record.last.at - record.events[0].at for record in active),
            len({record.host for record in active}),
        )


def read_logs(logs: Iterable[Path]) -> dict[str, Any]:
    """Return the fields of ``Result`` that follow from the logs of schedulers."""
    placed, sent_on = {}, {}
    for path in logs:
        text = path.read_text()
        placed[path.stem] = text.count(_PLACED)
        sent_on[path.stem] = dict(Counter(_SENT_ON.findall(text)))
    return {"placed": placed, "sent_on": sent_on}


def append(path: Path, result: Result) -> None:
    """Append a result to a file of JSON lines."""
    with path.open("a") as file:
        file.write(json.dumps(dataclasses.asdict(result)) + "\n")


def read(path: Path) -> list[Result]:
    """Return the results in a file of JSON lines."""
    found = map(json.loads, path.read_text().splitlines())
    return [Result(**{**one, "rows": [Row(**row) for row in one["rows"]]}) for one in found]


def _error(record: journal.Record) -> str:
    """Return why an instance was not built, without the traceback of an error of the scheduler."""
    return (record.last.detail or "").partition("\n")[0]


def _is_refusal(record: journal.Record) -> bool:
    return _error(record).startswith(NoValidHost.PREFIX)


def _waited(record: journal.Record) -> float:
    return next((event.took for event in record.events if event.took is not None), 0.0)


def _spread(seconds: Iterable[float]) -> Spread:
    values = sorted(seconds)
    if not values:
        return 0.0, 0.0, 0.0
    return round(percentile(values, 50), 3), round(percentile(values, 95), 3), round(values[-1], 3)


def _by_second(times: Sequence[float]) -> list[int]:
    counts = Counter(int(at) for at in times)
    return [counts[second] for second in range(max(counts, default=-1) + 1)]
