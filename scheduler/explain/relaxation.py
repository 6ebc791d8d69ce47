"""Which constraint of a query left no allocation candidate: the query is asked again without it.

First each constraint alone, then, if none of these gives a host, each pair. A constraint is an amount of one
resource class, one required or forbidden trait, one ``member_of``, or ``in_tree``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
import re
import time
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec

from scheduler.placement import answer

#: Questions for one query, and seconds that they may take together.
MOST_QUESTIONS = 48
MOST_SECONDS = 30.0

#: Seconds of one answer after which Placement counts as slow: nothing more is asked for this query.
SLOW = 5.0

#: Relaxations of a query that are kept, those with most hosts first.
MOST_KEPT = 5

_PARAMETER = re.compile(r"(resources|required|member_of|in_tree)(.*)|(root_required)()", re.DOTALL)

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Constraint:
    """One constraint of a query.

    Attributes:
        parameter: The name of its parameter, with the suffix of its group.
        value: Its value, or the part of a list that it is.
        text: What it is called.
        resource_class: The class of an amount, otherwise None.
    """

    parameter: str
    value: str
    text: str
    resource_class: str | None = None


@dataclass(frozen=True)
class Offer:
    """What Placement offers for a query.

    Attributes:
        hosts: The number of different compute nodes.
        cut: Whether there may be more, beyond the limit of the query.
        free: The largest free amount that one of the providers has, by resource class.
    """

    hosts: int
    cut: bool = False
    free: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Relaxation:
    """What would be offered without some constraints.

    Attributes:
        constraints: What was left out.
        offer: What Placement offers then.
    """

    constraints: tuple[Constraint, ...]
    offer: Offer

    @property
    def text(self) -> str:
        """The relaxation in one phrase, such as 'without required trait CUSTOM_GPU: 12 hosts'."""
        names = " and ".join(each.text for each in self.constraints)
        hosts = f"{'at least ' if self.offer.cut else ''}{self.offer.hosts} host"
        hosts += "" if self.offer.hosts == 1 else "s"
        free = [
            f"at most {self.offer.free[each.resource_class]} {each.resource_class} are free there"
            for each in self.constraints
            if each.resource_class is not None and each.resource_class in self.offer.free
        ]
        return f"without {names}: {hosts}" + (f" ({', '.join(free)})" if free else "")

    def values(self) -> dict[str, Any]:
        """Return the relaxation as values that JSON has."""
        return {
            "without": [each.text for each in self.constraints],
            "hosts": self.offer.hosts,
            "cut": self.offer.cut,
            "text": self.text,
        }


Ask = Callable[[str], Offer]
"""Asks Placement for the candidates of a query string; raises PlacementError if it gives no answer."""


def constraints_of(pairs: Pairs) -> list[Constraint]:
    """Return what can be left out of a query: traits and aggregates first, then amounts."""
    return sorted(_constraints(pairs), key=lambda each: each.resource_class is not None)


def _constraints(pairs: Pairs) -> Iterator[Constraint]:
    for parameter, value in pairs:
        match = _PARAMETER.fullmatch(parameter)
        if match is None:
            continue
        kind, suffix = match[1] or match[3], match[2] or ""
        group = f" of group {suffix}" if suffix else ""
        for part in _parts(kind, value):
            yield Constraint(
                parameter,
                part,
                _name(kind, part) + group,
                part.partition(":")[0] if kind == "resources" else None,
            )


def _parts(kind: str, value: str) -> list[str]:
    if kind in {"member_of", "in_tree"} or value.startswith("in:"):
        return [value]
    return value.split(",")


def _name(kind: str, part: str) -> str:
    if kind == "resources":
        name, _, amount = part.partition(":")
        return f"{amount} {name}"
    if kind == "in_tree":
        return f"the requested host {part}"
    forbidden = part.startswith("!")
    names = part.removeprefix("!").removeprefix("in:").replace(",", " or ")
    thing = "aggregate" if kind == "member_of" else "trait"
    return f"{'forbidden' if forbidden else 'required'} {thing} {names}"


def without(pairs: Pairs, constraints: Iterable[Constraint]) -> Pairs | None:
    """Return the query without some constraints; None if a group of it would ask for no resource then."""
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


class _Inventory(msgspec.Struct):
    capacity: int = 0
    used: int = 0


class _Summary(msgspec.Struct):
    resources: dict[str, _Inventory]


class _Body(msgspec.Struct):
    provider_summaries: dict[str, _Summary]


_body = msgspec.json.Decoder(_Body)


def read_offer(body: bytes, limit: int | None) -> Offer:
    """Return what a response of allocation candidates offers.

    Args:
        body: The response.
        limit: The limit of the query, or None.

    Raises:
        msgspec.DecodeError: It is no such response.
    """
    found = answer.parse(body, limit)
    if not found.by_root:
        return Offer(0)
    free: dict[str, int] = {}
    for summary in _body.decode(body).provider_summaries.values():
        for name, inventory in summary.resources.items():
            free[name] = max(free.get(name, 0), inventory.capacity - inventory.used)
    return Offer(len(found.by_root), found.truncated, free)


class RelaxationSearch:
    """Looks for relaxations of one query, within bounds."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock

    def find(self, querystring: str) -> list[Relaxation]:
        """Return what helps: single constraints, else pairs; those with most hosts first.

        Raises:
            PlacementError: Placement gave no answer.
        """
        pairs = tuple(parse_qsl(querystring, keep_blank_values=True))
        singles = [(each,) for each in constraints_of(pairs)]
        end = self._clock() + MOST_SECONDS
        questions = MOST_QUESTIONS
        for sets in (singles, combinations(constraints_of(pairs), 2)):
            found: list[Relaxation] = []
            for constraints in sets:
                relaxed = without(pairs, constraints)
                if relaxed is None:
                    continue
                began = self._clock()
                if not questions or began >= end:
                    return _best(found)
                questions -= 1
                offer = self._ask(urlencode(relaxed))
                if offer.hosts:
                    found.append(Relaxation(tuple(constraints), offer))
                if self._clock() - began > SLOW:
                    return _best(found)
            if found:
                return _best(found)
        return []


def _best(found: Sequence[Relaxation]) -> list[Relaxation]:
    return sorted(found, key=lambda each: -each.offer.hosts)[:MOST_KEPT]
