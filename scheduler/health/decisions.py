"""What the record of a decision adds to the counters; on the path of every request."""

import threading

from cachetools import LRUCache

from scheduler.errors import DependencyUnavailable, InvalidRequest, NoValidHost, ReturnedToBroker
from scheduler.explain.record import CandidateSource, DecisionRecord
from scheduler.health import catalogue
from scheduler.health.counters import Counters
from scheduler.placement.claim_events import ClaimState

#: Queries that are remembered, to tell the requests that share one from those with one of their own.
QUERIES = 256

_CLAIM_OUTCOMES = {
    ClaimState.GRANTED: "granted",
    ClaimState.NEXT_HOST: "next_host",
    ClaimState.GIVEN_UP: "given_up",
}
_CAPACITY_RESULTS = {ClaimState.WITHIN_CAPACITY: "within", ClaimState.OVER_CAPACITY: "over"}
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

    def count(self, record: DecisionRecord, error: BaseException | None) -> None:
        """Count a decision that is complete, or ended with an error."""
        counters = self._counters
        outcome = outcome_of(error)
        counters.add(catalogue.REQUESTS, 1, outcome)
        counters.add(catalogue.INSTANCES, len(record.request.instance_uuids), outcome)
        self._count_times(record)
        if record.candidates.name:
            counters.observe(catalogue.CANDIDATES, record.candidates.offered, record.candidates.asked)
            counters.add(catalogue.ANSWERED, 1, self._answer(record.candidates))
        self._count_filtered(record)
        self._count_claims(record)

    def _count_times(self, record: DecisionRecord) -> None:
        delivery = record.request.delivery
        if delivery is not None:
            self._counters.observe(catalogue.STAGE_SECONDS, delivery.waited, "queue")
        for stage, seconds in record.times.items():
            if stage in _STAGES:
                self._counters.observe(catalogue.STAGE_SECONDS, seconds, stage)
        self._counters.observe(catalogue.REQUEST_SECONDS, record.times["total"])

    def _answer(self, source: CandidateSource) -> str:
        """Return how a request got its candidates."""
        if source.asked != "placement":
            return source.asked
        if source.failed or not source.sent_at:
            return "failed"
        with self._lock:
            shared = source.sent_at in self._seen
            self._seen[source.sent_at] = True
        return "shared" if shared else "own"

    def _count_filtered(self, record: DecisionRecord) -> None:
        filtered: dict[str, int] = {}
        for each in record.hosts.rounds if record.hosts else ():
            for step in each.rejecting or ():
                if step.start != step.end:
                    filtered[step.rule.name] = filtered.get(step.rule.name, 0) + step.start - step.end
        for name, number in filtered.items():
            self._counters.add(catalogue.FILTERED, number, name)

    def _count_claims(self, record: DecisionRecord) -> None:
        for events in record.claims.values():
            for event in events:
                if event.next_step in _CLAIM_OUTCOMES:
                    self._counters.add(catalogue.CLAIMS, 1, _CLAIM_OUTCOMES[event.next_step])
                    self._counters.observe(catalogue.CLAIM_TRIES, event.attempt)
                elif event.next_step in _CAPACITY_RESULTS:
                    self._counters.add(catalogue.CAPACITY_CHECKS, 1, _CAPACITY_RESULTS[event.next_step])


class TrafficCounter:
    """Counts messages that are not answered here."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def refused(self) -> None:
        """Count a message that could not be read."""
        self._counters.add(catalogue.REFUSED)

    def undelivered(self) -> None:
        """Count a reply that was not delivered."""
        self._counters.add(catalogue.UNDELIVERED)

    def dropped(self, reason: str) -> None:
        """Count a call that was not served, as its caller had left."""
        self._counters.add(catalogue.DROPPED)

    def forwarded(self, reason: str) -> None:
        """Count a call that was sent on to another scheduler."""
        self._counters.add(catalogue.FORWARDED, 1, reason)


def outcome_of(error: BaseException | None) -> str:
    """Return the outcome of a request, as metrics name it."""
    if error is None:
        return "placed"
    return next((name for kind, name in _OUTCOMES.items() if isinstance(error, kind)), "error")
