"""The constraints of a query of Placement, and the query without one of them.

A constraint is an amount of one resource class, one required or forbidden trait, one ``member_of`` or the
named host, each of the unnumbered group; or a numbered group as a whole. Equal numbered groups, and those of
one PCI alias, are one constraint: a host that lacks the device lacks it for all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
import re
from urllib.parse import urlencode

from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.constraint_names import RequestNames
from scheduler.decisions.document import Constraint
from scheduler.request.query import Query

_PARAMETER = re.compile(r"(resources|required|member_of|in_tree)(.*)|(root_required)()", re.DOTALL)

DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"
"""The trait that a compute sets in Placement when its service is disabled; each query forbids it."""

STALE = "enabled in nova, but its resource provider has trait COMPUTE_STATUS_DISABLED"
"""Why a host counts as disabled whose service is enabled."""


@dataclass(frozen=True)
class Part:
    """One constraint of a query.

    Attributes:
        constraint: What the document says of it.
        gone: The parts of the query that are it, as (parameter, value or one element of a list).
        amounts: What it requests, by resource class.
    """

    constraint: Constraint
    gone: frozenset[tuple[str, str]]
    amounts: tuple[tuple[str, int], ...] = ()

    @property
    def kind(self) -> ConstraintKind:
        return ConstraintKind(self.constraint.kind)

    @property
    def parameter(self) -> str:
        """The parameter of a constraint of the unnumbered group."""
        return next(iter(self.gone))[0]

    @property
    def value(self) -> str:
        return next(iter(self.gone))[1]


#: Of hosts that a plan empties or takes as lost, which is no reason to name if there are others.
LEFT_OUT = Constraint("left out by the plan", ConstraintKind.IGNORED)

MORE_THAN_ONE = Constraint("more than one constraint of the query", ConstraintKind.SEVERAL)
ONE_OR_MORE = Constraint("one or more constraints of the query", ConstraintKind.SEVERAL)
UNKNOWN = Constraint("something that is not known", ConstraintKind.SEVERAL)


def disabled_constraint() -> Constraint:
    return Constraint("an enabled compute service", ConstraintKind.DISABLED)


def unsynchronized(constraint: Constraint) -> Constraint:
    """Return what hosts fail that nova has in an aggregate, or outside of it, and Placement has not."""
    text = f"the same membership in Placement's aggregates as in nova's ({constraint.text})"
    return Constraint(text, ConstraintKind.SYNCHRONIZED)


def parts_of(query: Query, names: RequestNames) -> list[Part]:
    """Return the constraints of a query, numbered groups last."""
    groups: dict[str, list[tuple[str, str]]] = {}
    parts: dict[str, Part] = {}
    for parameter, value in query.params:
        match = _PARAMETER.fullmatch(parameter)
        if match is None:
            continue
        kind, suffix = match[1] or match[3], match[2] or ""
        if suffix:
            groups.setdefault(suffix, []).append((parameter, value))
            continue
        for element in _elements(kind, value):
            part = _part(kind, parameter, element, names)
            known = parts.get(part.constraint.text)
            parts[part.constraint.text] = Part(
                part.constraint, part.gone | (known.gone if known else frozenset()), part.amounts
            )
    return [*parts.values(), *_groups(groups, names)]


def _part(kind: str, parameter: str, element: str, names: RequestNames) -> Part:
    amounts: tuple[tuple[str, int], ...] = ()
    if kind == "resources":
        amounts = (_amount(element),)
        found = Constraint(_amount_text(element), ConstraintKind.AMOUNT)
    elif kind == "in_tree":
        found = Constraint(names.host(element), ConstraintKind.HOST)
    elif kind == "member_of":
        found = _aggregates(element, names)
    elif element == f"!{DISABLED_TRAIT}":
        found = disabled_constraint()
    else:
        found = Constraint(_trait_text(element), ConstraintKind.TRAIT, names.source_of_trait(element))
    return Part(found, frozenset({(parameter, element)}), amounts)


def _aggregates(element: str, names: RequestNames) -> Constraint:
    uuids = listed(element)
    if element.startswith("!"):
        return Constraint(names.forbidden(uuids), ConstraintKind.AGGREGATE)
    kind = ConstraintKind.ZONE if names.is_zone(uuids) else ConstraintKind.AGGREGATE
    return Constraint(names.required(uuids), kind)


def _groups(groups: dict[str, list[tuple[str, str]]], names: RequestNames) -> Iterator[Part]:
    """Yield the numbered groups, those that are equal or of one PCI alias together."""
    together: dict[object, list[str]] = {}
    for suffix, pairs in groups.items():
        alias = names.pci_alias(suffix)
        equal = tuple((parameter.removesuffix(suffix), value) for parameter, value in pairs)
        together.setdefault(alias or equal, []).append(suffix)
    for suffixes in together.values():
        pairs = [pair for suffix in suffixes for pair in groups[suffix]]
        first = groups[suffixes[0]]
        amounts = [
            _amount(element)
            for parameter, value in first
            if parameter.startswith("resources")
            for element in value.split(",")
        ]
        text, source = names.group(suffixes)
        wanted = ", ".join(_group_words(first))
        yield Part(
            Constraint(f"{text} ({wanted})" if wanted else text, ConstraintKind.GROUP, source),
            frozenset(pairs),
            tuple(amounts),
        )


def _group_words(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    for parameter, value in sorted(pairs, key=lambda pair: not pair[0].startswith("resources")):
        if parameter.startswith("resources"):
            yield from map(_amount_text, value.split(","))
        elif parameter.startswith("required"):
            yield from map(_trait_text, _elements("required", value))


def _elements(kind: str, value: str) -> list[str]:
    if kind in {"member_of", "in_tree"} or value.startswith("in:"):
        return [value]
    return value.split(",")


def _amount(element: str) -> tuple[str, int]:
    name, _, amount = element.partition(":")
    return name, int(amount)


def _amount_text(element: str) -> str:
    name, _, amount = element.partition(":")
    return f"{amount} {name}"


def _trait_text(element: str) -> str:
    return f"{'forbidden' if element.startswith('!') else 'required'} trait {' or '.join(listed(element))}"


def listed(value: str) -> list[str]:
    """Return the names in a value such as ``!in:A,B``."""
    return value.removeprefix("!").removeprefix("in:").split(",")


def without(query: Query, part: Part, host: str | None = None) -> str | None:
    """Return the query without a constraint, as text; None if its unnumbered group would lack resources.

    Args:
        host: The one compute node that it is for; None: all, also if the query names one.
    """
    kept: list[tuple[str, str]] = [] if host is None else [("in_tree", host)]
    suffixes = {parameter.removeprefix("resources") for parameter, _ in part.gone} - {""}
    for parameter, value in query.params:
        match = _PARAMETER.fullmatch(parameter)
        if parameter == "in_tree" or (
            parameter == "same_subtree" and suffixes.intersection(value.split(","))
        ):
            continue
        if match is None or match[2]:
            if (parameter, value) not in part.gone:
                kept.append((parameter, value))
            continue
        elements = _elements(match[1] or match[3], value)
        left = [one for one in elements if (parameter, one) not in part.gone]
        if not left and parameter == "resources":
            return None
        if left:
            kept.append((parameter, ",".join(left)))
    return urlencode(kept)
