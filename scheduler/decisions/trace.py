"""Noting a decision while it is made. It is on the path of every request.

Only counts are noted, and references to what the decision has made anyway. The document is made of them when
the request has failed, or when it is wanted.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
import math
import time

import numpy as np

from scheduler.bounds.waits import Waits
from scheduler.claims.session import Session
from scheduler.decisions import document
from scheduler.decisions.document import Decision
from scheduler.decisions.explanation import Explanation
from scheduler.decisions.failure import Failure
from scheduler.decisions.failure_cause import is_unspecific
from scheduler.decisions.record import NAMED, DecisionRecord, Names
from scheduler.filters.chain import Filtered
from scheduler.logs import mask_credentials
from scheduler.objects import Selection
from scheduler.placement.answer import Candidates
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.ranking import DecisionObserver, Ranking

#: Hosts whose weights are kept.
BEST = 10

#: Filters that are noted; of a request for more instances also those of the last one.
MOST_STEPS = 1000

Explain = Callable[[Failure], Explanation | None]
"""Returns why no host suits; None if that cannot be found out."""


class Trace(DecisionObserver):
    """Notes one decision.

    Attributes:
        record: What is kept of it.
        sent_at: When the query was sent, monotonic seconds, which identifies shared answers; 0: no query.
        step: The stage that the request is in; set where the stage begins.
        waits: What the request waits for.
    """

    def __init__(
        self,
        request: SchedulingRequest,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        names: Callable[[], Names] = Names,
    ) -> None:
        """Begin to note the decision on a request.

        Args:
            clock: The clock of Placement's answers.
            names: Returns the names of cells.
        """
        self.request = request
        self.sent_at = 0.0
        self.step = "query"
        self.waits = Waits(clock)
        self.record = DecisionRecord(request, wall_clock(), names)
        self._clock = clock
        self._started = self._marked = clock()
        self._sessions: list[Session] = []
        self._answer: Candidates | None = None
        self._ranking: Ranking | None = None

    @property
    def decision(self) -> Decision:
        """The document of a request that has ended."""
        return self.record.decision

    @property
    def received_at(self) -> float:
        """When the request was received, in seconds of the clock."""
        received_at = self.request.received_at
        return self._started if received_at == -math.inf else received_at

    # -- called by the manager -------------------------------------------------------------------------------

    def mark(self, stage: str) -> None:
        """Note that a stage ends now; times of a stage that occurs twice are added up."""
        now = self._clock()
        self.record.times[stage] = self.record.times.get(stage, 0.0) + now - self._marked
        self._marked = now

    def asked(self, queries: Sequence[Query]) -> None:
        self.record.queries = queries
        self.mark("query")

    def answered(self, found: Candidates) -> None:
        self.forget_pass()
        self.sent_at, self._answer = found.sent_at, found
        self.record.candidates = document.CandidateOrigin(
            source="coalesced" if found.requests > 1 else "placement",
            hosts=len(found.by_root),
            age=max(0.0, self._clock() - found.sent_at) if found.sent_at else 0.0,
            requests=found.requests,
            truncated=found.truncated,
            reason=found.reason,
            failed=found.failed and not found.rejection,
        )
        self.mark("placement")

    def found(self, source: str, hosts: int, age: float = 0.0) -> None:
        """Note source, number and age in seconds of the hosts; see ``document.CandidateOrigin``."""
        self.forget_pass()
        self.record.candidates = document.CandidateOrigin(source=source, hosts=hosts, age=age)
        self.mark(source)

    def claiming(self, claims: Session) -> None:
        self._sessions.append(claims)

    def selected(self, selections: Sequence[Sequence[Selection]]) -> None:
        self.record.selections = selections

    def write_log(self) -> None:
        """Log, as nova does, what became of the hosts of the last pass.

        A pass that another one follows is not logged: operators count these lines, and take them as proof
        that Placement offered hosts and the named filter rejected them.
        """
        if (ranking := self._ranking) is not None:
            ranking.narrowed.log()
            if ranking.filtered is not None:
                ranking.filtered.log_empty(self.request.instance_uuids[ranking.number])

    def finish(self, error: BaseException | None, explain: Explain | None = None) -> None:
        """End the notes; of the hosts only those that the document names are kept.

        Args:
            error: What ended the request.
            explain: Returns why no host suits; called if the error does not say it.
        """
        record, ranking = self.record, self._ranking
        if ranking is not None:
            self.mark("selection")
            for number, filtered in ranking.judged:  # if a weigher or another filter has failed
                self._note_filters(number, filtered)
            record.note_hosts(ranking.offered, ranking.narrowed)
            record.refused = list(ranking.refusals)
        else:
            self.mark(self.step if error is None else "failed")
        if self._sessions:
            self._note_claims(record)
        record.times["total"] = self._clock() - self._started
        if error is not None:
            record.selections = ()  # what was chosen is released
            record.error = document.Error(type(error).__name__, mask_credentials(str(error)))
            record.pack(None if ranking is None else ranking.offered.table_rows)
            self._note_reasons(record.error, explain)
        self._sessions, self._answer, self._ranking = [], None, None

    def _note_claims(self, record: DecisionRecord) -> None:
        """Note the events of claims; their time, which is part of the selection, is a stage of its own."""
        for uuid in self.request.instance_uuids:
            if events := [event for claims in self._sessions for event in claims.events_of(uuid)]:
                record.claims[uuid] = events
        times, seconds = record.times, sum(claims.seconds for claims in self._sessions)
        if seconds and "selection" in times:
            times["claims"], times["selection"] = seconds, max(0.0, times["selection"] - seconds)

    def _note_reasons(self, error: document.Error, explain: Explain | None) -> None:
        """Note why the request failed, in its document."""
        record = self.record
        if not (explain and is_unspecific(error)):
            record.note_why()
            return
        self.step = "explanation"
        ranking = self._ranking
        request, offered = (self.request, None) if ranking is None else (ranking.request, ranking.offered)
        failure = Failure(request, record.queries, self._answer, offered, ranking)
        explanation = explain(failure)
        record.note_why(explanation)
        record.unexplained = failure if explanation and explanation.why.incomplete else None
        self.mark("explanation")

    def forget_pass(self) -> None:
        """Forget a pass over hosts that another one follows: its hosts and filters decide nothing."""
        if self._ranking is not None or self.record.selections:
            self._ranking = None
            self.record.forget_pass()

    # -- called by the selection -----------------------------------------------------------------------------

    def begin(self, ranking: Ranking) -> None:
        self.forget_pass()
        self._ranking = ranking

    def ranked(self, ranking: Ranking, totals: np.ndarray, order: Iterator[int]) -> None:
        """Note what filters did, and the weights of the best hosts for the first instance."""
        record = self.record
        for number, filtered in ranking.judged:
            self._note_filters(number, filtered)
        if not ranking.number and record.best is None and len(totals):
            best = np.fromiter(islice(order, BEST), np.int64)
            record.best, record.totals = ranking.hosts.rows_at(best), totals[best]
            record.weights = ranking.scores.weights(best)

    def _note_filters(self, number: int, filtered: Filtered) -> None:
        """Note the counts, and if a host is left why filters rejected some of the others."""
        record, noted, steps = self.record, self.record.filters, filtered.steps
        uuid, left, is_first = self.request.instance_uuids[number], len(filtered.hosts), not noted
        del noted[MOST_STEPS:]
        if is_first:
            record.passed = left
        if not steps or left == len(steps[0].hosts):
            if is_first:
                noted += [
                    document.FilterStep(uuid, step.filter.name, left, left, step.judge is not None)
                    for step in steps
                ]
            return
        counts = [*(len(step.hosts) for step in steps), left]
        for step, (start, end) in zip(steps, pairwise(counts), strict=True):
            if end < start or is_first:
                noted.append(document.FilterStep(uuid, step.filter.name, start, end, step.judge is not None))
            if end < start:
                # the first entry of a filter stays, others give way to those of the last instance
                first = 0 if len(noted) > MOST_STEPS else len(noted) - 1
                at = next(at for at in range(first, len(noted)) if noted[at].filter == step.filter.name)
                record.rejected.append((at, step.hosts.rows_at(~step.kept)))
                reasons = step.reasons(NAMED) if left else ()
                record.reasons[len(noted) - 1] = [(row.host, why) for row, why in reasons]
