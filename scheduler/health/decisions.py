"""What a decision adds to the counters; on the path of every request."""

from itertools import chain
import threading

from cachetools import LRUCache

from scheduler.decisions.trace import Trace
from scheduler.errors import DependencyUnavailable, InvalidRequest, NoValidHost, ReturnedToBroker
from scheduler.health import catalogue
from scheduler.health.counters import Counters
from scheduler.placement.claim_events import ClaimEvent, ClaimState

#: Queries that are remembered, to distinguish requests that share one from requests with their own.
QUERIES = 256

_CLAIM_OUTCOMES: dict[str, str] = {
    ClaimState.GRANTED: "granted",
    ClaimState.NEXT_HOST: "next_host",
    ClaimState.GIVEN_UP: "given_up",
}
_CAPACITY_RESULTS: dict[str, str] = {ClaimState.WITHIN_CAPACITY: "within", ClaimState.OVER_CAPACITY: "over"}
_OUTCOMES = {
    NoValidHost: "no_valid_host",
    DependencyUnavailable: "outage",
    InvalidRequest: "invalid",
    ReturnedToBroker: "returned",
}
_STAGES = frozenset(catalogue.STAGES)


class DecisionCounter:
    """Counts decisions. Any thread may use it."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._lock = threading.Lock()
        self._seen: LRUCache[float, bool] = LRUCache(QUERIES)

    def count(self, trace: Trace, error: BaseException | None) -> None:
        """Count a decision that is complete, or ended with an error."""
        counters, record = self._counters, trace.record
        outcome = outcome_of(error)
        counters.add(catalogue.REQUESTS, 1, outcome)
        counters.add(catalogue.INSTANCES, len(record.instances), outcome)
        self._count_times(trace)
        if record.candidates.source:
            counters.observe(catalogue.CANDIDATES, record.candidates.hosts, record.candidates.origin)
            counters.add(catalogue.ANSWERED, 1, self._answer(trace))
        for step in record.filters:
            if step.end < step.start:
                counters.add(catalogue.FILTERED, step.start - step.end, step.filter)
        for event in chain.from_iterable(record.claims.values()):
            self._count_claim(event)
        if record.error and (cause := record.decision.cause):
            counters.add(catalogue.NO_VALID_HOST, 1, cause.code)

    def _count_times(self, trace: Trace) -> None:
        request = trace.request
        if request.call is not None and request.arrived_at is not None:
            waited = request.arrived_at - request.received_at
            self._counters.observe(catalogue.STAGE_SECONDS, waited, "queue")
        for stage, seconds in trace.record.times.items():
            if stage in _STAGES:
                self._counters.observe(catalogue.STAGE_SECONDS, seconds, stage)
        self._counters.observe(catalogue.REQUEST_SECONDS, trace.record.times["total"])

    def _answer(self, trace: Trace) -> str:
        """Return how a request got its candidates."""
        found = trace.record.candidates
        if found.origin != "placement":
            return found.origin
        if found.failed or not trace.sent_at:
            return "failed"
        with self._lock:
            shared = trace.sent_at in self._seen
            self._seen[trace.sent_at] = True
        return "shared" if shared else "own"

    def _count_claim(self, event: ClaimEvent) -> None:
        if event.next_step in _CLAIM_OUTCOMES:
            self._counters.add(catalogue.CLAIMS, 1, _CLAIM_OUTCOMES[event.next_step])
            self._counters.observe(catalogue.CLAIM_TRIES, event.attempt)
        elif event.next_step in _CAPACITY_RESULTS:
            self._counters.add(catalogue.CAPACITY_CHECKS, 1, _CAPACITY_RESULTS[event.next_step])


def outcome_of(error: BaseException | None) -> str:
    """Return the outcome of a request, as metrics name it."""
    if error is None:
        return "placed"
    return next((name for kind, name in _OUTCOMES.items() if isinstance(error, kind)), "error")
