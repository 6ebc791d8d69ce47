"""A host as it is shown: as of now and in the latest decisions, or for one decision."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from scheduler.decisions import rendering
from scheduler.decisions.constraints import DISABLED_TRAIT
from scheduler.decisions.document import CHOSEN, REJECTED, Decision
from scheduler.decisions.failure_cause import CauseCode, code_of_filter
from scheduler.decisions.host_history import CLAIM, PLACEMENT, REQUEST, WEIGHTS, HostHistory, Unexplained
from scheduler.decisions.host_status import HostStatus, NodeStatus
from scheduler.decisions.hosts_now import HostNow, NodeNow
from scheduler.decisions.rendering import FilterVerdict
from scheduler.logs import count_text
from scheduler.operators.explain.decision import why
from scheduler.operators.shown.shown import BAD, GOOD, Fact, Head, Saying, Shown, Table

#: What ends it if a host passes and others are chosen.
OUTWEIGHED = "Change the multipliers of weighers, or wait until better hosts are full."

#: Traits of what computes can do; there are dozens.
CAPABILITIES = "COMPUTE_"

Found = Sequence[tuple[Unexplained, NodeNow]]


#: A host in a document, and the verdict of each filter.
Then = tuple[rendering.Host, Sequence[FilterVerdict]]


def shown(name: str, document: Any, state: HostStatus | None, history: HostHistory, found: Found) -> Shown:
    """Return what is shown of a host that may never be chosen."""
    remedy = remedies(state, history, found)
    problems = any(node.problems for node in state.nodes) if state else False
    return Shown(
        document,
        Head(
            f"Host {name}",
            f"Host {_place(state, state.nodes[0])}" if state else "",
            BAD if problems else "",
            time=state.time if state else None,
            facts=list(_facts(state)),
            sayings=[
                *_history(history, found),
                *(Saying(words, "Remedy", reasons) for words, reasons in remedy.items()),
            ],
        ),
        [_inventories(state), _losses(history)],
    )


def _facts(state: HostStatus | None) -> Iterator[Fact]:
    for number, node in enumerate(state.nodes if state else ()):
        if number and state:
            yield Fact("host", _place(state, node))
        yield Fact(
            "service", f"last seen {node.seen or 'never'}, compute node updated {node.updated or 'never'}"
        )
        yield Fact("aggregates", ", ".join(node.aggregates) or "none")
        if node.provider:
            yield Fact("traits", _traits(node.provider.traits))
        yield from (Fact("problem:", problem.text) for problem in node.problems)


def _place(state: HostStatus, node: NodeStatus) -> str:
    return f"{node.host}, node {node.node}, cell {node.cell}, zone {node.zone}, as of {state.time}"


def _traits(names: Sequence[str]) -> str:
    shown = [name for name in sorted(names) if not name.startswith(CAPABILITIES) or name == DISABLED_TRAIT]
    others = len(names) - len(shown)
    return ", ".join([*shown, *([f"{others} of {CAPABILITIES}*"] if others else [])]) or "none"


def _inventories(state: HostStatus | None) -> Table:
    columns = ("Class", "Total", "Reserved", "Ratio", "Used", "Free", "Most for one instance")
    several = bool(state and len(state.nodes) > 1)
    rows = [
        (
            *((node.node,) if several else ()),
            name,
            each.total,
            each.reserved,
            f"{each.allocation_ratio:g}",
            node.provider.used(name),
            each.capacity - node.provider.used(name),
            each.max_unit,
        )
        for node in (state.nodes if state else ())
        if node.provider
        for name, each in sorted(node.provider.inventories.items())
    ]
    return Table((*(("Node",) if several else ()), *columns), rows, "Resources", numbers=("Ratio",))


def _history(history: HostHistory, found: Found) -> Iterator[Saying]:
    if not history.requests:
        yield Saying("No request for hosts is kept")
        return
    yield Saying(
        f"Of {count_text(history.requests, 'request')} since {history.since} it was considered for "
        f"{history.considered}, chosen for {history.chosen}, an alternate for {history.alternate}"
    )
    for each, node in found:
        yield Saying(f"Request {each.latest} ({_kind(each)}), as of now: {_now(node)}")


def _losses(history: HostHistory) -> Table:
    """Return the stages at which requests rejected a host, most requests first."""
    rows = [(each.requests, each.stage, each.reason) for each in history.losses]
    rows += [(each.requests, PLACEMENT, f"{each.reason} ({_kind(each)})") for each in history.unexplained]
    rows.sort(key=lambda row: -row[0])
    return Table(("Requests", "Lost at", "Why"), rows, "Where requests rejected it")


def remedies(state: HostStatus | None, history: HostHistory, found: Found) -> dict[str, list[str]]:
    """Return what would have to change for a host to be chosen, by remedy the reasons for it.

    What every request needs comes first.
    """
    remedies: dict[str, list[str]] = {}
    for remedy, reason in _remedies(state, history, found):
        reasons = remedies.setdefault(remedy, [])
        if reason not in reasons:
            reasons.append(reason)
    return remedies


def _remedies(state: HostStatus | None, history: HostHistory, found: Found) -> Iterator[tuple[str, str]]:
    for node in state.nodes if state else ():
        yield from ((each.remedy, each.text) for each in node.problems)
    if not history.requests:
        yield "Choose a time in which there were requests.", "no request for hosts is kept"
    for loss in history.losses:
        if loss.stage == WEIGHTS:
            yield OUTWEIGHED, loss.reason
        elif loss.stage == CLAIM:
            yield CauseCode.CLAIMS.remedy, loss.reason
        elif loss.stage != REQUEST:
            code = code_of_filter(loss.stage, loss.reason)
            yield code.remedy, f"{loss.stage}: {loss.reason}"
    for each, now in found:
        yield from _remedies_now(each, now)


def _remedies_now(each: Unexplained, now: NodeNow) -> Iterator[tuple[str, str]]:
    rejected = [] if now.excluded or now.unoffered else _rejected(now)
    for remedy in now.remedies:
        yield remedy, _kind(each)
    for one in rejected:
        yield code_of_filter(one.filter, one.reason).remedy, f"{_kind(each)}: {one.filter}: {one.reason}"
    if not (now.excluded or now.unoffered or rejected):
        yield OUTWEIGHED, _kind(each)


def _kind(each: Unexplained) -> str:
    return f"flavor {each.flavor}" + (f", zone {each.zone}" if each.zone else "")


def _rejected(node: NodeNow) -> list[FilterVerdict]:
    return [each for each in node.verdicts if each.verdict == REJECTED]


def _now(node: NodeNow) -> str:
    parts = [
        node.excluded,
        node.unoffered and f"Placement does not offer it: {node.unoffered}",
        *(f"{each.filter} rejects it: {each.reason}" for each in _rejected(node)),
    ]
    return "; ".join(filter(None, parts)) or "it passes all filters; if it is not chosen, others weigh more"


# -- a host in one decision ------------------------------------------------------------------------------


def shown_in_decision(
    document: Any, decision: Decision, then: Sequence[Then], now: HostNow | None, scheduler: str
) -> Shown:
    """Return what one decision says of a host, and what is said as of now."""
    sayings = [*_outcomes(decision, then), *_as_of_now(now)]
    tables = [_verdicts([(one.node, verdicts) for one, verdicts in then], "In the decision")] if then else []
    if now:
        tables.append(_verdicts([(node.node, node.verdicts) for node in now.nodes], "As of now"))
    names = [*(one.host for one, _ in then), *(node.host for node in (now.nodes if now else ()))]
    looks = [GOOD if one.outcome == CHOSEN else BAD if one.outcome == REJECTED else "" for one, _ in then]
    return Shown(
        document,
        Head(
            f"Host {names[0]} in a decision" if names else "",
            f"Request {decision.request_id or 'without id'}, from {scheduler}",
            looks[0] if looks else "",
            decision.time,
            sayings=sayings,
        ),
        tables,
    )


def _outcomes(decision: Decision, then: Iterable[Then]) -> Iterator[Saying]:
    for one, _ in then:
        claims = [
            f"claim for {uuid}, try {event.attempt}: {event.cause}; {event.next_step}"
            for uuid, events in decision.claims.items()
            for event in events
            if event.host == one.host
        ]
        reason = f" ({words})" if (words := why(one)) else ""
        where = f"Host {one.host}, node {one.node}, cell {one.cell}"
        yield Saying(f"{where}: {one.outcome}{reason}", details=claims)


def _as_of_now(now: HostNow | None) -> Iterator[Saying]:
    for node in now.nodes if now else ():
        offered = f"Placement does not offer it: {node.unoffered}" if node.unoffered else ""
        if node.asked and not offered:
            offered = "Placement offers it"
        yield Saying(
            f"Host {node.host}, node {node.node}, cell {node.cell}, zone {node.zone}, as of now "
            f"({now.time if now else ''}), not of the decision: "
            f"{'; '.join(filter(None, (node.excluded, offered)))}"
        )


def _verdicts(pairs: Iterable[tuple[str, Iterable[FilterVerdict]]], title: str) -> Table:
    rows = [
        (node, one.filter, one.verdict + (" (decisive)" if one.decisive else ""), one.reason)
        for node, found in pairs
        for one in found
    ]
    return Table(("Node", "Filter", "Verdict", "Reason"), rows, title)
