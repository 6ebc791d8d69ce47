"""Why hosts do not suit a request: for each host the set of constraints that it fails, by arrays.

Hosts that fail the same constraints are one entry. A constraint that hosts fail alone is *sufficient*:
without it these hosts would have the request.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.constraints import Part, listed, unsynchronized
from scheduler.decisions.document import Constraint, Failing, Reason, Why
from scheduler.logs import count_text
from scheduler.placement.mirror import Nodes
from scheduler.placement.plain_query import CLASSES
from scheduler.placement.providers import ProviderState

#: Sets of several constraints that are kept, and hosts that are named of each set.
MOST_SETS = 10
NAMED = 20

#: Reasons that are kept of one constraint.
MOST_REASONS = 4

#: Why a host counts as disabled whose service is enabled.
STALE = "enabled in nova, but its resource provider has trait COMPUTE_STATUS_DISABLED"

#: Masks after which the codes of hosts are made small again: they are bits of an integer.
_FOLDED = 40


class Limit(StrEnum):
    """What refuses an amount, the mildest first."""

    FREE = "free"
    CAPACITY = "capacity"
    STEP_SIZE = "step_size"
    MIN_UNIT = "min_unit"
    MAX_UNIT = "max_unit"
    ABSENT = "absent"


Explain = Callable[[np.ndarray], Sequence[Reason]]
"""Returns why some hosts, by their positions, fail a constraint."""


class _Entry(NamedTuple):
    """A constraint, which hosts fail it, and what explains some of them; of sources the first one counts."""

    constraint: Constraint
    mask: np.ndarray
    sources: tuple[tuple[np.ndarray, "Explain"], ...] = ()

    def among(self, hosts: np.ndarray) -> "_Entry":
        """Return the same for some hosts; bool, shape (hosts,)."""
        sources = ((mask & hosts, explain) for mask, explain in self.sources)
        return _Entry(self.constraint, self.mask & hosts, tuple(sources))

    def explain(self, positions: np.ndarray) -> list[Reason]:
        """Return why some hosts fail the constraint, the reason of most hosts first."""
        found: dict[str, list[Reason]] = {}
        for mask, explain in self.sources:
            known = mask[positions]
            for reason in explain(positions[known]) if known.any() else ():
                found.setdefault(reason.text, []).append(reason)
            positions = positions[~known]
        return sorted(map(_together, found.values()), key=lambda reason: -reason.hosts)


def _together(reasons: Sequence[Reason]) -> Reason:
    """Return one reason for equal ones; the number of hosts is 0, for unknown, if it is so of one."""
    complete = all(each.hosts for each in reasons)
    hosts = sum(each.hosts for each in reasons) if complete else 0
    most = max((each.most for each in reasons if each.most is not None), default=None)
    return Reason(reasons[0].text, hosts, reasons[0].limit, most)


def no_reasons(_positions: np.ndarray) -> Sequence[Reason]:
    return ()


class FailedConstraints:
    """The constraints that each of some hosts fails."""

    def __init__(self, hosts: int) -> None:
        """Let no host fail anything."""
        self._hosts = hosts
        self._entries: dict[str, _Entry] = {}
        self._others: dict[str, _Entry] = {}

    def add_alternative(
        self, constraint: Constraint, mask: np.ndarray, explain: Explain = no_reasons
    ) -> None:
        """Note hosts that would suit without another constraint than the one that they fail, too.

        Two constraints may exclude a host together only, as a zone and a disk of a pool outside of the zone.
        """
        if mask.any():
            self._others[constraint.text] = _Entry(constraint, mask, ((mask, explain),))

    def add(self, constraint: Constraint, mask: np.ndarray, explain: Explain = no_reasons) -> None:
        """Note which hosts fail a constraint, besides those that fail it already; bool, shape (hosts,)."""
        if not mask.any():
            return
        self._add(_Entry(constraint, mask, () if explain is no_reasons else ((mask, explain),)))

    def _add(self, entry: _Entry) -> None:
        text = entry.constraint.text
        if (known := self._entries.get(text)) is not None:
            entry = _Entry(entry.constraint, entry.mask | known.mask, (*known.sources, *entry.sources))
        if entry.mask.any():
            self._entries[text] = entry

    def explain(self, text: str, explain: Callable[[Explain], Explain]) -> None:
        """Replace the reasons of a constraint by what is made of them."""
        if known := self._entries.get(text):
            self._entries[text] = known._replace(sources=((known.mask, explain(known.explain)),))

    def failed(self, text: str) -> np.ndarray:
        """Return which hosts fail the constraint of this name."""
        known = self._entries.get(text)
        return np.zeros(self._hosts, bool) if known is None else known.mask

    def counts(self) -> np.ndarray:
        """Return how many constraints each host fails."""
        total = np.zeros(self._hosts, np.int64)
        for entry in self._entries.values():
            total += entry.mask
        return total

    def or_easier(self, other: "FailedConstraints") -> "FailedConstraints":
        """Return what each host fails of another query if that is less, otherwise of this one."""
        use = other.counts() < self.counts()
        merged = FailedConstraints(self._hosts)
        for mine, part in ((self, ~use), (other, use)):
            for entry in mine._entries.values():  # noqa: SLF001 - of the same class
                merged._add(entry.among(part))
        return merged

    def without(self, hosts: np.ndarray) -> "FailedConstraints":
        """Return the same, but for some hosts, which fail nothing; bool, shape (hosts,)."""
        kept = FailedConstraints(self._hosts)
        for entry in self._entries.values():
            kept._add(entry.among(~hosts))
        return kept

    def with_all(self, other: "FailedConstraints") -> "FailedConstraints":
        """Return what hosts fail of both."""
        both = FailedConstraints(self._hosts)
        both.merge(self)
        both.merge(other)
        return both

    def merge(self, other: "FailedConstraints") -> None:
        """Note what hosts fail besides."""
        for entry in other._entries.values():  # noqa: SLF001 - of the same class
            self._add(entry)
        self._others |= other._others  # noqa: SLF001

    def of(self, position: int) -> list[tuple[Constraint, Sequence[Reason]]]:
        """Return what one host fails, with the reasons."""
        at = np.array([position])
        return [(one.constraint, one.explain(at)) for one in self._entries.values() if one.mask[position]]

    def why(self, name: Callable[[int], str], cut: Mapping[str, bool] | None = None) -> Why:
        """Return the sets of failed constraints.

        Args:
            name: Returns the name of a host by its position.
            cut: Constraints by name for which there may be more hosts that fail them alone.
        """
        entries = list(self._entries.values())
        why = Why(self._hosts, constraints=[entry.constraint for entry in entries])
        found = sorted(self._sets(), key=lambda pair: (len(pair[0]), -len(pair[1]), pair[0]))
        why.suitable = sum(len(positions) for numbers, positions in found if not numbers)
        singles = [one for one in found if len(one[0]) == 1]
        for numbers, positions in [*singles, *[one for one in found if len(one[0]) > 1][:MOST_SETS]]:
            each = Failing(list(numbers), len(positions), [name(int(at)) for at in positions[:NAMED]])
            each.reasons = [entries[number].explain(positions)[:MOST_REASONS] for number in numbers]
            if len(numbers) == 1:
                each.cut = bool(cut and cut.get(entries[numbers[0]].constraint.text))
            why.failing.append(each)
        self._add_alternatives(why, name)
        return why

    def _add_alternatives(self, why: Why, name: Callable[[int], str]) -> None:
        alone = self.counts() == 1
        for other in self._others.values():
            positions = np.flatnonzero(other.mask & alone & ~self.failed(other.constraint.text))
            if not len(positions):
                continue
            names = [name(int(at)) for at in positions[:NAMED]]
            known = next((each for one, each in why.alone() if one.text == other.constraint.text), None)
            if known is not None:
                known.hosts += len(positions)
                known.names = [*known.names, *names][:NAMED]
                continue
            texts = [one.text for one in why.constraints]
            if other.constraint.text not in texts:
                why.constraints.append(other.constraint)
                texts.append(other.constraint.text)
            reasons = other.explain(positions)[:MOST_REASONS]
            each = Failing([texts.index(other.constraint.text)], len(positions), names, [reasons])
            singles = sum(len(one.constraints) == 1 for one in why.failing)
            why.failing.insert(singles, each)

    def _sets(self) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
        """Yield each distinct set of failed constraints with the positions of its hosts."""
        if not self._hosts:
            return
        masks = [entry.mask for entry in self._entries.values()]
        codes = np.zeros(self._hosts, np.int64)
        for number, mask in enumerate(masks):
            codes = codes * 2 + mask
            if number % _FOLDED == _FOLDED - 1:
                codes = np.unique(codes, return_inverse=True)[1]
        _, firsts, which, counts = np.unique(
            codes, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(which, kind="stable")
        for first, positions in zip(firsts, np.split(order, np.cumsum(counts)[:-1]), strict=True):
            yield tuple(number for number, mask in enumerate(masks) if mask[first]), positions


# -- what the arrays of the mirror say ---------------------------------------------------------------------

InNova = Callable[[Callable[[frozenset[str]], bool]], np.ndarray | bool]


def in_none(_test: Callable[[frozenset[str]], bool]) -> bool:
    return False


class PlainJudge:
    """Judges compute nodes by what the mirror has of them: traits, aggregates, amounts and their limits.

    Attributes:
        doubtful: Which hosts may refuse an amount by unit limits that are not known; bool, shape (hosts,).
    """

    def __init__(self, nodes: Nodes, at: np.ndarray, charged: np.ndarray, in_nova: InNova = in_none) -> None:
        """Judge hosts.

        Args:
            in_nova: Returns the hosts whose aggregates in nova meet a test; bool, shape (hosts,).
            nodes: What is known; the judge may change it.
            at: The row in ``nodes`` of each host, -1 for one that is not known; int64, shape (hosts,).
            charged: How many instances of the request each host has by now; int64, shape (hosts,).
        """
        self._nodes = nodes
        self._known = at >= 0
        # what is computed for unknown hosts is of no account
        self._at = np.where(self._known, at, 0) if len(nodes) else np.zeros(0, np.int64)
        self._charged = charged
        self._in_nova = in_nova
        self.doubtful = np.zeros(len(at), bool)

    @property
    def unknown(self) -> np.ndarray:
        """Which hosts are not known; bool, shape (hosts,)."""
        return ~self._known

    def learn(self, position: int, state: ProviderState) -> None:
        """Take over what was read of a host."""
        self._nodes.set_state(self._at[position], state)

    def can_judge(self, part: Part) -> bool:
        if part.kind is ConstraintKind.AMOUNT:
            return part.amounts[0][0] in CLASSES
        return part.kind not in {ConstraintKind.GROUP, ConstraintKind.HOST}

    def judge(self, part: Part, failed: FailedConstraints) -> None:
        """Note which hosts fail a part of a query; those that are not known fail nothing."""
        if not len(self._nodes):
            return
        if part.kind is ConstraintKind.AMOUNT:
            name, amount = part.amounts[0]
            refusals = Refusals(self._nodes, self._at, name, amount, self._charged)
            self.doubtful |= ~self._nodes.limits_known()[CLASSES.index(name), self._at] & ~refusals.mask
            failed.add(part.constraint, refusals.mask & self._known, refusals.reasons)
            return
        is_aggregate = part.parameter == "member_of"
        sets = self._nodes.aggregates if is_aggregate else self._nodes.traits
        suits, in_nova = np.ones(len(self._at), bool), np.full(len(self._at), is_aggregate)
        for _, element in part.gone:
            suits &= sets.suits(_test(element))[self._at]
            if is_aggregate:
                in_nova &= self._in_nova(_test(element))
        failed.add(part.constraint, ~suits & ~in_nova & self._known)
        failed.add(unsynchronized(part.constraint), ~suits & in_nova & self._known)


def _test(element: str) -> Callable[[frozenset[str]], bool]:
    any_of = frozenset(listed(element))
    if element.startswith("!"):
        return any_of.isdisjoint
    return lambda names: not any_of.isdisjoint(names)


class Refusals:
    """Which hosts refuse an amount of one resource class, and by which limit.

    Attributes:
        mask: Which hosts refuse it; bool, shape (hosts,).
    """

    def __init__(self, nodes: Nodes, at: np.ndarray, name: str, amount: int, charged: np.ndarray) -> None:
        number = CLASSES.index(name)
        self._name = name
        capacity, used = nodes.capacity[number][at], nodes.used[number][at] + charged * amount
        step, least, most = (
            limits[number][at] for limits in (nodes.step_size, nodes.min_unit, nodes.max_unit)
        )
        free = capacity - used
        self._most = np.minimum(capacity, most)
        self._most -= self._most % np.maximum(step, 1)
        self._limit = np.zeros(len(at), np.int8)
        self._value = np.zeros(len(at), np.int64)
        for limit, refuses, value in (
            (Limit.FREE, free < amount, free),
            (Limit.CAPACITY, capacity < amount, capacity),
            (Limit.STEP_SIZE, amount % np.maximum(step, 1) != 0, step),
            (Limit.MIN_UNIT, least > amount, least),
            (Limit.MAX_UNIT, most < amount, most),
            (Limit.ABSENT, capacity < 0, capacity),
        ):
            self._limit[refuses] = _LIMITS.index(limit) + 1
            self._value[refuses] = value[refuses]
        self.mask = self._limit > 0

    def reasons(self, positions: np.ndarray) -> list[Reason]:
        """Return by which limits hosts refuse it, that of most hosts first."""
        limits = self._limit[positions]
        found = [
            self._reason(limit, positions[limits == code])
            for code, limit in enumerate(_LIMITS, 1)
            if (limits == code).any()
        ]
        return sorted(found, key=lambda reason: -reason.hosts)

    def _reason(self, limit: Limit, positions: np.ndarray) -> Reason:
        values, hosts = self._value[positions], len(positions)
        least, most = max(0, int(values.min())), max(0, int(values.max()))
        if limit is Limit.ABSENT:
            return Reason(f"no {self._name}", hosts, limit)
        if limit is Limit.FREE:
            return Reason(f"at most {most} {self._name} free", hosts, limit, most)
        text = f"{self._name} {limit} {least}" + (f"-{most}" if most > least else "")
        if limit in {Limit.CAPACITY, Limit.MAX_UNIT}:  # the larger of both is no help
            most = max(0, int(self._most[positions].max()))
        return Reason(text, hosts, limit, most)


_LIMITS = tuple(Limit)


# -- in words ----------------------------------------------------------------------------------------------


def failed_words(constraint: Constraint, reasons: Sequence[Reason]) -> str:
    """Return what one host fails, such as 'lacks 2 VCPU: at most 1 VCPU free'."""
    return _phrase(constraint, with_reasons(constraint, reasons, 1), one=True, only=False)


def with_reasons(constraint: Constraint, reasons: Sequence[Reason], hosts: int) -> str:
    """Return a constraint with why hosts fail it; reasons that are not of all ``hosts`` have their number."""
    words = [
        each.text if each.hosts in {0, hosts} else f"{each.text} on {count_text(each.hosts, 'host')}"
        for each in reasons
    ]
    return constraint.words + (f": {', '.join(words)}" if words else "")


def _phrase(constraint: Constraint, words: str, *, one: bool, only: bool) -> str:
    alone = " only" if only else ""
    be = "is" if one else "are"
    match constraint.kind:
        case ConstraintKind.FILTER:
            return f"{be} rejected{alone} by {words}"
        case ConstraintKind.HOST | ConstraintKind.CELL:
            return f"{'suits but ' if one and only else 'suit but ' if only else ''}{be} not {words}"
        case ConstraintKind.IGNORED:
            return f"{'suits but ' if one and only else 'suit but ' if only else ''}{be} {words}"
        case ConstraintKind.SEVERAL:
            return f"{'fails' if one else 'fail'} {words}"
    if constraint.text.startswith("forbidden"):
        return f"{'has' if one else 'have'}{alone} {words}"
    return f"{'lacks' if one else 'lack'}{alone} {words}"


def failing_text(why: Why, failing: Failing) -> str:
    """Return what hosts fail, such as '31 hosts lack only required trait CUSTOM_GPU (flavor)'."""
    hosts = ("at least " if failing.cut else "") + count_text(failing.hosts, "host")
    return f"{hosts} {_failed(why.of(failing), failing)}"


def constraints_text(why: Why, failing: Failing) -> str:
    """Return what hosts fail, without their number."""
    return " and ".join(each.words for each in why.of(failing))


def _failed(constraints: Sequence[Constraint], failing: Failing) -> str:
    one = failing.hosts == 1
    if len(constraints) == 1:
        words = with_reasons(constraints[0], failing.first_reasons, failing.hosts)
        return _phrase(constraints[0], words, one=one, only=True)
    phrases: list[str] = []
    before = ""
    for constraint in sorted(constraints, key=lambda each: _phrase(each, "", one=one, only=False)):
        phrase = _phrase(constraint, "", one=one, only=False)
        phrases.append(constraint.words if phrase == before else phrase + constraint.words)
        before = phrase
    return " and ".join(phrases)


def instance_text(why: Why) -> str:
    """Return which instance of several has no host, or ""."""
    if why.instances <= 1:
        return ""
    placed = f"; {why.placed} found a host, which was released" if why.placed else ""
    return f"for instance {why.number} of {why.instances}{placed}"


def texts(why: Why, most: int | None = None) -> list[str]:
    """Return what hosts fail, a line for each set; refused claims are not among them."""
    failing = [each for each in why.failing if all(one.kind != ConstraintKind.CLAIM for one in why.of(each))]
    lines = [failing_text(why, each) for each in failing[:most]]
    if why.suitable:
        lines.insert(
            0, f"{count_text(why.suitable, 'host')} would be suitable now: the cloud has changed since"
        )
    return lines
