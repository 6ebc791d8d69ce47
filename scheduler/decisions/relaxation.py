"""Which constraint of a query left no allocation candidate: the query is sent again without it.

First the query as it was: what refused it may be gone. Then without each constraint alone, then, if none of
these gives a host, without each pair. A constraint is an amount of one resource class, one required or
forbidden trait, one ``member_of``, or ``in_tree``. Where an amount decides, the inventories of the hosts say
which limit of them refuses it.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
import re
import time
from typing import TypeVar
from urllib.parse import parse_qsl, urlencode

from scheduler.decisions.constraint_names import RequestNames
from scheduler.decisions.document import Relaxed
from scheduler.decisions.providers import OfferedHosts, PlacementQuestions
from scheduler.decisions.refusals import Stock, refusals
from scheduler.logs import count_text
from scheduler.placement.errors import PlacementError
from scheduler.placement.providers import Inventory

#: Maximum number of queries for one analysis, and their maximum total time in seconds.
MOST_QUESTIONS = 48
MOST_SECONDS = 30.0

#: Providers whose inventories are read for one analysis, those with most free first.
MOST_INVENTORIES = 64

#: Seconds after which an answer counts as slow: the analysis ends then.
SLOW = 5.0

#: Relaxations of a query that are kept, those with most hosts first.
MOST_KEPT = 5

_PARAMETER = re.compile(r"(resources|required|member_of|in_tree)(.*)|(root_required)()", re.DOTALL)

Pairs = tuple[tuple[str, str], ...]
T = TypeVar("T")


class ConstraintKind(StrEnum):
    """Kinds of constraints. ``DISABLED`` is the trait of computes whose services are disabled."""

    DISABLED = "disabled"
    AMOUNT = "amount"
    TRAIT = "trait"
    AGGREGATE = "aggregate"
    HOST = "host"
    ZONE = "availability zone"


@dataclass(frozen=True)
class Constraint:
    """One constraint of a query.

    Attributes:
        parameter: The name of its parameter, with the suffix of its group.
        value: Its value, or one element of a list.
        text: Its name for operators.
    """

    parameter: str
    value: str
    text: str
    kind: ConstraintKind

    @property
    def resource_class(self) -> str | None:
        """The class of an amount, otherwise None."""
        return self.value.partition(":")[0] if self.kind is ConstraintKind.AMOUNT else None


def relaxed(constraints: Sequence[Constraint], offer: OfferedHosts, limits: Sequence[str] = ()) -> Relaxed:
    """Return what is offered without some constraints, such as 'without required trait CUSTOM_GPU: 12 hosts'.

    Args:
        constraints: What was left out; empty: the query is that of the request.
        limits: Which limits of these hosts refuse an amount that was left out.
    """
    hosts = f"{'at least ' if offer.cut else ''}{count_text(len(offer.nodes), 'host')}"
    names = [each.text for each in constraints]
    if names:
        text = f"without {' and '.join(names)}: {hosts}" + (f" ({', '.join(limits)})" if limits else "")
    else:
        text = f"the same query, sent again, has {hosts}: the cloud has changed since"
    kinds = [str(each.kind) for each in constraints]
    return Relaxed(names, len(offer.nodes), offer.cut, list(limits), text, kinds)


def constraints_of(pairs: Pairs, names: RequestNames) -> list[Constraint]:
    """Return the constraints of a query that can be left out: traits and aggregates first, then amounts."""
    return sorted(_constraints(pairs, names), key=lambda each: each.resource_class is not None)


def _constraints(pairs: Pairs, names: RequestNames) -> Iterator[Constraint]:
    for parameter, value in pairs:
        match = _PARAMETER.fullmatch(parameter)
        if match is None:
            continue
        kind, suffix = match[1] or match[3], match[2] or ""
        group = f" of {names.group(suffix)}" if suffix else ""
        for part in _parts(kind, value):
            yield Constraint(
                parameter,
                part,
                _name(kind, part, names) + group,
                _kind(kind, part, names),
            )


def _parts(kind: str, value: str) -> list[str]:
    if kind in {"member_of", "in_tree"} or value.startswith("in:"):
        return [value]
    return value.split(",")


def _kind(kind: str, part: str, names: RequestNames) -> ConstraintKind:
    if kind == "resources":
        return ConstraintKind.AMOUNT
    if kind == "in_tree":
        return ConstraintKind.HOST
    if kind == "member_of":
        listed = part.removeprefix("in:").split(",")
        return ConstraintKind.ZONE if names.is_zone(listed) else ConstraintKind.AGGREGATE
    return ConstraintKind.DISABLED if part == "!COMPUTE_STATUS_DISABLED" else ConstraintKind.TRAIT


def _name(kind: str, part: str, names: RequestNames) -> str:
    if kind == "resources":
        name, _, amount = part.partition(":")
        return f"{amount} {name}"
    if kind == "in_tree":
        return names.host(part)
    forbidden = part.startswith("!")
    listed = part.removeprefix("!").removeprefix("in:").split(",")
    if kind == "member_of":
        return names.forbidden(listed) if forbidden else names.required(listed)
    return f"{'forbidden' if forbidden else 'required'} trait {' or '.join(listed)}"


def without(pairs: Pairs, constraints: Iterable[Constraint]) -> Pairs | None:
    """Return the query without some constraints; None if a group of it would then have no resource."""
    gone = {(each.parameter, each.value) for each in constraints}
    kept = []
    for parameter, value in pairs:
        match = _PARAMETER.fullmatch(parameter)
        if match is None:
            kept.append((parameter, value))
            continue
        parts = [part for part in _parts(match[1] or match[3], value) if (parameter, part) not in gone]
        if parts:
            kept.append((parameter, ",".join(parts)))
        elif match[1] == "resources":
            return None
    return tuple(kept)


class _Budget:
    """The queries that an analysis may still send."""

    def __init__(self, clock: Callable[[], float], questions: int) -> None:
        self._clock = clock
        self._end = clock() + MOST_SECONDS
        self._left = questions

    def send(self, question: Callable[[str], T], argument: str) -> T | None:
        """Send a query; return None if no more may be sent."""
        began = self._clock()
        if not self._left or began >= self._end:
            return None
        self._left -= 1
        found = question(argument)
        if self._clock() - began > SLOW:
            self._left = 0
        return found


class RelaxationSearch:
    """Looks for relaxations of one query, within bounds."""

    def __init__(self, questions: PlacementQuestions, clock: Callable[[], float] = time.monotonic) -> None:
        self._questions = questions
        self._clock = clock

    def find(
        self,
        querystring: str,
        names: RequestNames,
        kept: Collection[ConstraintKind] = (),
    ) -> list[Relaxed]:
        """Return the relaxations that give hosts: single constraints, else pairs; most hosts first.

        Args:
            querystring: The query, for which Placement has offered no host.
            kept: Kinds of constraints that are not left out.

        Raises:
            PlacementError: Placement gave no answer.
        """
        pairs = tuple(parse_qsl(querystring, keep_blank_values=True))
        budget = _Budget(self._clock, MOST_QUESTIONS)
        again = budget.send(self._questions.offer, querystring)
        if again is not None and again.nodes:
            return [relaxed((), again)]
        constraints = [each for each in constraints_of(pairs, names) if each.kind not in kept]
        for size in (1, 2):
            found = list(self._offers(pairs, combinations(constraints, size), budget))
            if found:
                limits = _Limits(self._questions, self._clock)
                best = sorted(found, key=lambda pair: -len(pair[1].nodes))[:MOST_KEPT]
                return [limits.explain(*pair) for pair in best]
        return []

    def _offers(
        self, pairs: Pairs, sets: Iterable[tuple[Constraint, ...]], budget: _Budget
    ) -> Iterator[tuple[tuple[Constraint, ...], OfferedHosts]]:
        """Yield the offers without each set of constraints, if there is any host."""
        for constraints in sets:
            relaxed = without(pairs, constraints)
            if relaxed is None:
                continue
            offer = budget.send(self._questions.offer, urlencode(relaxed))
            if offer is None:
                return
            if offer.nodes:
                amounts = any(each.resource_class for each in constraints)
                yield constraints, offer if amounts else OfferedHosts(offer.nodes, offer.cut)


class _Limits:
    """Finds the limits of hosts that refuse an amount. Inventories are read once."""

    def __init__(self, questions: PlacementQuestions, clock: Callable[[], float]) -> None:
        self._questions = questions
        self._budget = _Budget(clock, MOST_INVENTORIES)
        self._known: dict[str, Mapping[str, Inventory] | None] = {}

    def explain(self, constraints: tuple[Constraint, ...], offer: OfferedHosts) -> Relaxed:
        """Return a relaxation with the limits that refuse its amounts."""
        limits = [
            text
            for each in constraints
            if each.resource_class is not None
            for text in self._of(each.resource_class, int(each.value.partition(":")[2]), offer)
        ]
        return relaxed(constraints, offer, limits)

    def _of(self, name: str, amount: int, offer: OfferedHosts) -> Iterator[str]:
        having = {uuid: each for uuid, each in offer.providers.items() if name in each.resources}
        trees: defaultdict[str, list[Stock]] = defaultdict(list)
        for uuid in sorted(having, key=lambda uuid: -having[uuid].free(name)):
            if inventory := self._inventory(uuid, name):
                used = having[uuid].resources[name].used
                trees[having[uuid].root_provider_uuid].append(Stock(inventory, used))
        roots = {each.root_provider_uuid for each in having.values()}
        left = len(roots - trees.keys())
        if roots <= offer.nodes:
            trees |= {node: [] for node in offer.nodes - roots}
        # a resource may be shared by a provider that is no host
        noun = "host" if roots <= offer.nodes else "provider"
        yield from refusals(name, amount, trees.values(), noun)
        if left:
            yield f"{count_text(left, noun)} not read"

    def _inventory(self, uuid: str, name: str) -> Inventory | None:
        if uuid not in self._known:
            try:
                self._known[uuid] = self._budget.send(self._questions.inventories, uuid)
            except PlacementError:
                self._known[uuid] = None
        return (self._known[uuid] or {}).get(name)
