"""berth-explain host: why a host was not chosen for a request, or is never chosen."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
import itertools
import logging

import msgspec

from scheduler.decisions import rendering
from scheduler.decisions.constraints import DISABLED_TRAIT
from scheduler.decisions.document import CHOSEN, REJECTED, Decision
from scheduler.decisions.failure_cause import CauseCode, code_of_filter, remedy_of_constraint
from scheduler.decisions.host_history import (
    CLAIM,
    PLACEMENT,
    REQUEST,
    WEIGHTS,
    HostHistory,
    Unexplained,
    history_of,
    merged,
)
from scheduler.logs import count_text
from scheduler.operators.app import flag, latest, value
from scheduler.operators.explain import host_now
from scheduler.operators.explain.decision import failed_sets, why
from scheduler.operators.explain.decision_commands import NAMES, FoundDecision, RecordedQuestion, read_log
from scheduler.operators.explain.host_now import HostStatus, NodeStatus
from scheduler.operators.shown.shown import BAD, GOOD, Columns, Fact, Head, Saying, Shown, Table, table
from scheduler.operators.snapshot.planned_cloud import PlannedCloud

LOG = logging.getLogger(f"nova.{__name__}")

#: Requests of different flavors or zones, which decisions do not explain, that are looked at as of now.
MOST_LOOKED_AT = 3

#: What ends it if a host passes and others are chosen.
OUTWEIGHED = "Change the multipliers of weighers, or wait until better hosts are full."

#: Traits of what computes can do; there are dozens.
CAPABILITIES = "COMPUTE_"

#: A request that the decisions do not explain, and what is decided on it for this host now.
LookedAt = Sequence[tuple[Unexplained, Decision]]


def shown(name: str, state: HostStatus | None, history: HostHistory, looked_at: LookedAt) -> Shown:
    """Return what is shown of a host that may never be chosen."""
    nodes = state.nodes if state else []
    # what every request needs comes first
    remedies: dict[str, dict[str, None]] = {}
    for remedy, reason in _remedies(nodes, history, looked_at):
        remedies.setdefault(remedy, {})[reason] = None
    document = {
        "host": name,
        "state": state,
        "history": history,
        "now": [{"request": request.latest, "decision": now} for request, now in looked_at],
        "remedies": {remedy: list(reasons) for remedy, reasons in remedies.items()},
    }
    head = Head(
        f"Host {name}",
        f"Host {_place(state, nodes[0])}" if state else "",
        BAD if any(node.problems for node in nodes) else "",
        time=state.time if state else None,
        facts=list(_facts(state)),
        sayings=[
            *_history(history, looked_at),
            *(Saying(words, "Remedy", list(reasons)) for words, reasons in remedies.items()),
        ],
    )
    return Shown(document, head, [_inventories(nodes), _losses(history)])


def _facts(state: HostStatus | None) -> Iterator[Fact]:
    if state is None:
        return
    for number, node in enumerate(state.nodes):
        if number:
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


def _inventories(nodes: Sequence[NodeStatus]) -> Table:
    found = [
        (node.node, name, inventory, node.provider.usages.get(name, 0))
        for node in nodes
        if node.provider
        for name, inventory in sorted(node.provider.inventories.items())
    ]
    columns: Columns = {
        **({"Node": 0} if len(nodes) > 1 else {}),
        "Class": 1,
        "Total": lambda one: one[2].total,
        "Reserved": lambda one: one[2].reserved,
        "Ratio": lambda one: f"{one[2].allocation_ratio:g}",
        "Used": 3,
        "Free": lambda one: one[2].capacity - one[3],
        "Most for one instance": lambda one: one[2].max_unit,
    }
    return table(found, columns, "Resources")


def _history(history: HostHistory, looked_at: LookedAt) -> Iterator[Saying]:
    if not history.requests:
        yield Saying("No request for hosts is kept")
        return
    yield Saying(
        f"Of {count_text(history.requests, 'request')} since {history.since} it was considered for "
        f"{history.considered}, chosen for {history.chosen}, an alternate for {history.alternate}"
    )
    for request, now in looked_at:
        yield Saying(f"Request {request.latest} ({_kind(request)}), as of now: {_now(now)}")


def _losses(history: HostHistory) -> Table:
    rows = [(loss.requests, loss.stage, loss.reason) for loss in history.losses]
    rows += [
        (request.requests, PLACEMENT, f"{request.reason} ({_kind(request)})")
        for request in history.unexplained
    ]
    rows.sort(key=lambda row: -row[0])
    return Table(("Requests", "Lost at", "Why"), rows, "Where requests rejected it")


def _remedies(
    nodes: Sequence[NodeStatus], history: HostHistory, looked_at: LookedAt
) -> Iterator[tuple[str, str]]:
    """Yield what would have to change for a host to be chosen, with the reason."""
    for node in nodes:
        yield from ((problem.remedy, problem.text) for problem in node.problems)
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
    for request, now in looked_at:
        remedies_now = list(_remedies_now(now))
        yield from ((remedy, _kind(request)) for remedy in remedies_now or [OUTWEIGHED])


def _remedies_now(now: Decision) -> Iterator[str]:
    """Yield what helps against each constraint that the host fails now; nothing if it passes."""
    if now.why and now.why.failing:
        for failing in now.why.failing:
            for constraint, reasons in now.why.explained(failing):
                yield remedy_of_constraint(constraint, reasons)
    elif now.cause:
        yield now.cause.remedy


def _kind(request: Unexplained) -> str:
    return f"flavor {request.flavor}" + (f", zone {request.zone}" if request.zone else "")


def _now(now: Decision) -> str:
    return now.summary or "it is suitable; if it is not chosen, others weigh more"


# -- a host in one decision ------------------------------------------------------------------------------


def shown_in_decision(
    name: str, kept: FoundDecision, named: Sequence[rendering.Host], now: Decision | None
) -> Shown:
    """Return what one decision says of a host, and what is decided for the host now."""
    decision = kept.decision
    then = [{**host._asdict(), "verdicts": list(rendering.verdicts(decision, host))} for host in named]
    document = {
        "request_id": decision.request_id,
        "time": decision.time,
        "scheduler": kept.scheduler,
        "host": name,
        "then": then,
        "now": now,
    }
    sayings = list(_outcomes(decision, named))
    if now:
        sayings.append(Saying(f"As of now ({now.time}), not of the decision: {_now(now)}"))
        sayings += (Saying(remedy, "Remedy") for remedy in dict.fromkeys(_remedies_now(now)))
    rows = [
        (host["node"], one["filter"], one["verdict"] + " (decisive)" * one["decisive"], one["reason"])
        for host in then
        for one in host["verdicts"]
    ]
    tables = [Table(("Node", "Filter", "Verdict", "Reason"), rows, "In the decision")] if then else []
    if now and now.why:
        tables.append(failed_sets(now.why, "As of now"))
    looks = {CHOSEN: GOOD, REJECTED: BAD}
    head = Head(
        f"Host {named[0].host if named else name} in a decision",
        f"Request {decision.request_id or 'without id'}, from {kept.scheduler}",
        looks.get(named[0].outcome, "") if named else "",
        decision.time,
        sayings=sayings,
    )
    return Shown(document, head, tables)


def _outcomes(decision: Decision, named: Iterable[rendering.Host]) -> Iterator[Saying]:
    for host in named:
        claims = [
            f"claim for {uuid}, try {event.attempt}: {event.cause}; {event.next_step}"
            for uuid, events in decision.claims.items()
            for event in events
            if event.host == host.host
        ]
        reason = f" ({words})" if (words := why(host)) else ""
        where = f"Host {host.host}, node {host.node}, cell {host.cell}"
        yield Saying(f"{where}: {host.outcome}{reason}", details=claims)


# -- the command -----------------------------------------------------------------------------------------


class HostCommand(RecordedQuestion):
    """Explain why a host is not chosen: its status, and how the latest requests treated it.

    With --decision: the result of each filter for this host in one decision. If the decision does not have
    it, the request is decided again for this host alone as it is now.
    """

    arguments = (
        value("host", "HOST", "a service host, a node name or the UUID of a node"),
        value(
            "--decision",
            NAMES,
            "explain the host for the latest decision on this request or instance",
        ),
        flag("--now", "with --decision: also decide the request again for this host alone, as it is now"),
        latest(0.0),
    )

    def show(self, args: argparse.Namespace) -> Shown | None:
        return self._show_decision(args) if args.decision else self._show_host(args)

    # -- a host ----------------------------------------------------------------------------------------------

    def _show_host(self, args: argparse.Namespace) -> Shown | None:
        if args.log:
            return shown(args.host, None, self._history(args, args.host), [])
        with host_now.read(self.conf, args.host) as cloud:
            if cloud is None:
                _complain_of_unknown(args.host)
                return None
            state = host_now.status(cloud)
            # documents have no UUIDs
            named = [node.node for node in state.nodes if node.uuid == args.host]
            history = self._history(args, named[0] if named else args.host)
            return shown(args.host, state, history, list(self._looked_at(args, history, cloud)))

    def _history(self, args: argparse.Namespace, name: str) -> HostHistory:
        """Return what became of a host in the decisions that schedulers keep, or a log has."""
        if args.log:
            return read_log(args.log, lambda log: history_of(log.decisions(args.since), name))
        answers = self.ask(args, "host_history", host=name, since=args.since)
        return merged(msgspec.convert(answer, HostHistory, str_keys=True) for answer in answers.values())

    def _looked_at(
        self, args: argparse.Namespace, history: HostHistory, cloud: PlannedCloud
    ) -> Iterator[tuple[Unexplained, Decision]]:
        """Yield requests that decisions do not explain, with what is decided on them for this host now."""
        for request in itertools.islice(history.unexplained, MOST_LOOKED_AT):
            kept = self.find_decision(args, request.latest)
            decision = kept and host_now.decide(cloud, kept.decision)
            if decision:
                yield request, decision

    # -- a decision ------------------------------------------------------------------------------------------

    def _show_decision(self, args: argparse.Namespace) -> Shown | None:
        kept = self.find_decision(args, args.decision)
        if kept is None:
            return None
        decision = kept.decision
        named = [line for line in rendering.hosts(decision) if args.host in (line.host, line.node)]
        is_explained = named and all(line.reason or line.outcome != REJECTED for line in named)
        now = None if is_explained and not args.now else self._now(args, decision)
        if not (named or now):
            _complain_of_unknown(args.host)
            return None
        return shown_in_decision(args.host, kept, named, now)

    def _now(self, args: argparse.Namespace, decision: Decision) -> Decision | None:
        """Return what is decided for the host now; None with --log, if there is no such host or request."""
        if args.log or decision.request_spec() is None:
            LOG.warning("The decision does not say more about %s, and the host is not read now", args.host)
            return None
        with host_now.read(self.conf, args.host) as cloud:
            return None if cloud is None else host_now.decide(cloud, decision)


def _complain_of_unknown(host: str) -> None:
    LOG.error("No compute node of an enabled cell has the host, node name or UUID %s", host)
