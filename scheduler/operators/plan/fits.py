"""How many more instances of a request fit on each host, and what runs out first there.

Placement limits the number on each host. After each instance that is charged to a host the filters decide
whether it may have one more. Pinned guests and devices are counted host by host with the topologies that the
filters use; all others in arrays.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
import copy
from dataclasses import dataclass
from itertools import chain

import numpy as np

from scheduler import objects
from scheduler.filters.amount_filters import (
    CoreFilter,
    DiskFilter,
    ExactCoreFilter,
    ExactDiskFilter,
    ExactRamFilter,
    RamFilter,
)
from scheduler.filters.base import HostFilter
from scheduler.filters.chain import PreparedChain
from scheduler.filters.count_filters import CountFilter
from scheduler.filters.numa_topology_filter import NUMATopologyFilter, fitter_of
from scheduler.filters.pci_passthrough_filter import PciPassthroughFilter
from scheduler.hosts.coordinates import TableRows, ViewIndex
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.view import HostView
from scheduler.operators.plan.moves import summed
from scheduler.operators.snapshot.planned_cloud import Asked, PlannedCloud
from scheduler.placement.answer import AllocationCandidate, Usage
from scheduler.selection.consume import consume, consumed_amounts
from scheduler.selection.narrowing import narrow

#: Instances that are counted on one host.
MOST_ON_HOST = 1000
NOT_COUNTED = f"no more than {MOST_ON_HOST} counted"

#: Filters on what is left on a host. Others reject hosts that may not have such instances at all.
OF_TOPOLOGY = (NUMATopologyFilter, PciPassthroughFilter)
OF_ROOM = (
    *(*OF_TOPOLOGY, CountFilter),
    *(RamFilter, CoreFilter, DiskFilter, ExactRamFilter, ExactCoreFilter, ExactDiskFilter),
)

Share = tuple[str, str, int]
"""Provider UUID, resource class, and the amount that one instance takes of it."""


@dataclass(slots=True)
class FitOnHost:
    """How many instances fit on a host.

    Attributes:
        limit: What runs out first: a resource class or the name of a filter.
        free: What Placement has left of each resource class that the request takes, before them; empty if
            such instances may not be there.
    """

    count: int
    limit: str
    free: Mapping[str, int]
    taken: Mapping[str, int]

    @property
    def stranded(self) -> dict[str, int]:
        """What is left of each resource class when no further instance fits."""
        return {name: free - self.count * self.taken[name] for name, free in self.free.items()}


def fits(cloud: PlannedCloud, spec: objects.RequestSpec) -> dict[int, FitOnHost]:
    """Return how many instances of a request fit on each host that Placement offers, by row.

    Closed hosts are left out, server groups are ignored, and the spec is changed as by a request.

    Raises:
        BerthError: A pre-filter or Placement refuses the request.
    """
    asked = cloud.ask(spec)
    found = {
        row: room(asked.hosts.candidates(ViewIndex(index)), asked.usages)
        for index, row in enumerate(asked.hosts.table_rows.tolist())
    }
    passed = _reject(cloud, asked, found)
    if asked.request.guest or asked.request.pci_requests:
        for done, row in enumerate(passed):
            cloud.snapshot.progress("hosts", done, len(passed))
            _count_alone(cloud, asked, row, found[row])
    else:
        _count_together(cloud, asked, np.array(passed, np.int64), found)
    return found


def _reject(cloud: PlannedCloud, asked: Asked, found: Mapping[int, FitOnHost]) -> list[int]:
    """Set hosts that the request excludes or that filters reject to no instance; return the others."""
    narrowed = narrow(asked.hosts, asked.request)
    prepared = cloud.rules.chain.prepare(asked.request) if narrowed.filtered else PreparedChain(())
    narrowed.hosts.load(prepared.needs)
    filtered = prepared.run(narrowed.hosts) if len(narrowed.hosts) else None
    rejected = {int(row): each.reason for each in narrowed.excluded for row in each.hosts.table_rows}
    for row in rejected:
        found[row].count, found[row].limit, found[row].free = 0, "request", {}
    for step in filtered.steps if filtered else ():
        for row in step.hosts.table_rows[~step.kept].tolist():
            found[row].count, found[row].limit = 0, step.filter.name
            if not isinstance(step.filter, OF_ROOM):
                found[row].free = {}
    return [] if filtered is None else filtered.hosts.table_rows.tolist()


def room(
    candidates: Sequence[AllocationCandidate], usages: Callable[[str], Mapping[str, Usage] | None]
) -> FitOnHost:
    """Return how many instances fit on a host with these candidates, by what Placement has left."""
    if not candidates:
        return FitOnHost(0, "no candidate", {}, {})
    ways: list[list[Share]] = [
        [
            (provider, name, amount)
            for provider, entry in candidate.allocations.items()
            for name, amount in entry["resources"].items()
        ]
        for candidate in candidates
    ]
    left: dict[tuple[str, str], int] = {}
    for provider, name, _ in chain.from_iterable(ways):
        usage = (usages(provider) or {}).get(name)
        left[provider, name] = 0 if usage is None else max(0, usage.capacity - usage.used)
    free = summed({name: amount} for (_, name), amount in left.items())
    taken: dict[str, int] = {}
    for way in reversed(ways):
        taken |= summed({name: amount} for _, name, amount in way)
    count = _claim_all(ways, left)
    if count == MOST_ON_HOST:
        return FitOnHost(count, NOT_COUNTED, {}, taken)
    return FitOnHost(count, _what_ran_out(ways, left), free, taken)


def _claim_all(ways: Sequence[Sequence[Share]], left: dict[tuple[str, str], int]) -> int:
    count = 0
    while count < MOST_ON_HOST:
        way = next((way for way in ways if all(left[share[:2]] >= share[2] for share in way)), None)
        if way is None:
            break
        # a host with one way takes all of its instances at once
        times = min(left[share[:2]] // share[2] for share in way) if len(ways) == 1 else 1
        times = min(times, MOST_ON_HOST - count)
        for provider, name, amount in way:
            left[provider, name] -= times * amount
        count += times
    return count


def _what_ran_out(ways: Sequence[Sequence[Share]], left: Mapping[tuple[str, str], int]) -> str:
    """Return the class that ends most of the ways; if none has ended, the one that ends first."""
    short = [
        dict.fromkeys(name for provider, name, amount in way if left[provider, name] < amount) for way in ways
    ]
    ended = Counter(chain.from_iterable(short)).most_common(1)
    if ended:
        return ended[0][0]
    return min((left[provider, name] // amount, name) for way in ways for provider, name, amount in way)[1]


# -- filters ---------------------------------------------------------------------------------------------


def has_room_rules(rules: Iterable[HostFilter]) -> bool:
    """Whether a host with room in Placement may be full by a filter, topologies and devices aside."""
    return any(isinstance(rule, OF_ROOM) and not isinstance(rule, OF_TOPOLOGY) for rule in rules)


def _count_together(
    cloud: PlannedCloud, asked: Asked, rows: np.ndarray, found: Mapping[int, FitOnHost]
) -> None:
    """Charge one instance after the other to all hosts at once."""
    counts = np.array([found[row].count for row in rows.tolist()], dtype=np.int64)
    prepared = cloud.rules.chain.prepare(asked.request)
    amounts = consumed_amounts(asked.request.flavor)
    number = 1
    while len(rows := rows[counts > number]):
        counts = counts[counts > number]
        table = copy.copy(cloud.snapshot.table)
        more = {name: amount * number for name, amount in amounts.items() if name != "num_io_ops"}
        table.numbers = table.numbers | {name: table.numbers[name] + amount for name, amount in more.items()}
        hosts = HostView.of(table, TableRows(rows), None, cloud.places, PendingPlacements())
        hosts.load(prepared.needs)
        limits = _limits(prepared, hosts, number)
        for row, limit in zip(rows[limits != ""].tolist(), limits[limits != ""].tolist(), strict=True):
            found[row].count, found[row].limit = number, limit
        rows, counts = rows[limits == ""], counts[limits == ""]
        number += 1


def _count_alone(cloud: PlannedCloud, asked: Asked, row: int, fit: FitOnHost) -> None:
    """Charge instances to one host, as topologies and devices are charged."""
    request = asked.request.restarted()
    prepared = cloud.rules.chain.prepare(request)
    candidates = [asked.hosts.candidates(ViewIndex(int(np.flatnonzero(asked.hosts.table_rows == row)[0])))]
    rows = TableRows(np.array([row], np.int64))
    hosts = HostView.of(cloud.snapshot.table, rows, candidates, cloud.places, PendingPlacements())
    hosts.load(prepared.needs)
    fitter = fitter_of(cloud.rules.chain.filters, cloud.conf)
    for number in range(fit.count):
        limit = str(_limits(prepared, hosts, number)[0])
        if limit:
            fit.count, fit.limit = number, limit
            return
        consume(hosts, ViewIndex(0), request, fitter)
        hosts.consume(0, num_io_ops=-1)  # the build has ended before the next one


def _limits(prepared: PreparedChain, hosts: HostView, number: int) -> np.ndarray:
    """Return the name of the filter that rejects each host; "" for those that pass: object, (hosts,)."""
    limits = np.full(len(hosts), "", dtype=object)
    left = np.arange(len(hosts))
    for rule, judge in prepared.rules:
        if judge is None or not rule.run_filter_for_index(number) or not len(left):
            continue
        verdict = judge.passes(hosts.at(left))
        verdict = np.zeros(len(left), dtype=bool) if verdict is None else verdict
        limits[left[~verdict]] = rule.name
        left = left[verdict]
    return limits
