"""Noting a decision while it is made, straight into its document. It is on the path of every request."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
import math
import time

import numpy as np

from scheduler.bounds.waits import Waits
from scheduler.claims.session import Session
from scheduler.decisions import document
from scheduler.decisions.document import Best, Decision, Out, Place, Weights
from scheduler.decisions.explanation import Explanation
from scheduler.decisions.failure import Failure
from scheduler.decisions.failure_cause import cause_of, is_unspecific
from scheduler.decisions.named_hosts import NAMED, Names, Outcomes, RejectedRows
from scheduler.filters.causes import group
from scheduler.filters.chain import Filtered, PreparedChain
from scheduler.hosts.coordinates import ViewIndex
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.logs import mask_credentials
from scheduler.objects import Selection
from scheduler.objects.base import DATA
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.candidates import Candidates
from scheduler.request.query import Query
from scheduler.request.reading import read
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.narrowing import Narrowed
from scheduler.selection.observer import NO_OBSERVER, DecisionObserver
from scheduler.selection.pass_log import PassLog
from scheduler.weights.scores import Scores

#: Hosts whose weights are kept.
BEST = 10

#: Filters that are noted; of a request for more instances also those of the last one.
MOST_STEPS = 1000

#: Sources of candidates without the hosts that are disabled in Placement.
OF_PLACEMENT = frozenset({"placement", "coalesced", "mirror"})

FLAVOR = ("name", "vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "extra_specs")


Explain = Callable[[Failure], Explanation | None]
"""Returns why no host suits; None if that cannot be found out."""


class Trace(DecisionObserver):
    """Notes one decision.

    Attributes:
        decision: Its document, complete once the trace has finished.
        times: Seconds by stage.
        sent_at: When the query was sent, monotonic seconds, which identifies shared answers; 0: no query.
        step: The stage that the request is in; set where the stage begins.
        waits: What the request waits for.
        unexplained: What an incomplete explanation is to be completed from; None: it is complete.
    """

    def __init__(
        self,
        request: SchedulingRequest,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        names: Callable[[], Names] = Names,
        also: DecisionObserver = NO_OBSERVER,
    ) -> None:
        """Begin to note the decision on a request.

        Args:
            clock: The clock of Placement's answers.
            names: Returns the names of cells.
            also: Receives all that the selection reports, after it is noted.
        """
        self._also = also
        self._log = PassLog()
        self._table: HostTable | None = None
        self._clock = clock
        self._names = names
        self._started = self._marked = clock()
        self._claims: list[Session] = []
        self._offered: HostView | None = None
        self._left: int | None = None
        self._outcomes = Outcomes()
        self._failure = Failure(request, ())
        self._placed: dict[int, tuple[HostView, ViewIndex, AllocationCandidate | None]] = {}
        self.request = request
        self.times: dict[str, float] = {}
        self.sent_at = 0.0
        self.unexplained: Failure | None = None
        self.step = "query"
        self.waits = Waits(clock)
        self.decision = _begun(request, wall_clock())

    @property
    def message_id(self) -> str:
        """The identity of the message that is being answered; "" outside of a server."""
        return getattr(self.request.call, "message_id", "")

    @property
    def received_at(self) -> float:
        """When the request was received, in seconds of the clock."""
        received_at = self.request.received_at
        return self._started if received_at == -math.inf else received_at

    # -- called by the manager -------------------------------------------------------------------------------

    def mark(self, stage: str) -> None:
        """Note that a stage ends now; times of a stage that occurs twice are added up."""
        now = self._clock()
        self.times[stage] = self.times.get(stage, 0.0) + now - self._marked
        self._marked = now

    def asked(self, queries: Sequence[Query]) -> None:
        self._failure.queries = queries
        self.decision.queries = [query.querystring for query in queries]
        self.mark("query")

    def answered(self, found: Candidates) -> None:
        self._forget_pass()
        self.sent_at = found.sent_at
        self._failure.answer = found
        self.decision.candidates = document.CandidateOrigin(
            source="coalesced" if found.requests > 1 else "placement",
            hosts=len(found.by_root),
            age=max(0.0, self._clock() - found.sent_at) if found.sent_at else 0.0,
            requests=found.requests,
            truncated=found.truncated,
            reason=found.reason,
            failed=found.failed and not found.rejection,
        )
        self.mark("placement")

    def mirrored(self, hosts: HostView, age: float) -> None:
        """Note the hosts that the mirror names, and the seconds since it was refreshed."""
        self._table = hosts.table
        self.found("mirror", len(hosts), age)

    def found(self, source: str, hosts: int, age: float = 0.0) -> None:
        """Note source, number and age in seconds of the hosts; see ``document.CandidateOrigin``."""
        self.decision.candidates = document.CandidateOrigin(source=source, hosts=hosts, age=age)
        self.mark(source)

    def claiming(self, claims: Session) -> None:
        self._claims.append(claims)

    def write_log(self) -> None:
        """Log what became of the hosts of a request that has a result."""
        self._log.write()

    def finish(self, error: BaseException | None, explain: Explain | None = None) -> Decision:
        """End the document.

        Args:
            error: What ended the request.
            explain: Returns why no host suits; called if the error does not say it.
        """
        decision = self.decision
        self._log.begin()
        self.mark("failed" if self._left is None else "selection")
        _split_claims(self.times, sum(each.seconds for each in self._claims))
        self.times["total"] = self._clock() - self._started
        decision.milliseconds = {stage: int(seconds * 1e6) / 1e3 for stage, seconds in self.times.items()}
        decision.candidates.age = round(decision.candidates.age, 3)
        decision.notes = list(self.request.counts.notes)
        for uuid in self.request.instance_uuids if self._claims else ():
            if events := [event for claims in self._claims for event in claims.events_of(uuid)]:
                decision.claims[uuid] = events
        if error is not None:
            decision.result = document.FAILED
            decision.error = document.Error(type(error).__name__, mask_credentials(str(error)))
        sets = None
        if explain and decision.error and is_unspecific(decision.error):
            self.step = "explanation"
            failure = self._failed()
            sets = _explain(decision, explain, failure)
            self.mark("explanation")
            self.unexplained = failure if decision.why and decision.why.incomplete else None
        _set_cause(decision)
        self._name_hosts(sets)
        # it refers to the whole answer of Placement
        self._failure, self._placed = Failure(self.request, ()), {}
        if self.unexplained is None:
            self._offered = self._table = None
        return decision

    def complete(self, explain: Explain) -> None:
        """Replace an incomplete explanation in the document."""
        failure, self.unexplained = self.unexplained, None
        if failure is not None and (sets := _explain(self.decision, explain, failure)) is not None:
            _set_cause(self.decision)
            self._name_hosts(sets)
        self._offered = self._table = None

    # -- called by the selection -----------------------------------------------------------------------------

    def begin_ranking(
        self, offered: HostView, narrowed: Narrowed, chain: PreparedChain, request: SchedulingRequest
    ) -> None:
        """Note the hosts, and forget those of earlier passes."""
        self._forget_pass()
        decision = self.decision
        decision.candidates.known = len(offered)
        decision.candidates.allowed = self._left = len(narrowed.hosts)
        self._offered, self._table = offered, offered.table
        failure = self._failure
        failure.request, failure.offered, failure.judged, failure.chain = (
            request,
            offered,
            narrowed.hosts,
            chain,
        )
        for each in narrowed.excluded:
            names = [row.host for row in each.hosts.at(range(len(each.hosts))[:NAMED]).rows]
            decision.candidates.excluded.append(Out(each.reason, len(each.hosts), names))
            self._outcomes.excluded.append(each.hosts.table_rows)
        self._log.begin(narrowed)
        self._also.begin_ranking(offered, narrowed, chain, request)

    def _forget_pass(self) -> None:
        """Forget a pass over hosts that another one follows: its hosts and filters decide nothing."""
        decision = self.decision
        decision.filters, decision.best, decision.chosen = [], Best(), []
        decision.candidates.excluded = []
        self._offered, self._left, self._outcomes = None, None, Outcomes()
        self._failure.offered = self._failure.judged = self._failure.chain = None
        self._failure.number, self._failure.steps, self._placed = 0, (), {}
        self._log.begin()

    def filtered(self, number: int, hosts: HostView, filtered: Filtered) -> None:
        """Note the counts, and if a host is left why filters rejected some of the others."""
        steps, uuid = self.decision.filters, self.request.instance_uuids[number]
        self._log.filtered(uuid, filtered)
        self._also.filtered(number, hosts, filtered)
        first = not steps
        self._left, self._failure.number = len(filtered.hosts), number
        self._failure.steps = filtered.steps
        del steps[MOST_STEPS:]
        if self._left == len(hosts) and not first:
            return
        ends = [len(step.hosts) for step in filtered.steps[1:]] + [self._left]
        for step, left in zip(filtered.steps, ends, strict=False):
            start = len(step.hosts)
            if left == start and not first:
                continue
            noted = document.FilterStep(uuid, step.filter.name, start, left, step.judge is not None)
            steps.append(noted)
            if left == start:
                continue
            rows = step.hosts.table_rows[~step.kept]
            self._outcomes.rejected.append(RejectedRows(len(steps) - 1, rows))
            if self._left:
                pairs = [(row.host, reason) for row, reason in step.reasons(NAMED)]
                noted.out = [Out(each.reason, each.count, each.names) for each in group(pairs, NAMED)]

    def weighed(
        self, number: int, hosts: HostView, scores: Scores, totals: np.ndarray, order: Iterator[int]
    ) -> None:
        self._also.weighed(number, hosts, scores, totals, order)
        if number or self._outcomes.best:
            return
        indices = np.fromiter(islice(order, BEST), np.int64)
        self._outcomes.best = hosts.table_rows[indices].tolist()
        weights = [Weights(*each) for each in scores.weights(indices)]
        self.decision.best = Best(total=totals[indices].tolist(), weights=weights)

    def consumed(
        self, number: int, hosts: HostView, index: ViewIndex, candidate: AllocationCandidate | None
    ) -> None:
        """Note where an instance was placed; only a failed request looks at it."""
        self._placed[number] = hosts, index, candidate
        self._also.consumed(number, hosts, index, candidate)

    def _failed(self) -> Failure:
        """Return what the request saw."""
        failure = self._failure
        self._placed.pop(failure.number, None)
        failure.placed = {
            number: (int(hosts.table_rows[index]), candidate)
            for number, (hosts, index, candidate) in self._placed.items()
        }
        if failure.offered is not None:
            rows = failure.offered.table.rows_named
            refused = [
                (row, event.cause)
                for event in self.decision.refused_claims
                for row in rows.get(event.host, ())
            ]
            failure.refused = dict(refused)
        return failure

    def selected(self, selections: Sequence[Sequence[Selection]]) -> None:
        places = [list(map(_place, some)) for some in selections]
        self.decision.chosen = [
            document.Chosen(uuid, first, others)
            for uuid, (first, *others) in zip(self.request.instance_uuids, places, strict=True)
        ]
        if self._offered:
            row = self._offered.table.row_of_uuid.get
            self._outcomes.chosen = [
                [row(each.compute_node_uuid, -1) for each in some] for some in selections
            ]

    def _name_hosts(self, sets: np.ndarray | None) -> None:
        """Name the hosts of the document: all that were offered if it failed, or the most important."""
        decision, offered, table = self.decision, self._offered, self._table
        if offered is None or table is None:
            return
        failed = decision.error is not None
        refused = [event.host or "" for event in decision.refused_claims]
        named = self._outcomes.named(refused, table, offered.table_rows if failed else None)
        decision.hosts = named.columns(table, self._names(), sets, complete=failed)
        decision.best.host = named.indices(self._outcomes.best)


def _split_claims(times: dict[str, float], claims: float) -> None:
    """Make the seconds of claims, which are part of the selection, a stage of its own."""
    if claims and "selection" in times:
        times["claims"] = claims
        times["selection"] = max(0.0, times["selection"] - claims)


def _explain(decision: Decision, explain: Explain, failure: Failure) -> np.ndarray | None:
    """Note why no host suits; return the set of constraints that each host of the table fails."""
    found = explain(failure)
    if found is None:
        return None
    decision.why = found.why
    return found.sets


def _set_cause(decision: Decision) -> None:
    decision.cause = cause_of(decision)
    if decision.error is not None:
        decision.summary = decision.cause.words if decision.cause else _other_end(decision)


def _other_end(decision: Decision) -> str:
    """Return what ended a request that was not refused, with what Placement has said."""
    found, lost = decision.candidates, decision.refused_claims
    detail = found.reason if found.failed else lost[-1].cause if lost else ""
    text = f"{decision.error.kind}: {decision.error.text.strip()}" if decision.error else ""
    return f"{text} ({detail})" if detail else text


def _begun(request: SchedulingRequest, started_at: float) -> Decision:
    envelope = request.spec.as_received()
    data = envelope[DATA]
    flavor = data["flavor"][DATA]
    return Decision(
        time=document.time_text(started_at),
        request_id=getattr(request.context, "request_id", None) or "",
        kind=_kind(request),
        project_id=data.get("project_id"),
        instances=list(request.instance_uuids),
        flavor=document.RequestedFlavor(*map(flavor.get, FLAVOR)),
        availability_zone=data.get("availability_zone"),
        spec=envelope,
    )


def _kind(request: SchedulingRequest) -> str:
    """Return what is requested: an evacuation names a host to ignore, and no cell."""
    if request.is_rebuild:
        return "rebuild check"
    if not request.moves_instance:
        return "build"
    destination = read(request.spec, "requested_destination")
    return "move" if read(destination, "cell") else "evacuation"


def _place(selection: Selection) -> Place:
    return Place(selection.service_host, selection.nodename)
