"""What a run comes to: from the requests and the records of their instances."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
from pathlib import Path
import re

from conductor_client import journal
from conductor_client.errors import NoValidHost
from tools.rig import truth
from tools.rig.fleet import Host
from tools.rig.load import BootRequest, percentile

#: All builds are to be at an end within these seconds.
TARGET = 15 * 60

_SENT_ON = re.compile(r"(?:Forwarded call \S+ to \S+ \(|Calling )(\w+)")
_PLACED = "Placed instance "


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

    @property
    def begun(self) -> float:
        """When the first request was sent; seconds since the epoch."""
        return min(record.events[0].at for record in self.records.values())

    @property
    def built(self) -> list[journal.Record]:
        """The instances that were built."""
        return [record for record in self.records.values() if record.state == journal.ACTIVE]

    @property
    def seconds(self) -> float:
        """The end of the last build, in seconds from the first request."""
        return max((record.last.at - self.begun for record in self.built), default=0.0)

    def lines(self) -> Iterator[str]:
        """Yield what came out, as text."""
        built, seconds = self.built, self.seconds
        yield (
            f"{len(built):,} of {len(self.records):,} instances built in {seconds:.1f} s,"
            f" {len(built) / max(seconds, 0.001):.1f} per second"
        )
        heads = "".join(f"{name:>14}{'p95':>8}{'max s':>8}" for name in ("to host: p50", "built: p50"))
        yield f"{'':12}{'instances':>10}{heads}"
        for name in (*dict.fromkeys(self.partitions.values()), "all"):
            mine = [one for one in built if one.host and name in {self.partitions[one.host], "all"}]
            waits = [_spread(map(waited, mine)), _spread(one.last.at - one.events[0].at for one in mine)]
            yield f"{name:12}{len(mine):10}" + "".join(
                f"{middle:14.2f}{high:8.2f}{most:8.2f}" for middle, high, most in waits
            )
        retries = sum(max(0, record.attempts - 1) for record in self.records.values())
        errors = Counter(_error(one) for one in self.records.values() if one.state == journal.ERROR)
        yield f"Builds on an alternate: {retries}. Not built: {_counted(errors) or 'none'}"

    def problems(self, fleet_hosts: Iterable[Host], found: truth.Truth) -> list[str]:
        """Return what is not true: in Placement, of zones and groups, and builds that have not ended."""
        hosts = {host.name: host for host in fleet_hosts}
        lines = list(found.problems)
        for request in self.requests:
            for record in self._records_of(request):
                if record.state not in journal.FINAL:
                    lines.append(f"Instance {record.instance_uuid} is still {record.state}")
                elif record.state == journal.ERROR and not _error(record).startswith(NoValidHost.PREFIX):
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


def lines_of_logs(logs: Iterable[Path]) -> Iterator[str]:
    """Yield what each scheduler placed and forwarded."""
    for path in logs:
        text = path.read_text()
        sent = _counted(Counter(_SENT_ON.findall(text)))
        yield f"{path.stem}: {text.count(_PLACED)} placed" + (f"; forwarded: {sent}" if sent else "")


def _error(record: journal.Record) -> str:
    """Return why an instance was not built, without the traceback of an error of the scheduler."""
    return (record.last.detail or "").partition("\n")[0]


def waited(record: journal.Record) -> float:
    """Return the seconds that the super-conductor's call to the scheduler took."""
    return next((event.took for event in record.events if event.took is not None), 0.0)


def _spread(seconds: Iterable[float]) -> tuple[float, float, float]:
    """Return median, 95th percentile and maximum."""
    values = sorted(seconds) or [0.0]
    return percentile(values, 50), percentile(values, 95), values[-1]


def _counted(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in numbers.items())
