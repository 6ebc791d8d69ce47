"""The answer of berth-explain host as lines and tables."""

from collections.abc import Iterator, Mapping, Sequence

from scheduler.decisions.constraints import DISABLED_TRAIT
from scheduler.decisions.document import REJECTED
from scheduler.decisions.failure_cause import REMEDIES, CauseCode, code_of_filter
from scheduler.decisions.host_history import CLAIM, PLACEMENT, REQUEST, WEIGHTS, HostHistory, Unexplained
from scheduler.decisions.host_status import HostStatus
from scheduler.decisions.hosts_now import NodeNow
from scheduler.decisions.rendering import FilterVerdict
from scheduler.logs import count_text
from scheduler.operators.command.tables import Table

#: What ends it if a host passes and others are chosen.
OUTWEIGHED = "Change the multipliers of weighers, or wait until better hosts are full."

#: Traits of what computes can do; there are dozens.
CAPABILITIES = "COMPUTE_"

Found = Sequence[tuple[Unexplained, NodeNow]]


def state_lines(state: HostStatus | None) -> Iterator[str]:
    if state is None:
        return
    for node in state.nodes:
        yield f"Host {node.host}, node {node.node}, cell {node.cell}, zone {node.zone}, as of {state.time}"
        yield f"  service last seen {node.seen or 'never'}, compute node updated {node.updated or 'never'}"
        yield f"  aggregates {', '.join(node.aggregates) or 'none'}"
        if node.provider:
            yield f"  traits {_traits(node.provider.traits)}"
        for problem in node.problems:
            yield f"  problem: {problem.text}"


def _traits(names: Sequence[str]) -> str:
    shown = [name for name in sorted(names) if not name.startswith(CAPABILITIES) or name == DISABLED_TRAIT]
    others = len(names) - len(shown)
    return ", ".join([*shown, *([f"{others} of {CAPABILITIES}*"] if others else [])]) or "none"


def inventories(state: HostStatus | None) -> Table:
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
    return (*(("Node",) if several else ()), *columns), rows


def history_lines(history: HostHistory, found: Found) -> Iterator[str]:
    if not history.requests:
        yield "No request for hosts is kept"
        return
    yield (
        f"Of {count_text(history.requests, 'request')} since {history.since} it was considered for "
        f"{history.considered}, chosen for {history.chosen}, an alternate for {history.alternate}"
    )
    if history.ranks:
        ranks = ", ".join(f"{rank} ({requests})" for rank, requests in history.ranks.items())
        yield f"  not chosen at rank (requests) {ranks}"
    for each, node in found:
        yield f"Request {each.latest} ({_kind(each)}), as of now: {_now(node)}"


def losses(history: HostHistory) -> Table:
    """Return the stages at which requests rejected a host as a table, most requests first."""
    rows = [(each.requests, each.stage, each.reason) for each in history.losses]
    rows += [(each.requests, PLACEMENT, f"{each.reason} ({_kind(each)})") for each in history.unexplained]
    return ("Requests", "Lost at", "Why"), sorted(rows, key=lambda row: -row[0])


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


def remedy_lines(found: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for remedy, reasons in found.items():
        yield f"Remedy: {remedy}"
        yield from (f"  {reason}" for reason in reasons)


def _remedies(state: HostStatus | None, history: HostHistory, found: Found) -> Iterator[tuple[str, str]]:
    for node in state.nodes if state else ():
        yield from ((each.remedy, each.text) for each in node.problems)
    if not history.requests:
        yield "Choose a time in which there were requests.", "no request for hosts is kept"
    for loss in history.losses:
        if loss.stage == WEIGHTS:
            yield OUTWEIGHED, loss.reason
        elif loss.stage == CLAIM:
            yield REMEDIES[CauseCode.CLAIMS], loss.reason
        elif loss.stage != REQUEST:
            code = code_of_filter(loss.stage, loss.reason)
            yield REMEDIES[code], f"{loss.stage}: {loss.reason}"
    for each, now in found:
        yield from _remedies_now(each, now)


def _remedies_now(each: Unexplained, now: NodeNow) -> Iterator[tuple[str, str]]:
    rejected = [] if now.excluded or now.unoffered else _rejected(now)
    for remedy in now.remedies:
        yield remedy, _kind(each)
    for one in rejected:
        yield REMEDIES[code_of_filter(one.filter, one.reason)], f"{_kind(each)}: {one.filter}: {one.reason}"
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
