"""How many more instances of each flavor fit after the loss of any one host.

Each host is lost in turn: its instances are evacuated one after the other on the snapshot, and what fits then
is counted again where that has changed, which is on the hosts that have got instances. A host is not tried if
it cannot be the worst one for any flavor, however its instances are spread. To lose all hosts of a large
cloud takes too long; those are tried that lose most if their instances are spread by amounts alone.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from scheduler.errors import BerthError
from scheduler.operators.plan.capacity import MOST_ON_HOST, Fit, fits, has_room_rules
from scheduler.operators.plan.movable import is_never_evacuated, to_evacuate
from scheduler.operators.plan.moves import Mover, slots_in
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import of_flavor
from scheduler.request.scheduling_request import SchedulingRequest

#: Hosts that are tried.
MOST_TRIED = 300

#: All zones together, besides the zones by number.
EVERYWHERE = 0


@dataclass
class Headroom:
    """What still fits of a flavor after the loss of the host that matters most.

    Attributes:
        instances: In all zones together.
        host: That host; "" if there is no host.
        of_zone: The same for each zone alone; the host may be another one.
    """

    instances: int = 0
    host: str = ""
    of_zone: dict[str, int] = field(default_factory=dict)


@dataclass
class _Flavor:
    """What is known of a flavor.

    Attributes:
        by_amounts: Whether what fits on a host depends on what Placement has left there, and on nothing else.
        counts: How many fit on each host now; int64, (hosts,).
        totals: The same for all zones together and each zone; int64, (zones,).
        bounds: What is left of each at least after the loss of each host; int64, (hosts, zones).
        expected: What is left if instances take places by amounts, wherever they go; float64, (hosts, zones).
        least: The least that is left of each after a loss so far, and ``worst`` the row of that host.
    """

    name: str
    fits: Mapping[int, Fit]
    by_amounts: bool
    counts: np.ndarray
    totals: np.ndarray
    bounds: np.ndarray
    expected: np.ndarray
    least: np.ndarray
    worst: int = -1


def _share_in(large: Mapping[str, int], small: Mapping[str, int]) -> float:
    """Return how many small instances a large one is, by what each takes."""
    return max((large.get(name, 0) / amount for name, amount in small.items()), default=0.0)


class Losses:
    """Loses one host after the other; each time the cloud is left as it was."""

    def __init__(self, cloud: PlannedCloud, found: Mapping[str, Mapping[int, Fit]]) -> None:
        """Begin with what fits on each row now, by the name of each flavor."""
        self._cloud, self._snapshot = cloud, cloud.snapshot
        self._mover = Mover(cloud, explain=False)
        names = [cloud.snapshot.zone(row) for row in range(len(cloud.snapshot.table))]
        self._zones = sorted(set(names))
        number_of = {name: number for number, name in enumerate(self._zones, EVERYWHERE + 1)}
        self._zone_of = np.array([number_of[name] for name in names], np.int64)
        self._again: dict[tuple[str, int, tuple[int, ...]], int] = {}
        self._hosts = [tuple(map(int, rows)) for rows in cloud.snapshot.table.rows_of_host.values()]
        self._on = [
            [
                index
                for index in to_evacuate(cloud.snapshot, rows)
                if not is_never_evacuated(cloud.snapshot, index)
            ]
            for rows in self._hosts
        ]
        self._flavors = [self._flavor(name, counts) for name, counts in found.items()]

    def _flavor(self, name: str, found: Mapping[int, Fit]) -> _Flavor:
        counts = np.zeros(len(self._zone_of), np.int64)
        for row, fit in found.items():
            counts[row] = fit.count
        totals = self._by_zone(counts)
        by_amounts = self._only_amounts(name)
        taken = next((fit.taken for fit in found.values() if fit.taken), {})
        elsewhere = self._slots(taken, slots_in) if by_amounts and taken else None
        own = np.zeros((len(self._hosts), len(totals)), np.int64)
        for at, rows in enumerate(self._hosts):
            for row in rows:
                own[at, [EVERYWHERE, self._zone_of[row]]] += counts[row]
        shares = totals / max(1, int(totals[EVERYWHERE]))
        spread = self._slots(taken, _share_in) if by_amounts and taken else np.zeros(len(self._hosts))
        return _Flavor(
            name,
            found,
            by_amounts,
            counts,
            totals,
            bounds=totals - own - self._most_taken(counts, elsewhere),
            expected=totals - own - spread[:, np.newaxis] * shares,
            least=totals.copy(),
        )

    def _slots(
        self, taken: Mapping[str, int], slots: Callable[[Mapping[str, int], Mapping[str, int]], float]
    ) -> np.ndarray:
        """Return how many places of a flavor the instances of each host take elsewhere; (hosts,).

        Args:
            slots: Returns how many places an instance takes, by its amounts and those of the flavor.
        """
        specs, slots_of = self._snapshot.instances.specs, dict[int, float]()
        for indices in self._on:
            for index in indices:
                if (number := int(specs[index])) not in slots_of:
                    amounts = self._mover.amounts(index) if number >= 0 else {}
                    slots_of[number] = MOST_ON_HOST if amounts is None else slots(amounts, taken)
        return np.array([sum(slots_of[int(specs[at])] for at in each) for each in self._on])

    def _most_taken(self, counts: np.ndarray, elsewhere: np.ndarray | None) -> np.ndarray:
        """Return how many places are lost at most as instances of each host fill others; (hosts, zones).

        Args:
            elsewhere: How many places they take at most, wherever they go; None: each fills a host.
        """
        numbers = np.array([len(each) for each in self._on], np.int64)
        found = np.empty((len(self._hosts), 1 + len(self._zones)), np.int64)
        for zone in range(found.shape[1]):
            here = counts if zone == EVERYWHERE else counts[self._zone_of == zone]
            most = np.concatenate([[0], np.cumsum(np.sort(here)[::-1])])
            found[:, zone] = most[np.minimum(numbers, len(most) - 1)]
        return found if elsewhere is None else np.minimum(found, elsewhere[:, np.newaxis])

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

    def headrooms(self) -> dict[str, Headroom]:
        """Return the headroom of each flavor, by its name."""
        tried = self._tried()
        for done, at in enumerate(tried):
            self._snapshot.progress("hosts that are lost", done, len(tried))
            if any((one.bounds[at] < one.least).any() for one in self._flavors):
                self._lose(at)
        return {
            one.name: Headroom(
                int(one.least[EVERYWHERE]),
                self._cloud.host(one.worst) if one.worst >= 0 else "",
                {
                    zone: int(one.least[number])
                    for number, zone in enumerate(self._zones, EVERYWHERE + 1)
                    if any(self._zone_of[row] == number for row in one.fits)
                },
            )
            for one in self._flavors
        }

    def _tried(self) -> list[int]:
        """Return the hosts to try: those that are expected to be the worst of a flavor and zone first."""
        orders = [
            np.argsort(one.expected[:, zone], kind="stable")
            for one in self._flavors
            for zone in range(len(one.totals))
            if one.totals[zone]
        ]
        in_turns = (int(each) for ranked in zip(*orders, strict=True) for each in ranked)
        return list(dict.fromkeys(in_turns))[:MOST_TRIED]

    def _lose(self, at: int) -> None:
        cloud, rows = self._cloud, list(self._hosts[at])
        with cloud.restoring():
            cloud.closed[rows] = True
            moves, _ = self._mover.move_all(self._mover.order(self._on[at]))
            came: dict[int, list[int]] = {}
            for move in moves:
                came.setdefault(move.target, []).append(int(self._snapshot.instances.specs[move.index]))
            for one in self._flavors:
                lost = np.zeros(len(self._zone_of), np.int64)
                lost[rows] = one.counts[rows]
                targets = {row: tuple(numbers) for row, numbers in came.items() if one.counts[row]}
                for row, count in self._counted_again(one, targets):
                    lost[row] = one.counts[row] - count
                left = one.totals - self._by_zone(lost)
                if left[EVERYWHERE] < one.least[EVERYWHERE] or one.worst < 0:
                    one.worst = rows[0]
                one.least = np.minimum(one.least, left)

    def _counted_again(
        self, one: _Flavor, targets: Mapping[int, tuple[int, ...]]
    ) -> Iterator[tuple[int, int]]:
        """Yield how many fit on each host that has got instances, whose requests are given in order."""
        if one.by_amounts:
            for row in targets:
                yield row, self._by_what_is_left(row, one.fits[row])
            return
        new = [row for row, numbers in targets.items() if (one.name, row, numbers) not in self._again]
        if new:
            found: Mapping[int, Fit] = {}
            with self._cloud.restoring_closed(), suppress(BerthError):  # no host is offered any more
                self._cloud.open_only(new)
                found = fits(self._cloud, of_flavor(self._snapshot, one.name))
            for row in new:
                self._again[one.name, row, targets[row]] = found[row].count if row in found else 0
        yield from ((row, self._again[one.name, row, numbers]) for row, numbers in targets.items())

    def _by_what_is_left(self, row: int, fit: Fit) -> int:
        left = {name: max(0, one.capacity - one.used) for name, one in self._cloud.usage(row).items()}
        return min(MOST_ON_HOST, *(left.get(name, 0) // amount for name, amount in fit.taken.items()))
