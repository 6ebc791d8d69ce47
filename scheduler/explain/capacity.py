"""How many more instances of a request fit, where, and what runs out first.

Placement says what is left of each host that it offers; the filters of the decision say whether a host may
have one instance more, after those before it were charged to it as in a request for several.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
import copy
from dataclasses import dataclass, replace
from itertools import chain
import time
from typing import Any, NamedTuple

import msgspec
import numpy as np
from oslo_config import cfg

from scheduler.explain.trace import Names, Trace
from scheduler.explain.unoffered import Unoffered
from scheduler.filters.amount_filters import (
    CoreFilter,
    DiskFilter,
    ExactCoreFilter,
    ExactDiskFilter,
    ExactRamFilter,
    RamFilter,
)
from scheduler.filters.chain import FilterChain, Filtered, PreparedChain
from scheduler.filters.count_filters import CountFilter
from scheduler.filters.numa_topology_filter import NUMATopologyFilter, fitter_of
from scheduler.filters.pci_passthrough_filter import PciPassthroughFilter
from scheduler.hosts.coordinates import TableRows, ViewIndex
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter
from scheduler.placement.answer import AllocationCandidate, Candidates, Usage
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.consume import consume, consumed_amounts
from scheduler.selection.narrowing import Narrowed

VERSION = 1

#: Instances that are counted on one host.
MOST_ON_HOST = 1000

#: Seconds that the count may take; hosts that were not reached are told.
BUDGET = 20.0

#: Hosts whose room is counted in one go.
PIECE = 100

#: Filters that look at what is left on a host. Others turn down hosts on which such instances may not be.
OF_ROOM = (
    *(NUMATopologyFilter, PciPassthroughFilter, CountFilter),
    *(RamFilter, CoreFilter, DiskFilter, ExactRamFilter, ExactCoreFilter, ExactDiskFilter),
)

Document = dict[str, Any]

Share = tuple[str, str, int]
"""Provider UUID, resource class, and the amount that one instance takes of it."""


class OfferTrace(Trace):
    """Notes also what is counted on.

    Attributes:
        offered: The hosts that were offered.
        chain: The filters, prepared for the request.
        first: What they did for its first instance.
    """

    offered: HostView | None = None
    chain: PreparedChain
    first: Filtered | None = None

    def begin_ranking(
        self, offered: HostView, narrowed: Narrowed, chain: PreparedChain, request: SchedulingRequest
    ) -> None:
        """Note the hosts and the filters."""
        super().begin_ranking(offered, narrowed, chain, request)
        self.offered, self.chain, self.first = offered, chain, None

    def filtered(self, number: int, hosts: HostView, filtered: Filtered) -> None:
        """Note the verdicts."""
        super().filtered(number, hosts, filtered)
        self.first = self.first or filtered


class Offer(NamedTuple):
    """A dry run, with what Placement has left.

    Attributes:
        trace: What the dry run noted.
        found: The answer of Placement, not cut by a limit.
        conf: The options.
        table: All hosts, also those that Placement does not offer.
    """

    trace: OfferTrace
    found: Candidates
    conf: cfg.ConfigOpts
    table: HostTable


@dataclass(slots=True)
class Fit:
    """How many instances fit on a host.

    Attributes:
        count: Their number.
        limit: What runs out first: a resource class or the name of a filter.
        free: What Placement has left of each resource class that the request takes, before them; empty if
            such instances may not be there, or were not counted.
        taken: What one instance takes.
    """

    count: int
    limit: str
    free: Mapping[str, int]
    taken: Mapping[str, int]

    @property
    def stranded(self) -> dict[str, int]:
        """What is left of each resource class, by which no further instance is helped."""
        return {name: free - self.count * self.taken[name] for name, free in self.free.items()}


def capacity(
    offer: Offer,
    names: Names,
    pause: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
) -> Document:
    """Return how many instances fit, by cell and availability zone.

    Args:
        offer: A dry run, with what Placement has left.
        names: The names of cells and of the default zone.
        pause: Called now and then, so that other threads get the processor.
        clock: Seconds that only grow.
    """
    trace, hosts = offer.trace, offer.trace.offered
    fits: dict[int, Fit] = {}
    unreached = 0
    if hosts is not None:
        fits = _fits_by_room(hosts, offer.found, pause)
        unreached = _Filters(offer, hosts, fits, pause, clock() + BUDGET, clock).apply()
    by_row = {} if hosts is None else {int(hosts.table_rows[at]): fit for at, fit in fits.items()}
    total = _summed(list(fits.values()))
    return {
        "version": VERSION,
        "scheduler": None,
        "flavor": msgspec.to_builtins(trace.decision.flavor),
        "instances": total["instances"],
        "total": total | {"not_offered": len(_not_offered(offer.table, by_row))} | _disabled(offer, by_row),
        "places": list(_by_place(offer.table, by_row, names)),
        "reason": trace.decision.summary,
        "unreached": unreached,
    }


def joined(found: Mapping[str, Document]) -> Document:
    """Return the capacities of several partitions as one; a host of two partitions counts in both.

    Args:
        found: The capacity of each partition by its name; not empty.
    """
    all_of = list(found.values())
    totals = [each["total"] for each in all_of]
    limits: Counter[str] = Counter()
    for one in chain.from_iterable(total["limits"] for total in totals):
        limits[one["limit"]] += one["hosts"]
    total = {
        name: sum(total[name] for total in totals)
        for name in (
            *("instances", "hosts", "hosts_with_room"),
            *("not_offered", "disabled", "disabled_not_offered"),
        )
    }
    return {
        **all_of[0],
        "scheduler": ", ".join(sorted(each["scheduler"] for each in all_of)),
        "instances": total["instances"],
        "total": total
        | {"limits": [{"limit": limit, "hosts": count} for limit, count in limits.most_common()]}
        | {name: _added(total[name] for total in totals) for name in ("free", "stranded")},
        "places": [place | {"partition": name} for name, each in found.items() for place in each["places"]],
        "reason": "; ".join(f"partition {name}: {each['reason']}" for name, each in found.items()),
        "unreached": sum(each["unreached"] for each in all_of),
        "partitions": [{**each, "partition": name} for name, each in found.items()],
    }


def _added(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    added: Counter[str] = Counter()
    for each in amounts:
        added.update(each)
    return dict(sorted(added.items()))


# -- room in Placement -----------------------------------------------------------------------------------


def _fits_by_room(hosts: HostView, found: Candidates, pause: Callable[[], None]) -> dict[int, Fit]:
    """Return for each offered host, by position, how many instances Placement has room for."""
    fits = {}
    for position, row in enumerate(hosts.rows):
        fits[position] = room(found.by_root.get(row.uuid, ()), found.usage)
        if not (position + 1) % PIECE:
            pause()
    return fits


def room(candidates: Sequence[AllocationCandidate], usages: Callable[[str], Mapping[str, Usage]]) -> Fit:
    """Return how many instances fit on a host with these candidates, by what Placement has left."""
    if not candidates:
        return Fit(0, "no candidate", {}, {})
    ways = [list(_shares(candidate)) for candidate in candidates]
    left: dict[tuple[str, str], int] = {}
    for provider, name, _ in chain.from_iterable(ways):
        usage = usages(provider).get(name)
        left[provider, name] = 0 if usage is None else max(0, usage.capacity - usage.used)
    free: Counter[str] = Counter()
    for (_, name), amount in left.items():
        free[name] += amount
    taken: dict[str, int] = {}
    for way in reversed(ways):
        taken |= _taken(way)
    count = _claim_all(ways, left)
    return Fit(count, _what_ran_out(ways, left), dict(free), taken)


def _claim_all(ways: Sequence[Sequence[Share]], left: dict[tuple[str, str], int]) -> int:
    """Take instances from what is left until no more fits; return their number."""
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


def _taken(way: Iterable[Share]) -> Counter[str]:
    """Return what an instance takes of each class, from all providers together."""
    taken: Counter[str] = Counter()
    for _, name, amount in way:
        taken[name] += amount
    return taken


def _shares(candidate: AllocationCandidate) -> Iterator[Share]:
    for provider, entry in candidate.allocations.items():
        for name, amount in entry["resources"].items():
            yield provider, name, amount


# -- filters ---------------------------------------------------------------------------------------------


class _Filters:
    """Lowers the counts to what filters let pass, instance after instance."""

    def __init__(
        self,
        offer: Offer,
        hosts: HostView,
        fits: dict[int, Fit],
        pause: Callable[[], None],
        end: float,
        clock: Callable[[], float],
    ) -> None:
        self._conf = offer.conf
        self._found = offer.found
        self._trace = offer.trace
        self._hosts = hosts
        self._fits = fits
        self._pause = pause
        self._end = end
        self._clock = clock

    def apply(self) -> int:
        """Lower the counts; return how many hosts were not reached in time."""
        first, request = self._trace.first, self._trace.request
        passed = first.hosts.positions if first else np.arange(0)
        self._turn_down(first, passed)
        if request.guest or request.pci_requests:
            return self._apply_one_by_one(passed.tolist())
        self._apply_to_all(passed)
        return 0

    def _turn_down(self, first: Filtered | None, passed: np.ndarray) -> None:
        """Leave no instance to hosts that the request excludes, or that filters turn down at once."""
        rules = {
            position: step.filter
            for step in (first.steps if first else ())
            for position in step.hosts.positions[~step.kept].tolist()
        }
        for position in set(self._fits).difference(passed.tolist()):
            fit, rule = self._fits[position], rules.get(position)
            fit.count, fit.limit = 0, "request" if rule is None else rule.name
            if not isinstance(rule, OF_ROOM):
                fit.free = {}

    def _apply_to_all(self, passed: np.ndarray) -> None:
        """Charge one instance after the other to all hosts at once."""
        counts = np.array([self._fits[position].count for position in passed.tolist()], dtype=np.int64)
        number = 1
        while len(passed := passed[counts > number]):
            counts = counts[counts > number]
            rows = TableRows(self._hosts.table_rows[passed])
            table = _charged(self._hosts.table, consumed_amounts(self._trace.request.flavor), number)
            view = self._view(table, rows, None)
            limits = _limits(self._trace.chain, view, number)
            for index in np.flatnonzero(limits != ""):
                fit = self._fits[int(passed[index])]
                fit.count, fit.limit = number, str(limits[index])
            passed, counts = passed[limits == ""], counts[limits == ""]
            number += 1
            self._pause()

    def _apply_one_by_one(self, passed: Sequence[int]) -> int:
        """Charge instances host by host, as topologies and devices are charged; return hosts not reached."""
        for done, position in enumerate(passed):
            if self._clock() > self._end:
                for left in passed[done:]:
                    self._fits[left] = Fit(0, "not counted in time", {}, {})
                return len(passed) - done
            self._charge(position)
            self._pause()
        return 0

    def _charge(self, position: int) -> None:
        fit, table = self._fits[position], self._hosts.table
        request = replace(self._trace.request.restarted())
        rules = [rule for rule, _ in self._trace.chain.rules]
        chain = FilterChain(rules).prepare(request)
        rows = TableRows(self._hosts.table_rows[[position]])
        candidates = self._found.by_root.get(table.rows[rows[0]].uuid, ())
        view = self._view(table, rows, [candidates], chain)
        fit.count, limit = _count_on(view, chain, request, fitter_of(rules, self._conf), fit.count)
        fit.limit = limit or fit.limit

    def _view(
        self,
        table: HostTable,
        rows: TableRows,
        candidates: Sequence[Sequence[Any]] | None,
        chain: PreparedChain | None = None,
    ) -> HostView:
        view = HostView.of(table, rows, candidates, self._hosts.known_instances(), PendingPlacements())
        view.load((chain or self._trace.chain).needs)
        return view


def _count_on(
    view: HostView, chain: PreparedChain, request: SchedulingRequest, fitter: Fitter, most: int
) -> tuple[int, str]:
    """Return how many instances a host takes, ``most`` at most, and the filter that takes no more."""
    for number in range(most):
        limit = str(_limits(chain, view, number)[0])
        if limit:
            return number, limit
        consume(view, ViewIndex(0), request, fitter)
        view.consume(0, num_io_ops=-1)  # the build has ended before the next one
    return most, ""


def _charged(table: HostTable, amounts: Mapping[str, int], number: int) -> HostTable:
    """Return a table in which each host has so many more instances, whose builds have ended."""
    charged = copy.copy(table)
    more = {name: amount * number for name, amount in amounts.items() if name != "num_io_ops"}
    charged.numbers = table.numbers | {name: table.numbers[name] + amount for name, amount in more.items()}
    return charged


def _limits(chain: PreparedChain, hosts: HostView, number: int) -> np.ndarray:
    """Return the name of the filter that turns each host down; "" for those that pass: object, (hosts,)."""
    limits = np.full(len(hosts), "", dtype=object)
    left = np.arange(len(hosts))
    for rule, judge in chain.rules:
        if judge is None or not rule.run_filter_for_index(number) or not len(left):
            continue
        verdict = judge.passes(hosts.at(left))
        verdict = np.zeros(len(left), dtype=bool) if verdict is None else verdict
        limits[left[~verdict]] = rule.name
        left = left[verdict]
    return limits


# -- sums ------------------------------------------------------------------------------------------------


def _by_place(table: HostTable, fits: Mapping[int, Fit], names: Names) -> Iterator[Document]:
    offered: defaultdict[tuple[str, str], list[Fit]] = defaultdict(list)
    others: Counter[tuple[str, str]] = Counter()
    for row, fit in fits.items():
        offered[_place(table, row, names)].append(fit)
    for row in _not_offered(table, fits):
        others[_place(table, row, names)] += 1
    for cell, zone in sorted(offered.keys() | others.keys()):
        place = cell, zone
        yield {"cell": cell, "zone": zone, **_summed(offered[place]), "not_offered": others[place]}


def _place(table: HostTable, row: int, names: Names) -> tuple[str, str]:
    cell_uuid = table.rows[row].cell_uuid
    zone = table.coded["aggregates"][row].availability_zone(names.default_zone)
    return names.cells.get(cell_uuid) or cell_uuid, zone


def _not_offered(table: HostTable, offered: Collection[int]) -> list[int]:
    """Return the rows of other hosts, in cells that take part."""
    return [row for row in np.flatnonzero(table.cell_enabled).tolist() if row not in offered]


def _disabled(offer: Offer, offered: Collection[int]) -> Document:
    """Return how many hosts are disabled, with those that Placement hides for it."""
    hidden = len(Unoffered(offer.table, offer.trace.request).disabled(offered))
    told = sum(bool(offer.table.numbers["service_disabled"][row]) for row in offered)
    return {"disabled": told + hidden, "disabled_not_offered": hidden}


def _summed(fits: Sequence[Fit]) -> Document:
    limits: Counter[str] = Counter(fit.limit for fit in fits)
    stranded: Counter[str] = Counter()
    free: Counter[str] = Counter()
    for fit in fits:
        stranded.update(fit.stranded)
        free.update(fit.free)
    return {
        "instances": sum(fit.count for fit in fits),
        "hosts": len(fits),
        "hosts_with_room": sum(fit.count > 0 for fit in fits),
        "limits": [{"limit": limit, "hosts": count} for limit, count in limits.most_common()],
        "free": dict(sorted(free.items())),
        "stranded": dict(sorted(stranded.items())),
    }
