"""The constraints of a query by the names that operators know, and the query without one of them.

A constraint is an amount of one resource class, one required or forbidden trait, one ``member_of`` or the
named host, each of the unnumbered group; or a numbered group as a whole. Equal numbered groups, and those of
one PCI alias, are one constraint: a host that lacks the device lacks it for all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
import re
from typing import Any
from urllib.parse import urlencode

from scheduler import objects
from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.document import Constraint
from scheduler.hosts.aggregates import Aggregates, HostAggregate
from scheduler.request import resource_request
from scheduler.request.prefilters.aggregates import isolating_traits, names_tenant
from scheduler.request.query import Query
from scheduler.request.reading import read
from scheduler.request.targets import named_target

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
ENABLED = Constraint("an enabled compute service", ConstraintKind.DISABLED)


def unsynchronized(constraint: Constraint) -> Constraint:
    """Return what hosts fail that nova has in an aggregate, or outside of it, and Placement has not."""
    text = f"the same membership in Placement's aggregates as in nova's ({constraint.text})"
    return Constraint(text, ConstraintKind.SYNCHRONIZED)


class RequestNames:
    """The names of one request. Deleted aggregates are named by UUID."""

    def __init__(self, spec: objects.RequestSpec, aggregates: Aggregates) -> None:
        self._spec = spec
        self._extra_specs = read(read(spec, "flavor"), "extra_specs", None) or {}
        self._aggregates = {each.uuid: each for each in aggregates}

    def host(self, uuid: str) -> str:
        """Return the forced host, or the requested destination."""
        target = named_target(self._spec)
        forced = read(self._spec, "force_hosts") or read(self._spec, "force_nodes")
        host, node = (target.host, target.node) if target else (None, None)
        name = host or node or uuid
        if host and node and host.partition(".")[0] != node.partition(".")[0]:  # one of several, as of ironic
            name = f"{host}, node {node}"
        return f"the {'forced host' if forced else 'requested destination'} {name}"

    def aggregates(self, element: str) -> Constraint:
        """Return the zone, the project or the names of aggregates; isolated ones have the missing traits."""
        zone, project = read(self._spec, "availability_zone"), read(self._spec, "project_id")
        uuids = listed(element)
        if element.startswith("!"):
            isolated = " or ".join(map(self._isolated, uuids))
            return Constraint(f"forbidden aggregate {isolated}", ConstraintKind.AGGREGATE)
        known = [self._aggregates[uuid] for uuid in uuids if uuid in self._aggregates]
        if zone and known and all(each.availability_zone == zone for each in known):
            return Constraint(f"availability zone {zone}", ConstraintKind.ZONE)
        names = " or ".join(map(self._name, uuids))
        of_project = known and all(names_tenant(each.metadata, project) for each in known)
        text = f"required aggregate {names}" + (f" of project {project}" if of_project else "")
        return Constraint(text, ConstraintKind.AGGREGATE)

    def group(self, suffixes: Sequence[str]) -> tuple[str, str]:
        """Return the name of equal numbered groups, and where they come from."""
        if alias := self.pci_alias(suffixes[0]):
            return f"PCI alias {alias}", "flavor"
        names = ", ".join(suffix.lstrip("_") for suffix in suffixes)
        noun = "group" if len(suffixes) == 1 else "groups"
        if any(f"resources{suffixes[0]}" in key for key in self._extra_specs):
            return f"{noun} {names}", "flavor"
        return f"{noun} {names}", "port or device profile"

    def pci_alias(self, suffix: str) -> str | None:
        """Return the PCI alias of a group; None for another group."""
        for each in read(read(self._spec, "pci_requests"), "requests", ()):
            alias = read(each, "alias_name")
            # each device of a PCI request has a group: REQUEST_ID-NUMBER
            if alias and suffix.lstrip("_").rpartition("-")[0] == read(each, "request_id"):
                return str(alias)
        return None

    def source_of_trait(self, element: str) -> str:
        """Return where a trait comes from, as the query names it."""
        names = element.removeprefix("!").removeprefix("in:").split(",")
        ends = tuple(f":{name}" for name in names)
        if any(key.startswith("trait") and key.endswith(ends) for key in self._extra_specs):
            return "flavor"
        image: Any = read(read(self._spec, "image"), "properties")
        if set(names) & set(read(image, "traits_required", None) or ()):
            return "image"
        return "flavor or image" if element.startswith(("COMPUTE_", "HW_")) else ""

    def _isolated(self, uuid: str) -> str:
        known: HostAggregate | None = self._aggregates.get(uuid)
        if known is None:
            return uuid
        wanted = resource_request.make(self._spec).required_traits()
        traits = sorted(isolating_traits(known.metadata) - wanted)
        why = f" (isolated: for requests with trait {' and '.join(traits)})" if traits else ""
        return known.name + why

    def _name(self, uuid: str) -> str:
        known = self._aggregates.get(uuid)
        return known.name if known else uuid


def parts_of(query: Query, names: RequestNames) -> list[Part]:
    """Return the constraints of a query, numbered groups last."""
    groups: dict[str, list[tuple[str, str]]] = {}
    parts: dict[str, Part] = {}
    for parameter, value in query.params:
        match = _PARAMETER.fullmatch(parameter)
        if match is None:
            continue
        if suffix := match[2]:
            groups.setdefault(suffix, []).append((parameter, value))
            continue
        for element in _elements(parameter, value):
            part = _part(parameter, element, names)
            if known := parts.get(part.constraint.text):
                part = replace(part, gone=part.gone | known.gone)
            parts[part.constraint.text] = part
    return [*parts.values(), *_groups(groups, names)]


def _part(parameter: str, element: str, names: RequestNames) -> Part:
    amounts: tuple[tuple[str, int], ...] = ()
    if parameter == "resources":
        amounts = (_amount(element),)
        found = Constraint(_amount_text(element), ConstraintKind.AMOUNT)
    elif parameter == "in_tree":
        found = Constraint(names.host(element), ConstraintKind.HOST)
    elif parameter == "member_of":
        found = names.aggregates(element)
    elif element == f"!{DISABLED_TRAIT}":
        found = ENABLED
    else:
        found = Constraint(_trait_text(element), ConstraintKind.TRAIT, names.source_of_trait(element))
    return Part(found, frozenset({(parameter, element)}), amounts)


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


def _elements(parameter: str, value: str) -> list[str]:
    """Return the elements of a list of the unnumbered group, otherwise the value."""
    match = _PARAMETER.fullmatch(parameter)
    is_whole = match is None or match[2] or match[1] in {"member_of", "in_tree"} or value.startswith("in:")
    return [value] if is_whole else value.split(",")


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
        if parameter == "in_tree" or (
            parameter == "same_subtree" and suffixes.intersection(value.split(","))
        ):
            continue
        left = [one for one in _elements(parameter, value) if (parameter, one) not in part.gone]
        if left:
            kept.append((parameter, ",".join(left)))
        elif parameter == "resources":
            return None
    return urlencode(kept)
