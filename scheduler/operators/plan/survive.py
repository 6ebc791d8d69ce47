"""Losing hosts: for each failure domain, would all its instances find a place on the rest?

Most checks need no decision. With k instances on a domain, each surely finds a place if k hosts of its cell
outside of the domain pass for it now, as each of the others fills one host at most. It also does if these
hosts have more slots of its size in Placement than the instances before it can take, however they are spread.
If neither holds for some instances, these and those that come before them are evacuated one by one on the
snapshot. Why an instance has no place, which takes longer than its decision, is determined for the domains
that are reported.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
import fnmatch
import sys
from typing import NamedTuple

import numpy as np

from scheduler.errors import BerthError
from scheduler.filters.affinity_filter import ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter
from scheduler.operators.plan.capacity import Fit, fits, has_room_rules
from scheduler.operators.plan.movable import NO_VTPM, is_never_evacuated, not_evacuated, to_evacuate
from scheduler.operators.plan.moves import Document, Mover, Stuck, slots_in, stuck_document, summed
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import of_flavor
from scheduler.operators.snapshot.snapshot import Snapshot

#: Failure domains that are reported in full, and those for which instances that may be added are counted.
MOST_REPORTED = 20
MOST_COUNTED = 3

#: Instances of a domain that are evacuated one by one to count what may be added.
MOST_DECIDED = 2000

#: Instances without a place that are reported of a domain.
MOST_STUCK = 20


class Domain(NamedTuple):
    """Hosts that fail together.

    Attributes:
        rows: Their rows; sorted.
    """

    name: str
    rows: tuple[int, ...]


class UnknownDomain(BerthError):
    """No failure domain has this name."""


def by_hosts(snapshot: Snapshot) -> list[Domain]:
    """Return each host with instances as a domain, the fullest first."""
    table = snapshot.table
    counts = np.bincount(snapshot.instances.rows[snapshot.instances.rows >= 0], minlength=len(table))
    memory = table.numbers["total_usable_ram_mb"] - table.numbers["free_ram_mb"]
    hosts = [tuple(rows) for rows in table.rows_of_host.values() if counts[list(rows)].any()]
    hosts.sort(key=lambda rows: (-int(memory[list(rows)].sum()), rows))
    return [Domain(table.rows[rows[0]].host, tuple(map(int, rows))) for rows in hosts]


def by_aggregate(snapshot: Snapshot, pattern: str) -> list[Domain]:
    """Return the aggregates with names that match a pattern, as domains.

    Raises:
        UnknownDomain: None does.
    """
    rows_named = snapshot.table.rows_named
    found = [
        Domain(one.name, tuple(sorted({int(row) for host in one.hosts for row in rows_named.get(host, ())})))
        for one in snapshot.table.aggregates
        if fnmatch.fnmatchcase(one.name, pattern)
    ]
    if not any(each.rows for each in found):
        raise UnknownDomain(f"No aggregate with a host has a name that matches {pattern}")
    return sorted(each for each in found if each.rows)


def by_zone(snapshot: Snapshot) -> list[Domain]:
    zones: dict[str, list[int]] = {}
    for row in range(len(snapshot.table)):
        zones.setdefault(snapshot.zone(row), []).append(row)
    return [Domain(zone, tuple(rows)) for zone, rows in sorted(zones.items())]


#: An instance that does not exist.
NOBODY = "00000000-0000-4000-8000-000000000000"


class Answer(NamedTuple):
    """What the loss of a domain means.

    Attributes:
        stuck: The instances without a place on the rest.
        by_hand: How many of the others nova does not evacuate before their state is reset, by state.
    """

    domain: Domain
    instances: int
    stuck: Sequence[Stuck]
    by_hand: Mapping[str, int]


@dataclass
class _Kind:
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


class Survival:
    """Checks one failure domain after the other; each leaves the cloud as it was."""

    def __init__(self, cloud: PlannedCloud) -> None:
        self._cloud = cloud
        self._snapshot = cloud.snapshot
        self._mover = Mover(cloud, explain=False)
        self._passing: dict[tuple[int, str], np.ndarray] = {}
        groups = ServerGroupAntiAffinityFilter, ServerGroupAffinityFilter
        rules = cloud.rules.chain.filters
        self._local = all(rule.local or isinstance(rule, groups) for rule in rules)
        self._room_rules = has_room_rules(rules)
        self._rooms: dict[tuple[tuple[str, int], ...], np.ndarray] = {}

    def instances_of(self, domain: Domain) -> list[int]:
        return to_evacuate(self._snapshot, domain.rows)

    def stuck(self, domain: Domain, indices: Sequence[int], explain: int = 0) -> list[Stuck]:
        """Return the instances of a domain without a place, with the reasons for the first ``explain``."""
        stays = [index for index in indices if is_never_evacuated(self._snapshot, index)]
        fixed = [Stuck(index, NO_VTPM, {}) for index in stays]
        order = self._mover.order(set(indices).difference(stays))
        doubtful = order[: self._doubtful(order, domain)]
        if not doubtful:
            return fixed
        with self._cloud.restoring():
            stuck = self.evacuate(domain, doubtful)
            return [*self._mover.explained(stuck[:explain]), *stuck[explain:], *fixed]

    def evacuate(self, domain: Domain, indices: Sequence[int]) -> list[Stuck]:
        """Evacuate instances of a domain, whose hosts are closed; return those without a place."""
        self._cloud.closed[list(domain.rows)] = True
        return self._mover.move_all(self._mover.order(indices))[1]

    def _doubtful(self, order: Sequence[int], domain: Domain) -> int:
        """Return how many instances of a domain, in order, to decide for: the others surely find a place.

        Those are all up to the last one that may be left without a place. All of them if an instance depends
        on where others go.
        """
        if not self._local or any(map(self._mover.names_others, order)):
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

    def _kinds(self, order: Sequence[int]) -> list[_Kind]:
        """Return the kinds of instances in the order in which they are moved."""
        instances = self._snapshot.instances
        found: dict[tuple[int, str, str], _Kind] = {}
        for position, index in enumerate(order):
            number = int(instances.specs[index])
            cell = self._snapshot.table.rows[int(instances.rows[index])].cell_uuid
            key = number, cell, self._mover.group_of(index)
            if key not in found:
                amounts = self._mover.amounts(index) if number >= 0 else None
                found[key] = _Kind(number, cell, amounts, self._spare(key[2]))
            found[key].count += 1
            found[key].last = position
        return list(found.values())

    def _surely_fits(self, at: int, kinds: Sequence[_Kind], rest: np.ndarray, instances: int) -> bool:
        """Whether instances of a kind find a place on the rest whatever hosts the others get."""
        kind, requests = kinds[at], self._snapshot.requests
        if kind.number < 0 or kind.amounts is None or kind.spare is None or requests.has_devices(kind.number):
            return False
        passing = self._pass(kind.number, kind.cell) & rest
        if np.count_nonzero(passing) >= instances + kind.spare:
            return True
        return not self._room_rules and self._slots_suffice(at, kinds, passing)

    def _slots_suffice(self, at: int, kinds: Sequence[_Kind], passing: np.ndarray) -> bool:
        """Whether hosts have slots enough for a kind, less those that the kinds before it may take.

        An instance takes at most as many slots of a smaller one as that fits into it, rounded up.
        """
        kind = kinds[at]
        if kind.amounts is None or kind.spare is None or self._snapshot.requests.is_pinned(kind.number):
            return False
        lost = 0
        for number, each in enumerate(kinds):
            # kinds of one request take turns
            if number != at and each.cell == kind.cell and (number < at or each.number == kind.number):
                if each.amounts is None:
                    return False
                lost += each.count * slots_in(each.amounts, kind.amounts)
        slots = self._slots(kind.amounts)[passing]
        excluded = int(np.sort(slots)[len(slots) - min(kind.spare, len(slots)) :].sum())
        return int(slots.sum()) - excluded >= lost + kind.count

    def _slots(self, amounts: Mapping[str, int]) -> np.ndarray:
        """Return how many instances that take these amounts each host has room for; int64, (hosts,)."""
        key = tuple(sorted(amounts.items()))
        if key not in self._rooms:
            self._rooms[key] = np.min([self._cloud.free(name) // amount for name, amount in key], axis=0)
        return self._rooms[key]

    def slots_of(self, indices: Sequence[int], amounts: Mapping[str, int]) -> int:
        """Return how many slots of an instance that takes these amounts some instances may take, at most."""
        kinds = self._kinds(self._mover.order(indices))
        if any(each.amounts is None for each in kinds):
            return sys.maxsize
        return sum(each.count * slots_in(each.amounts or {}, amounts) for each in kinds)

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
            self._passing[key][self._rows_that_pass(number, cell)] = True
        return self._passing[key]

    def _rows_that_pass(self, number: int, cell: str) -> np.ndarray:
        spec = self._mover.to_cell(self._snapshot.requests.spec(number), cell)
        try:
            return self._cloud.rank(spec, NOBODY).hosts.table_rows
        except BerthError:
            return np.empty(0, np.int64)


def survive(
    cloud: PlannedCloud,
    domains: Sequence[Domain],
    flavor: str | None = None,
) -> Document:
    """Return which failure domains the cloud would survive, the worst first.

    Args:
        domains: What fails, each alone.
        flavor: Counts how many instances of this flavor may be added; None: of the most frequent flavor.
    """
    snapshot, survival = cloud.snapshot, Survival(cloud)
    rows = sorted({row for domain in domains for row in domain.rows})
    snapshot.load_requests(snapshot.instances.on(rows).tolist())
    answers = checked(cloud, survival, domains)
    lost = [each for each in answers if each.stuck]
    return {
        "plan": "survive",
        "domains": len(answers),
        "survived": sum(not each.stuck and not each.by_hand for each in answers),
        "survived_by_hand": sum(not each.stuck and bool(each.by_hand) for each in answers),
        "flavor": (flavor := flavor or _most_common_flavor(snapshot)),
        "answers": [document_of(cloud, survival, each) for each in answers[:MOST_REPORTED]],
        "missing": dict(sorted(_most(summed(each.stuck) for each in lost).items())),
        "may_be_added": 0 if lost or not flavor else _addable(cloud, survival, answers, flavor),
    }


def checked(cloud: PlannedCloud, survival: Survival, domains: Sequence[Domain]) -> list[Answer]:
    """Return what the loss of each of some domains means, the worst first. Their requests were read."""
    snapshot, answers = cloud.snapshot, list[Answer]()
    for done, domain in enumerate(domains):
        snapshot.progress("failure domains", done, len(domains))
        indices = survival.instances_of(domain)
        stuck = survival.stuck(domain, indices, MOST_STUCK if len(domains) <= MOST_REPORTED else 0)
        placed = set(indices) - {each.index for each in stuck}
        by_hand = Counter(snapshot.instances.states[index] for index in not_evacuated(snapshot, placed))
        answers.append(Answer(domain, len(indices), stuck, dict(sorted(by_hand.items()))))
    return sorted(answers, key=lambda each: (-len(each.stuck), -sum(each.by_hand.values()), -each.instances))


def _with_reasons(survival: Survival, answer: Answer) -> Answer:
    if all(each.why for each in answer.stuck[:MOST_STUCK]):
        return answer
    indices = survival.instances_of(answer.domain)
    return answer._replace(stuck=survival.stuck(answer.domain, indices, MOST_STUCK))


def _most(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the largest amount of each class: what is missing for the worst case."""
    found: dict[str, int] = {}
    for each in amounts:
        for name, amount in each.items():
            found[name] = max(found.get(name, 0), amount)
    return found


def document_of(cloud: PlannedCloud, survival: Survival, answer: Answer) -> Document:
    """Return an answer as values that JSON has, with the reasons for the first instances without a place."""
    answer = _with_reasons(survival, answer)
    rows = cloud.snapshot.instances.rows
    return {
        "domain": answer.domain.name,
        "hosts": len(answer.domain.rows),
        "instances": answer.instances,
        "placed": answer.instances - len(answer.stuck),
        "by_hand": dict(answer.by_hand),
        "missing": summed(answer.stuck),
        "without_place": [
            stuck_document(cloud, each, int(rows[each.index])) for each in answer.stuck[:MOST_STUCK]
        ],
    }


def _most_common_flavor(snapshot: Snapshot) -> str | None:
    """Return the name of the flavor that most instances have, of those whose requests were read."""
    numbers, counts = np.unique(snapshot.instances.specs[snapshot.instances.specs >= 0], return_counts=True)
    names: Counter[str] = Counter()
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        flavor = snapshot.requests.flavor(number)
        if "name" in flavor:
            names[flavor.name] += count
    return names.most_common(1)[0][0] if names else None


def _addable(cloud: PlannedCloud, survival: Survival, answers: Sequence[Answer], flavor: str) -> int:
    """Return how many instances of a flavor may be added until one of the largest domains is not survived.

    Wherever they are, each of them needs a place on the other hosts after the failure.
    """
    if not answers:
        return 0
    found = fits(cloud, of_flavor(cloud.snapshot, flavor))
    return min(_left(cloud, survival, each.domain, flavor, found) for each in answers[:MOST_COUNTED])


def _left(
    cloud: PlannedCloud, survival: Survival, domain: Domain, flavor: str, found: Mapping[int, Fit]
) -> int:
    """Return how many instances of a flavor fit with those of a failed domain; a large one is bounded.

    Args:
        found: How many fit on each host before the failure.
    """
    indices = survival.instances_of(domain)
    before = sum(fit.count for fit in found.values())
    if len(indices) > MOST_DECIDED:
        taken = next((fit.taken for fit in found.values() if fit.taken), {})
        lost = set(domain.rows)
        rest = sum(fit.count for row, fit in found.items() if row not in lost)
        return max(0, min(before, rest - survival.slots_of(indices, taken)))
    with cloud.restoring():
        survival.evacuate(domain, indices)
        after = sum(fit.count for fit in fits(cloud, of_flavor(cloud.snapshot, flavor)).values())
    return min(before, after)


def domains_of(snapshot: Snapshot, by: str | None) -> list[Domain]:
    """Return the failure domains that a command names.

    Args:
        by: ``zone``, ``aggregate:PATTERN``, or None for hosts.

    Raises:
        UnknownDomain: There are no such domains.
    """
    if by is None:
        return by_hosts(snapshot)
    if by == "zone":
        return by_zone(snapshot)
    kind, colon, pattern = by.partition(":")
    if kind != "aggregate" or not colon or not pattern:
        raise UnknownDomain(f"--by takes zone or aggregate:PATTERN, not {by}")
    return by_aggregate(snapshot, pattern)
