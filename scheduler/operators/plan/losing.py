"""Losing hosts: which instances have no place on the rest, and what still fits there.

Most failures need no decision. With k instances on a domain, each surely finds a place if k hosts of its cell
outside of the domain pass for it now, as each of the others fills one host at most. It also does if these
hosts have more slots of its size in Placement than the instances before it can take, however they are spread.
If neither holds for some instances, these and those that come before them are evacuated one by one on the
snapshot. Why an instance has no place, which takes longer than its decision, is determined for the domains
that are reported.

What still fits after a failure is counted again where it has changed: on the hosts that have got instances.
The loss of a host is not tried if it cannot be the worst one for any flavor, however its instances are
spread. To lose all hosts of a large cloud takes too long; those are tried that may lose most.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
import math
from typing import NamedTuple

import numpy as np

from scheduler.errors import BerthError
from scheduler.filters.affinity_filter import ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter
from scheduler.operators.plan.fits import MOST_ON_HOST, FitOnHost, fits, has_room_rules
from scheduler.operators.plan.movable import NO_VTPM, is_never_evacuated, to_evacuate
from scheduler.operators.plan.moves import Move, Mover, Stuck
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import of_flavor
from scheduler.request.scheduling_request import SchedulingRequest

#: An instance that does not exist.
NOBODY = "00000000-0000-4000-8000-000000000000"

#: Hosts whose loss is tried to find what fits after that of any one host.
MOST_TRIED = 300

#: All zones together, besides the zones by number.
EVERYWHERE = 0


class Domain(NamedTuple):
    """Hosts that fail together.

    Attributes:
        rows: Their rows; sorted.
    """

    name: str
    rows: tuple[int, ...]


def slots_in(large: Mapping[str, int] | None, small: Mapping[str, int]) -> float:
    """Return how many slots of a small instance a large one takes at most; None: its amounts are unknown."""
    if large is None:
        return math.inf
    return max((-(-large.get(name, 0) // amount) for name, amount in small.items()), default=0)


@dataclass
class _Alike:
    """Instances of one request, cell and server group.

    Attributes:
        amounts: What each takes in Placement, of its node alone; None: that is not known.
        spare: How many hosts the server group may exclude; None: there is no such bound.
        last: The position of the last one in the order in which instances are moved.
    """

    number: int
    cell: str
    amounts: Mapping[str, int] | None
    spare: int | None
    count: int = 0
    last: int = 0


class Losses:
    """Loses one failure domain after the other; each time the cloud is left as it was."""

    def __init__(self, cloud: PlannedCloud) -> None:
        self.cloud = cloud
        self._snapshot = cloud.snapshot
        self.mover = Mover(cloud, explain=False)
        self._passing: dict[tuple[int, str], np.ndarray] = {}
        groups = ServerGroupAntiAffinityFilter, ServerGroupAffinityFilter
        rules = cloud.rules.chain.filters
        self._local = all(rule.local or isinstance(rule, groups) for rule in rules)
        self._room_rules = has_room_rules(rules)
        self._rooms: dict[tuple[tuple[str, int], ...], np.ndarray] = {}

    def movable(self, domain: Domain) -> list[int]:
        """Return the instances of a domain that nova evacuates, after a reset of their state perhaps."""
        indices = to_evacuate(self._snapshot, domain.rows)
        return [index for index in indices if not is_never_evacuated(self._snapshot, index)]

    def stuck(self, domain: Domain, explain: int = 0) -> list[Stuck]:
        """Return the instances of a domain without a place, with the reasons for the first ``explain``."""
        movable = self.movable(domain)
        never = sorted(set(to_evacuate(self._snapshot, domain.rows)).difference(movable))
        lost = [Stuck(index, NO_VTPM, {}) for index in never]
        order = self.mover.order(movable)
        doubtful = order[: self._doubtful(order, domain)]
        if not doubtful:
            return lost
        with self.evacuated(domain, doubtful) as (_, stuck):
            return [*self.mover.explained(stuck[:explain]), *stuck[explain:], *lost]

    @contextmanager
    def evacuated(
        self, domain: Domain, indices: Iterable[int]
    ) -> Iterator[tuple[Sequence[Move], Sequence[Stuck]]]:
        """Have the hosts of a domain closed and instances of it moved off them, until the context ends."""
        with self.cloud.restoring():
            self.cloud.closed[list(domain.rows)] = True
            yield self.mover.move_all(self.mover.order(indices))

    def _doubtful(self, order: Sequence[int], domain: Domain) -> int:
        """Return how many instances of a domain, in order, to decide for: the others surely find a place.

        Those are all up to the last one that may be left without a place. All of them if an instance depends
        on where others go.
        """
        if not self._local or any(map(self.mover.names_others, order)):
            return len(order)
        kinds = self._kinds(order)
        rest = np.ones(len(self._snapshot.table), bool)
        rest[list(domain.rows)] = False
        doubtful = [
            kind.last + 1
            for at, kind in enumerate(kinds)
            if not self._surely_fits(at, kinds, rest, len(order))
        ]
        return max(doubtful, default=0)

    def _kinds(self, order: Sequence[int]) -> list[_Alike]:
        """Return the kinds of instances in the order in which they are moved."""
        instances = self._snapshot.instances
        found: dict[tuple[int, str, str], _Alike] = {}
        for position, index in enumerate(order):
            number = int(instances.specs[index])
            cell = self._snapshot.table.rows[int(instances.rows[index])].cell_uuid
            key = number, cell, self.mover.group_of(index)
            if key not in found:
                amounts = self.mover.amounts(index) if number >= 0 else None
                found[key] = _Alike(number, cell, amounts, self._spare(key[2]))
            found[key].count += 1
            found[key].last = position
        return list(found.values())

    def _surely_fits(self, at: int, kinds: Sequence[_Alike], rest: np.ndarray, instances: int) -> bool:
        """Whether instances of a kind find a place on the rest whatever hosts the others get.

        An instance takes at most as many slots of a smaller one as that fits into it, rounded up.
        """
        kind = kinds[at]
        if kind.number < 0 or kind.amounts is None or kind.spare is None:
            return False
        stored = self._snapshot.requests[kind.number]
        if stored.has_devices:
            return False
        passing = self._pass(kind.number, kind.cell) & rest
        if np.count_nonzero(passing) >= instances + kind.spare:
            return True
        if self._room_rules or stored.is_pinned:
            return False
        # kinds of one request take turns
        others = [*kinds[:at], *(each for each in kinds[at + 1 :] if each.number == kind.number)]
        lost = sum(
            each.count * slots_in(each.amounts, kind.amounts) for each in others if each.cell == kind.cell
        )
        slots = np.sort(self._slots(kind.amounts)[passing])
        return int(slots[: max(0, len(slots) - kind.spare)].sum()) >= lost + kind.count

    def _slots(self, amounts: Mapping[str, int]) -> np.ndarray:
        """Return how many instances that take these amounts each host has room for; int64, (hosts,)."""
        key = tuple(sorted(amounts.items()))
        if key not in self._rooms:
            self._rooms[key] = self.cloud.slots(amounts)
        return self._rooms[key]

    def _spare(self, group_uuid: str) -> int | None:
        """Return how many hosts a server group may exclude; None if that has no such bound."""
        group = self._snapshot.groups.get(group_uuid)
        if group is None or group.policy.startswith("soft-"):
            return 0
        return len(group.members) if group.policy == "anti-affinity" else None

    def _pass(self, number: int, cell: str) -> np.ndarray:
        """Return which hosts of a cell pass for a request outside of any server group; bool, (hosts,)."""
        key = number, cell
        if key not in self._passing:
            self._passing[key] = np.zeros(len(self._snapshot.table), bool)
            spec = self.mover.to_cell(self._snapshot.requests[number].spec(), cell)
            with suppress(BerthError):
                self._passing[key][self.cloud.rank(spec, NOBODY).hosts.table_rows] = True
        return self._passing[key]


# -- what still fits -------------------------------------------------------------------------------------


class AfterLoss(NamedTuple):
    """What still fits of a flavor after the loss of the host that matters most, and in each zone alone."""

    instances: int = 0
    host: str = ""
    of_zone: Mapping[str, int] = {}


@dataclass
class _Flavor:
    """What fits of a flavor now.

    Attributes:
        by_amounts: Whether what fits on a host depends on what Placement has left there, and on nothing else.
        counts: How many fit on each host; int64, (hosts,).
        totals: The same for all zones together and each zone; int64, (zones,).
        taken: What one takes of its node, by resource class.
    """

    name: str
    by_amounts: bool
    counts: np.ndarray
    totals: np.ndarray
    taken: Mapping[str, int]


class Headrooms:
    """Counts what fits of flavors after failures.

    Attributes:
        untried: The number of hosts whose loss was not tried, and may be worse.
    """

    def __init__(self, losses: Losses, found: Mapping[str, Mapping[int, FitOnHost]]) -> None:
        """Begin with what fits on each row now, by the name of each flavor."""
        self._losses, self._cloud, self._snapshot = losses, losses.cloud, losses.cloud.snapshot
        names = [self._snapshot.zone(row) for row in range(len(self._snapshot.table))]
        self._zones, numbers = np.unique(names, return_inverse=True)
        self._zone_of = numbers + 1
        self._again: dict[tuple[str, int, tuple[int, ...]], int] = {}
        self._flavors = [self._flavor(name, fits) for name, fits in found.items()]
        self.untried = 0

    def _flavor(self, name: str, found: Mapping[int, FitOnHost]) -> _Flavor:
        counts = np.zeros(len(self._zone_of), np.int64)
        for row, fit in found.items():
            counts[row] = fit.count
        taken = next((fit.taken for fit in found.values() if fit.taken), {})
        return _Flavor(name, bool(taken) and self._only_amounts(name), counts, self._by_zone(counts), taken)

    def _by_zone(self, counts: np.ndarray) -> np.ndarray:
        found = np.bincount(self._zone_of, counts, 1 + len(self._zones)).astype(np.int64)
        found[EVERYWHERE] = counts.sum()
        return found

    def _only_amounts(self, flavor: str) -> bool:
        if has_room_rules(self._cloud.rules.chain.filters):
            return False
        request = SchedulingRequest.of(of_flavor(self._snapshot, flavor))
        try:
            queries = self._snapshot.candidate_hosts.queries(request)
        except BerthError:
            return False
        mirrored = self._snapshot.mirror.find(queries) is not None
        return mirrored and not request.guest and not request.pci_requests

    def left(self, domain: Domain) -> list[np.ndarray]:
        """Return how many of each flavor fit after a failure, in all zones and in each; int64, (zones,)."""
        with self._losses.evacuated(domain, self._losses.movable(domain)) as (moves, _):
            came: dict[int, list[int]] = {}
            for move in moves:
                came.setdefault(move.target, []).append(int(self._snapshot.instances.specs[move.index]))
            return [self._left(flavor, domain, came) for flavor in self._flavors]

    def _left(self, flavor: _Flavor, domain: Domain, came: Mapping[int, Sequence[int]]) -> np.ndarray:
        counts = flavor.counts.copy()
        counts[list(domain.rows)] = 0
        targets = {row: tuple(numbers) for row, numbers in came.items() if counts[row]}
        for row, count in self._counted_again(flavor, targets):
            counts[row] = count
        return self._by_zone(counts)

    def _counted_again(
        self, flavor: _Flavor, targets: Mapping[int, tuple[int, ...]]
    ) -> Iterator[tuple[int, int]]:
        """Yield how many fit on each host that has got instances, whose requests are given in order."""
        if flavor.by_amounts:
            slots = self._cloud.slots(flavor.taken)
            yield from ((row, min(MOST_ON_HOST, int(slots[row]))) for row in targets)
            return
        new = [row for row, numbers in targets.items() if (flavor.name, row, numbers) not in self._again]
        if new:
            found: Mapping[int, FitOnHost] = {}
            with self._cloud.restoring_closed(), suppress(BerthError):  # no host is offered any more
                self._cloud.open_only(new)
                found = fits(self._cloud, of_flavor(self._snapshot, flavor.name))
            for row in new:
                self._again[flavor.name, row, targets[row]] = found[row].count if row in found else 0
        yield from ((row, self._again[flavor.name, row, numbers]) for row, numbers in targets.items())

    # -- the host that matters most --------------------------------------------------------------------------

    def after_any_host(self) -> dict[str, AfterLoss]:
        """Return what fits of each flavor after the loss of any one host, by name."""
        rows_of = self._snapshot.table.rows_of_host.values()
        hosts = [Domain(self._cloud.host(rows[0]), tuple(map(int, rows))) for rows in rows_of]
        on = [self._losses.movable(host) for host in hosts]
        bounds = [self._bounds(flavor, hosts, on) for flavor in self._flavors]
        least = [flavor.totals.copy() for flavor in self._flavors]
        worst = [""] * len(self._flavors)
        # those that may be the worst of each flavor and zone, in turns
        orders = [
            np.argsort(bound[:, zone], kind="stable").tolist()
            for flavor, bound in zip(self._flavors, bounds, strict=True)
            for zone in np.flatnonzero(flavor.totals)
        ]
        ordered = list(dict.fromkeys(chain.from_iterable(zip(*orders, strict=True))))

        def may_be_worse(at: int) -> bool:
            return any((bound[at] < low).any() for bound, low in zip(bounds, least, strict=True))

        for done, at in enumerate(ordered[:MOST_TRIED]):
            self._snapshot.progress("hosts that are lost", done, min(len(ordered), MOST_TRIED))
            for number, left in enumerate(self.left(hosts[at]) if may_be_worse(at) else ()):
                if left[EVERYWHERE] < least[number][EVERYWHERE] or not worst[number]:
                    worst[number] = hosts[at].name
                least[number] = np.minimum(least[number], left)
        self.untried = sum(map(may_be_worse, ordered[MOST_TRIED:]))
        return {
            flavor.name: AfterLoss(
                int(low[EVERYWHERE]), host, dict(zip(self._zones.tolist(), low[1:].tolist(), strict=True))
            )
            for flavor, low, host in zip(self._flavors, least, worst, strict=True)
        }

    def _bounds(self, flavor: _Flavor, hosts: Sequence[Domain], on: Sequence[Sequence[int]]) -> np.ndarray:
        """Return what is left of a flavor at least after the loss of each host; (hosts, zones).

        Each instance of the host fills another one at most, and takes at most as many slots as fit into it.
        """
        numbers = np.array([len(each) for each in on], np.int64)
        own, filled = (np.zeros((len(hosts), len(flavor.totals))) for _ in range(2))
        for at, host in enumerate(hosts):
            for row in host.rows:
                own[at, [EVERYWHERE, self._zone_of[row]]] += flavor.counts[row]
        for zone in range(len(flavor.totals)):
            here = flavor.counts if zone == EVERYWHERE else flavor.counts[self._zone_of == zone]
            most = np.concatenate([[0], np.cumsum(np.sort(here)[::-1])])
            filled[:, zone] = most[np.minimum(numbers, len(most) - 1)]
        if flavor.by_amounts:
            filled = np.minimum(filled, self._slots(flavor.taken, on)[:, np.newaxis])
        return flavor.totals - own - filled

    def _slots(self, taken: Mapping[str, int], on: Sequence[Sequence[int]]) -> np.ndarray:
        """Return how many slots of a flavor the instances of each host take elsewhere at most; (hosts,)."""
        specs, slots = self._snapshot.instances.specs, dict[int, float]()
        for index in chain.from_iterable(on):
            if (number := int(specs[index])) not in slots:
                amounts = self._losses.mover.amounts(index) if number >= 0 else {}
                slots[number] = slots_in(amounts, taken)
        return np.array([sum(slots[int(specs[at])] for at in each) for each in on])
