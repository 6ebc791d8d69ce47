"""Stages and hosts of a document in the order of reading, for text and page."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.document import EXCLUDED, REFUSED, REJECTED, Decision, Failing, Out, RequestedFlavor
from scheduler.decisions.words import NAMED, group, reasons_text

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

NOT_RUN, NOT_APPLICABLE, ACCEPTED = "not run", "does not apply", "passed"


class Stage(NamedTuple):
    """How many hosts entered a stage and left it; ``start`` of the first stage is None.

    Attributes:
        kind: ``candidates``, ``cells``, ``request``, ``filter`` or ``claims``.
        start: Hosts before; claims made.
        end: Hosts after; claims granted.
        out: Why others did not pass; 0 hosts: it concerns no single host.
        instance: The instance, of a filter.
    """

    kind: str
    name: str
    start: int | None
    end: int
    out: Sequence[Out] = ()
    instance: str = ""

    @property
    def entered(self) -> int:
        return self.end if self.start is None else self.start


class Host(NamedTuple):
    """The outcome of a host.

    Attributes:
        filter: The filter that rejected it, or "".
        reason: Why the filter, Placement or the request rejected it, as far as the document says it.
        weights: The parts of its total, for one of the best.
    """

    host: str
    node: str
    cell: str
    zone: str
    outcome: str
    filter: str
    reason: str
    total: float | None
    weights: Sequence[tuple[str, float]]


# -- the decision as a whole -----------------------------------------------------------------------------


def result(decision: Decision) -> str:
    if decision.error:
        return f"no host ({decision.error.kind})"
    return f"scheduled to {first([one.host.host for one in decision.chosen], NAMED)}"


def flavor(of: RequestedFlavor) -> str:
    amounts = [
        f"{value} {unit}"
        for name, unit in AMOUNTS.items()
        if (value := getattr(of, name)) or (value == 0 and name not in RARE)
    ]
    specs = ", ".join(f"{key}={value}" for key, value in sorted((of.extra_specs or {}).items()))
    inside = "; ".join(filter(None, (", ".join(amounts), specs)))
    return f"{of.name} ({inside})" if inside else str(of.name)


def first(names: Sequence[str], most: int) -> str:
    """Return the first of some names, and how many more there are."""
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left} more" if left > 0 else "")


# -- stages ----------------------------------------------------------------------------------------------


def funnel(decision: Decision) -> Iterator[Stage]:
    """Yield the stages of a decision, without filters that no host has reached."""
    found = decision.candidates
    if found.source:
        reasons = [found.reason] if found.reason else []
        if decision.why:
            reasons += decision.why.notes
            if decision.why.incomplete:
                reasons.append("Placement was not asked yet which constraint hosts fail; some are not known")
        name = SOURCES.get(found.source, found.source)
        yield Stage("candidates", name, None, found.hosts, [Out(each, 0, []) for each in reasons])
    if found.known is not None and found.allowed is not None:
        unknown = Out("unknown, or in a cell that is disabled, unreadable or not requested", 0, [])
        missing = [unknown] if found.known < found.hosts else []
        yield Stage("cells", "Known in cells", found.hosts, found.known, missing)
        yield Stage("request", "Allowed by request", found.known, found.allowed, found.excluded)
    for step in decision.filters:
        if step.start:
            yield Stage("filter", step.filter, step.start, step.end, step.out, step.instance)
    if decision.claims:
        refused = decision.refused_claims
        granted = sum(  # a claim that is found too many is granted first, and refused then
            next((event.granted for event in reversed(events) if event.ended), False)
            for events in decision.claims.values()
        )
        causes = group((event.host or "", event.cause) for event in refused)
        yield Stage("claims", "Claims in Placement", granted + len(refused), granted, causes)


# -- hosts -----------------------------------------------------------------------------------------------


def hosts(decision: Decision) -> Iterator[Host]:
    """Yield the hosts that a document names, the most important first."""
    named, best = decision.hosts, decision.best
    place_of = {number: place for place, number in enumerate(best.host)}
    for number, (host, node, cell, zone, outcome, step, failing) in enumerate(
        zip(
            *(named.host, named.node, named.cell, named.zone, named.outcome, named.step, named.failing),
            strict=True,
        )
    ):
        place = place_of.get(number)
        failed = decision.why.failing[failing] if decision.why and failing >= 0 else None
        yield Host(
            host,
            node,
            named.cells[cell],
            named.zones[zone],
            outcome,
            "" if step < 0 else decision.filters[step].filter,
            _reason(decision, host, outcome, step, failed),
            None if place is None else best.total[place],
            () if place is None else [(each.weigher, each.added(place)) for each in best.weights],
        )


def _reason(decision: Decision, host: str, outcome: str, step: int, failing: Failing | None) -> str:
    """Return why a host is out, by what its group has in common."""
    if outcome == REFUSED:
        return next((each.cause for each in decision.refused_claims if each.host == host), "")
    if outcome == REJECTED and failing is not None and decision.why:
        name = decision.filters[step].filter
        # ComputeFilter rejects hosts with a disabled service, which is a constraint of its own
        others = {ConstraintKind.DISABLED} if name == "ComputeFilter" else set()
        explained = decision.why.explained(failing)
        found = [why for one, why in explained if one.filter == name or one.kind in others]
        return reasons_text(found[0], failing.hosts) if found else ""
    if outcome == EXCLUDED and len(decision.candidates.excluded) == 1:
        return decision.candidates.excluded[0].text
    if outcome not in {REJECTED, EXCLUDED}:
        return ""
    groups = decision.filters[step].out if outcome == REJECTED else decision.candidates.excluded
    return next((each.text for each in groups if host in each.names), "")


def verdicts(decision: Decision, host: Host) -> Iterator[dict[str, Any]]:
    """Yield for each filter its name, the verdict on a host, the reason, and whether it is decisive."""
    before = host.outcome != EXCLUDED
    for step in decision.first_filters:
        decisive = before and step.filter == host.filter
        if decisive:
            verdict, reason = REJECTED, host.reason
        elif before:
            verdict, reason = ACCEPTED if step.applies else NOT_APPLICABLE, ""
        else:
            by_filter, by_request = "an earlier filter rejected the host", "the request excludes the host"
            verdict, reason = NOT_RUN, by_filter if host.filter else by_request
        before = before and not decisive
        yield {"filter": step.filter, "verdict": verdict, "reason": reason, "decisive": decisive}
