"""The outcomes of one host in the kept decisions: how often it was chosen, and where it was rejected.

The document of a served request names some hosts only. It does not show whether Placement offered another
host; ``unexplained`` has these requests, for a question as of now.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from scheduler.decisions import rendering
from scheduler.decisions.document import (
    ALTERNATE,
    CHOSEN,
    EXCLUDED,
    PASSED,
    REFUSED,
    CandidateOrigin,
    Decision,
)
from scheduler.decisions.words import group

#: Sources of candidates without the hosts that are disabled in Placement.
OF_PLACEMENT = frozenset({"placement", "coalesced", "mirror"})

#: Where a host is rejected, besides the filters.
PLACEMENT, REQUEST, CLAIM, WEIGHTS = "Placement", "request", "claim", "weights"

#: Why the decision does not say more.
NOT_OFFERED = "Placement did not offer it"
NOT_CONSIDERED = "it was not considered"
NOT_NAMED = "not among the hosts that the decision names: not offered, or not among the best"


class Loss(msgspec.Struct, frozen=True):
    """Requests that rejected a host for the same reason; the stage is a filter or one of the above."""

    stage: str
    reason: str
    requests: int = 1


class Unexplained(msgspec.Struct, frozen=True):
    """Requests of one flavor and zone whose decisions do not fully explain why the host was not chosen.

    Attributes:
        latest: The request id, or an instance, of the latest request, which came at ``time``.
    """

    reason: str
    flavor: str
    zone: str | None
    requests: int
    latest: str
    time: str


class HostHistory(msgspec.Struct):
    """The outcomes of a host in all requests for hosts since the first one.

    Attributes:
        considered: Requests that it was offered to, as far as decisions show.
    """

    since: str | None = None
    requests: int = 0
    considered: int = 0
    chosen: int = 0
    alternate: int = 0
    losses: list[Loss] = msgspec.field(default_factory=list)
    unexplained: list[Unexplained] = msgspec.field(default_factory=list)


def history_of(decisions: Iterable[Decision], name: str) -> HostHistory:
    """Return the outcomes of a host, by its service host or its node name."""
    return merged(_outcome(each, name) for each in decisions if _has_offer(each.candidates))


def _has_offer(found: CandidateOrigin) -> bool:
    return found.source in OF_PLACEMENT and not found.failed


def merged(histories: Iterable[HostHistory]) -> HostHistory:
    all_histories = list(histories)
    return HostHistory(
        min((history.since for history in all_histories if history.since), default=None),
        sum(history.requests for history in all_histories),
        sum(history.considered for history in all_histories),
        sum(history.chosen for history in all_histories),
        sum(history.alternate for history in all_histories),
        list(_grouped(chain.from_iterable(history.losses for history in all_histories))),
        _united(chain.from_iterable(history.unexplained for history in all_histories)),
    )


def _outcome(decision: Decision, name: str) -> HostHistory:
    """Return what became of a host in one request."""
    # of several nodes of a host the first counts: the most important are first
    hosts = enumerate(rendering.hosts(decision))
    match = next((pair for pair in hosts if name in (pair[1].host, pair[1].node)), None)
    if match is None:
        return HostHistory(decision.time, 1, unexplained=[_unexplained(decision, name)])
    place, host = match
    if host.outcome == CHOSEN:
        return HostHistory(decision.time, 1, 1, 1)
    if host.outcome in {ALTERNATE, PASSED}:
        stage = WEIGHTS if decision.error is None else REQUEST
        loss = Loss(stage, _outweighed(decision, place))
    else:
        stage = {EXCLUDED: REQUEST, REFUSED: CLAIM}.get(host.outcome, host.filter)
        loss = Loss(stage, host.reason or "reason not computed")
    return HostHistory(decision.time, 1, 1, 0, int(host.outcome == ALTERNATE), [loss])


def _outweighed(decision: Decision, place: int) -> str:
    """Return the weigher with the largest difference to the best host."""
    if decision.error is not None:
        return "it passed, but the request failed"
    best = decision.best
    rank = best.host.index(place) if place in best.host else 0
    ahead = [(weights.added(0) - weights.added(rank), weights.weigher) for weights in best.weights]
    most, name = max(ahead, default=(0.0, ""))
    if most <= 0:
        return "it passed; others were chosen"
    return f"it passed; the best host has more weight, most of it from {name}: {most:.2g}"


def _unexplained(decision: Decision, name: str) -> Unexplained:
    found = decision.candidates
    # Placement offers hosts of all cells, also if only those of one are considered
    reason = absent = NOT_OFFERED if found.hosts <= (found.known or 0) else NOT_CONSIDERED
    if decision.error is None:
        reason = NOT_NAMED
    if why := decision.why:
        for failing in why.failing:
            if name in failing.names:
                constraints = " and ".join(constraint.words for constraint in why.of(failing))
                reason = f"{absent}: {constraints}"
    latest = decision.request_id or decision.instances[0]
    flavor = str(decision.flavor.name or "")
    return Unexplained(reason, flavor, decision.availability_zone, 1, latest, decision.time)


def _grouped(losses: Iterable[Loss]) -> Iterator[Loss]:
    """Yield the losses, most requests first; reasons that differ in numbers only are one."""
    pairs: dict[str, list[tuple[str, str]]] = {}
    for loss in losses:
        pairs.setdefault(loss.stage, []).extend([("", loss.reason)] * loss.requests)
    found = [Loss(stage, cause.text, cause.hosts) for stage, some in pairs.items() for cause in group(some)]
    yield from sorted(found, key=lambda loss: -loss.requests)


def _united(some: Iterable[Unexplained]) -> list[Unexplained]:
    united: dict[tuple[str, str, str | None], Unexplained] = {}
    for request in some:
        key = (request.reason, request.flavor, request.zone)
        before = united.get(key, request)
        latest = max(before, request, key=lambda request: request.time)
        requests = request.requests if before is request else before.requests + request.requests
        united[key] = msgspec.structs.replace(latest, requests=requests)
    return sorted(united.values(), key=lambda request: -request.requests)
