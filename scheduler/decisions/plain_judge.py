"""Which hosts fail a constraint of a query, by what the mirror has of them: no question to Placement."""

from collections.abc import Callable

import numpy as np

from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.constraints import Part, listed, unsynchronized
from scheduler.decisions.document import Limit, Reason
from scheduler.decisions.failed_constraints import FailedConstraints
from scheduler.placement.mirror import Nodes
from scheduler.placement.plain_query import CLASSES
from scheduler.placement.providers import ProviderState

Test = Callable[[frozenset[str]], bool]


class PlainJudge:
    """Judges compute nodes by what the mirror has of them: traits, aggregates, amounts and their limits.

    Attributes:
        doubtful: Which hosts may refuse an amount by unit limits that are not known; bool, shape (hosts,).
    """

    def __init__(
        self, nodes: Nodes, at: np.ndarray, charged: np.ndarray, in_nova: Callable[[Test], np.ndarray]
    ) -> None:
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


def _test(element: str) -> Test:
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
