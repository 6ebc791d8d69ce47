"""Stages and hosts of a document in the order of reading, for text and page."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec import to_builtins

from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.document import EXCLUDED, REFUSED, REJECTED, Decision, Flavor
from scheduler.decisions.why_not import failing_text
from scheduler.filters.causes import group

#: The name of the first stage, by the source of the candidates.
SOURCES = {
    "placement": "Placement",
    "coalesced": "Placement, one answer for several requests",
    "mirror": "Mirror of Placement",
    "table": "Host table",
    "held": "Earlier delivery",
}

#: The units of the amounts of a flavor; those that most flavors have none of are left out then.
AMOUNTS = {
    "vcpus": "VCPU",
    "memory_mb": "MiB",
    "root_gb": "GiB root disk",
    "ephemeral_gb": "GiB ephemeral disk",
    "swap": "MiB swap",
}
RARE = ("ephemeral_gb", "swap")

#: Names of a list that are shown.
NAMED = 3

NOT_RUN, NOT_APPLICABLE, ACCEPTED = "not run", "does not apply", "passed"


class Cause(NamedTuple):
    """Why hosts did not pass a stage, their number, and some names; number 0: it concerns no single host."""

    reason: str
    number: int = 0
    hosts: Sequence[str] = ()


class Stage(NamedTuple):
    """How many hosts entered a stage and left it; ``start`` of the first stage is None.

    Attributes:
        kind: ``candidates``, ``cells``, ``request``, ``filter`` or ``claims``.
        start: Hosts before; claims made.
        end: Hosts after; claims granted.
        causes: Why others did not pass, the cause of most hosts first.
        instance: The instance, of a filter.
        unexplained: Hosts without a computed reason.
    """

    kind: str
    name: str
    start: int | None
    end: int
    causes: Sequence[Cause] = ()
    instance: str = ""
    unexplained: int = 0


class Host(NamedTuple):
    """The outcome of a host; ``weights`` are the parts of its total, for one of the best."""

    host: str
    node: str
    cell: str
    zone: str
    outcome: str
    filter: str
    reason: str
    step: int | None
    total: float | None
    weights: Sequence[tuple[str, float]]

    @property
    def why(self) -> str:
        """The filter or the claim that rejected it, and the reason."""
        if self.filter or self.outcome == REFUSED:
            return ": ".join(filter(None, (self.filter, self.reason)))
        return self.reason


class FilterVerdict(NamedTuple):
    """The result of a filter on a host, such as ``passed``, and why."""

    filter: str
    verdict: str
    reason: str = ""
    decisive: bool = False


# -- the decision as a whole -----------------------------------------------------------------------------


def result(decision: Decision) -> str:
    if decision.error:
        return f"no host ({decision.error.kind})"
    return f"scheduled to {first([one.host.host for one in decision.chosen], NAMED)}"


def flavor(of: Flavor) -> str:
    values = to_builtins(of)
    amounts = [
        f"{values[name]} {unit}"
        for name, unit in AMOUNTS.items()
        if values[name] or (values[name] == 0 and name not in RARE)
    ]
    specs = ", ".join(f"{key}={value}" for key, value in sorted((values["extra_specs"] or {}).items()))
    inside = "; ".join(filter(None, (", ".join(amounts), specs)))
    return f"{values['name']} ({inside})" if inside else str(values["name"])


def first(names: Sequence[str], most: int, count: int | None = None) -> str:
    """Return the first of some names, and how many more there are."""
    left = (len(names) if count is None else count) - most
    return ", ".join(names[:most]) + (f" and {left} more" if left > 0 else "")


# -- stages ----------------------------------------------------------------------------------------------


def funnel(decision: Decision) -> Iterator[Stage]:
    """Yield the stages of a decision, without filters that no host has reached."""
    found = decision.candidates
    if found.source:
        yield Stage(
            "candidates",
            SOURCES.get(found.source, found.source),
            None,
            found.hosts,
            list(_absent(decision)),
        )
    named = defaultdict[int, list[str]](list)
    for host, verdict in zip(decision.hosts.host, decision.hosts.verdict, strict=True):
        named[verdict].append(host)
    if found.known is not None and found.allowed is not None:
        unknown = Cause("unknown, or in a cell that is disabled, unreadable or not requested")
        yield Stage(
            "cells",
            "Known in cells",
            found.hosts,
            found.known,
            [unknown] if found.known < found.hosts else [],
        )
        excluded = [
            Cause(each.reason, each.count, named[code])
            for code, each in enumerate(decision.verdicts)
            if each.outcome == EXCLUDED
        ]
        yield Stage("request", "Allowed by request", found.known, found.allowed, excluded)
    yield from _filters(decision, named)
    if decision.claims:
        yield _claims(decision)


def _absent(decision: Decision) -> Iterator[Cause]:
    """Yield why hosts are not among the candidates, or why none is left."""
    if decision.candidates.reason:
        yield Cause(decision.candidates.reason)
    if decision.why:
        why, found = decision.why, decision.candidates.hosts
        for each in why.failing:
            if found and all(one.kind == ConstraintKind.FILTER for one in why.of(each)):
                continue  # the stages of the filters have them
            yield Cause(failing_text(why, each), 0, each.names)
        yield from map(Cause, why.notes)
        if why.incomplete:
            yield Cause("Placement was not asked yet which constraint hosts fail; some are not known")


def _filters(decision: Decision, named: defaultdict[int, list[str]]) -> Iterator[Stage]:
    reasons = defaultdict[int | None, list[tuple[str, str]]](list)
    for code, each in enumerate(decision.verdicts):
        if each.reason:
            hosts = named[code] + [""] * (each.count - len(named[code]))
            reasons[each.step] += [(host, each.reason) for host in hosts]
    for number, step in enumerate(decision.filters):
        if step.start:
            causes = [
                Cause(each.reason, each.count, list(filter(None, each.names)))
                for each in group(reasons[number])
            ]
            unexplained = step.start - step.end - len(reasons[number])
            yield Stage("filter", step.filter, step.start, step.end, causes, step.instance, unexplained)


def _claims(decision: Decision) -> Stage:
    refused = decision.refused_claims
    granted = sum(event.granted for event in chain.from_iterable(decision.claims.values()))
    causes = [
        Cause(each.reason, each.count, list(dict.fromkeys(each.names)))
        for each in group((event.host, event.cause) for event in refused)
    ]
    return Stage("claims", "Claims in Placement", granted + len(refused), granted, causes)


# -- hosts -----------------------------------------------------------------------------------------------


def hosts(decision: Decision) -> Iterator[Host]:
    """Yield the hosts that a document names, the most important first."""
    named, best = decision.hosts, decision.best
    place_of = {number: place for place, number in enumerate(best.host)}
    for number, (host, node, cell, zone, code) in enumerate(
        zip(named.host, named.node, named.cell, named.zone, named.verdict, strict=True)
    ):
        verdict, place = decision.verdicts[code], place_of.get(number)
        yield Host(
            host,
            node,
            named.cells[cell],
            named.zones[zone],
            verdict.outcome,
            "" if verdict.step is None else decision.filters[verdict.step].filter,
            verdict.reason,
            verdict.step,
            None if place is None else best.total[place],
            () if place is None else [(each.weigher, each.added(place)) for each in best.weights],
        )


def hosts_total(decision: Decision) -> int:
    """Return how many hosts were offered or are named, whichever is more."""
    return max(len(decision.hosts.host), decision.candidates.known or 0)


def verdicts(decision: Decision, host: Host) -> Iterator[FilterVerdict]:
    first = [step for step in decision.filters if step.instance == decision.filters[0].instance]
    before = host.outcome != EXCLUDED
    for step in first:
        if not before:
            why = "an earlier filter rejected the host" if host.filter else "the request excludes the host"
            yield FilterVerdict(step.filter, NOT_RUN, why)
        elif step.filter == host.filter:
            before = False
            yield FilterVerdict(step.filter, REJECTED, host.reason, decisive=True)
        else:
            yield FilterVerdict(step.filter, ACCEPTED if step.applies else NOT_APPLICABLE)
