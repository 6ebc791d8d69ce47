"""Claims for many instances in one request to Placement, all or none (spec: placement-and-workflow 4.9).

A refused request leaves nothing to clean up: the refused instance is left out, and the rest is sent again.
What a single claim handles better, such as an instance that holds something already, is left to single
claims.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
import math

from scheduler.claims.allocations_api import claim_body
from scheduler.claims.claim import ClaimRequest, ConsumerState
from scheduler.claims.empty_consumers import EmptyConsumers
from scheduler.claims.events import ClaimHistory, ClaimState
from scheduler.claims.parts import ClaimParts
from scheduler.claims.policy import Timing
from scheduler.claims.responses import WriteOutcome, cause_of, refused_resource, write_outcome
from scheduler.claims.result import ClaimResult, Outcome, Refusal
from scheduler.placement.client import Reply
from scheduler.placement.errors import PlacementSilent, PlacementUnanswered, PlacementUnreachable

Results = dict[str, ClaimResult]


class Batch:
    """The claims of one request to Placement, for different instances whose locks the caller holds."""

    def __init__(
        self,
        requests: Iterable[ClaimRequest],
        parts: ClaimParts,
        empty_consumers: EmptyConsumers,
        claim_alone: Callable[[ClaimRequest, ConsumerState], ClaimResult],
        refusal: Callable[[], Refusal | None] = lambda: None,
    ) -> None:
        """Prepare the claims; they are made once.

        Args:
            requests: At most ``policy.batch_size`` requests of different instances.
            parts: What all claims work with.
            empty_consumers: Consumers of which Placement has a record without allocations.
            claim_alone: Claims for one instance, with what is known of it beforehand.
            refusal: Returns why nothing more may be sent; None while it may.
        """
        self._open = {request.uuid: request for request in requests}
        self._histories = {
            uuid: ClaimHistory(uuid, request.host_label, on_event=parts.on_event)
            for uuid, request in self._open.items()
        }
        self._api, self._policy, self._timing = parts.api, parts.policy, parts.timing
        self._provider_locks = parts.provider_locks
        self._empty_consumers = empty_consumers
        self._claim_alone = claim_alone
        self._refusal = refusal
        self._results: Results = {}
        self._refusals = 0
        self._concurrent_updates = 0

    def claim_all(self) -> Results:
        """Return the result of each instance. Never raises for a failure of Placement."""
        while len(self._open) > 1 and self._send():
            pass
        self._claim_rest_alone()
        return self._results

    # -- the request: each method returns whether to send what is left once more -----------------------------

    def _send(self) -> bool:
        if refusal := self._refusal():
            self._add_event(ClaimState.GIVEN_UP, refusal.reason)
            return self._finish_all(*refusal)
        for uuid in self._open:
            self._histories[uuid].begin_try()
        try:
            reply = self._post()
        except PlacementUnanswered as error:
            return self._read_effect(self._policy.reads_after(timed_out=error.timed_out), str(error))
        except PlacementUnreachable as error:
            self._add_event(ClaimState.GIVEN_UP, str(error))
            return self._finish_all(Outcome.UNAVAILABLE, str(error))
        if reply is None:
            return self._leave_to_single_claims("the locks of its hosts were not free in time")
        return self._react(reply)

    def _post(self) -> Reply | None:
        """Return the response; None if the locks of the hosts are not free."""
        with self._provider_locks.hold(roots_of(self._open.values()), self._policy.lock_timeout) as held:
            if not held:
                return None
            bodies = {
                uuid: claim_body(request.candidate, request.owner, self._empty_consumers.generation_of(uuid))
                for uuid, request in self._open.items()
            }
            return self._api.post_allocations(bodies)

    def _react(self, reply: Reply) -> bool:
        reactions: dict[WriteOutcome, Callable[[Reply], bool]] = {
            WriteOutcome.DONE: self._grant_all,
            WriteOutcome.UNKNOWN: self._read_effect_of_reply,
            WriteOutcome.DENIED: self._give_up_all,
            WriteOutcome.CONCURRENT: self._back_off,
            WriteOutcome.REFUSED: self._leave_out_last,
            WriteOutcome.GONE: self._leave_out_missing,
        }
        # Any other response is about one of the instances; claimed alone it shows which.
        react = reactions.get(write_outcome(reply))
        return react(reply) if react else self._leave_to_single_claims(cause_of(reply), reply.status)

    def _grant_all(self, reply: Reply) -> bool:
        self._add_event(ClaimState.GRANTED, "Placement accepted it", reply.status)
        return self._finish_all(Outcome.CLAIMED)

    def _give_up_all(self, reply: Reply) -> bool:
        self._add_event(ClaimState.GIVEN_UP, cause_of(reply), reply.status)
        return self._finish_all(Outcome.UNAVAILABLE, reply.summary)

    def _back_off(self, reply: Reply) -> bool:
        self._concurrent_updates += 1
        again = self._concurrent_updates < self._policy.concurrent_update_tries
        state = ClaimState.BACKING_OFF if again else ClaimState.CLAIMED_ALONE
        self._add_event(state, cause_of(reply), reply.status)
        self._timing.sleep(self._timing.uniform(*self._policy.retry_delay))
        return again

    def _leave_out_last(self, reply: Reply) -> bool:
        """Go on without the last of those that take from the full provider."""
        name, provider = refused_resource(reply)
        refused = [uuid for uuid, request in self._open.items() if takes_from(request, provider, name)]
        return self._leave_out(refused[-1:], Outcome.REFUSED, reply)

    def _leave_out_missing(self, reply: Reply) -> bool:
        """Go on without those on the missing provider. Placement has a record of all instances now."""
        for uuid in self._open:
            self._empty_consumers.add(uuid)
        _, provider = refused_resource(reply)
        refused = [uuid for uuid, request in self._open.items() if provider in request.candidate.allocations]
        return self._leave_out(refused, Outcome.GONE, reply)

    def _leave_out(self, refused: list[str], outcome: Outcome, reply: Reply) -> bool:
        for uuid in refused:
            self._histories[uuid].add(outcome.end, cause_of(reply), reply.status)
            name, provider = refused_resource(reply)
            self._finish(uuid, ClaimResult(outcome, reply.summary, name, provider))
        self._refusals += 1
        again = bool(refused) and self._refusals < self._policy.batch_refusals
        state = ClaimState.BATCH_WRITE if again and len(self._open) > 1 else ClaimState.CLAIMED_ALONE
        self._add_event(state, cause_of(reply), reply.status)
        return again

    def _leave_to_single_claims(self, cause: str, status: int | None = None) -> bool:
        self._add_event(ClaimState.CLAIMED_ALONE, cause, status)
        return False

    # -- after a lost response -------------------------------------------------------------------------------

    def _read_effect_of_reply(self, reply: Reply) -> bool:
        return self._read_effect(self._policy.reads_after_reset, cause_of(reply), reply.status)

    def _read_effect(self, delays: Sequence[float], cause: str, status: int | None = None) -> bool:
        """Read one instance: the request did all or nothing, so that only its effect calls for more reads."""
        self._add_event(ClaimState.OUTCOME_UNKNOWN, f"no clear response ({cause})", status)
        late_until = self._timing.monotonic() + self._policy.late_write_window
        first = next(iter(self._open.values()))
        shown = read_until(partial(self._holds_candidate, first), delays, self._timing, self._refusal)
        if shown:
            self._finish_claimed()
        if shown is None:
            reason = "Placement does not answer"
            self._add_event(ClaimState.GIVEN_UP, f"no clear response ({cause}); {reason}", status)
            return self._finish_all(Outcome.UNAVAILABLE, reason, unsure=True)
        self._add_event(ClaimState.CLAIMED_ALONE, f"no clear response ({cause}) and no effect")
        self._claim_rest_alone(lost=1, late_until=late_until)
        return False

    def _holds_candidate(self, request: ClaimRequest) -> bool | None:
        """Return whether the instance holds what was claimed; None if Placement does not tell."""
        try:
            current = self._api.get_allocations(request.uuid, request.context)
        except PlacementSilent:
            return None
        return request.plain.is_in(current)

    def _finish_claimed(self) -> None:
        # All of them are read: what the first one holds could be from an abandoned request.
        for uuid, request in list(self._open.items()):
            if self._holds_candidate(request):
                self._histories[uuid].add(ClaimState.GRANTED, "the instance holds the allocations")
                self._finish(uuid, self._make_result(request, Outcome.CLAIMED))

    # -- results ---------------------------------------------------------------------------------------------

    def _claim_rest_alone(self, lost: int = 0, late_until: float = -math.inf) -> None:
        for uuid, request in list(self._open.items()):
            events = tuple(self._histories[uuid].events)
            generation = self._empty_consumers.generation_of(uuid)
            known = ConsumerState(generation, late_until=late_until, lost=lost, events=events)
            result = self._claim_alone(request, known)
            self._results[uuid] = result
            del self._open[uuid]
            if result.hopeless:
                self._add_event(ClaimState.GIVEN_UP, result.reason)
                self._finish_all(result.outcome, result.reason, unsure=lost > 0)
                return

    def _finish_all(self, outcome: Outcome, reason: str = "", *, unsure: bool = False) -> bool:
        for uuid, request in list(self._open.items()):
            self._finish(uuid, self._make_result(request, outcome, reason, unsure=unsure))
        return False

    def _make_result(
        self, request: ClaimRequest, outcome: Outcome, reason: str = "", *, unsure: bool = False
    ) -> ClaimResult:
        known = outcome is Outcome.CLAIMED or unsure
        lost = (request.plain,) if unsure else ()
        return ClaimResult(
            outcome, reason, made=request.plain.made if known else None, unsure=unsure, lost=lost
        )

    def _finish(self, uuid: str, result: ClaimResult) -> None:
        self._results[uuid] = replace(result, events=tuple(self._histories[uuid].events))
        del self._open[uuid]

    def _add_event(self, state: ClaimState, cause: str, status: int | None = None) -> None:
        """Append an event to the history of each instance that has no result yet."""
        for uuid in self._open:
            self._histories[uuid].add(state, cause, status)


def claim_one_by_one(
    requests: Iterable[ClaimRequest], claim: Callable[[ClaimRequest], ClaimResult]
) -> Results:
    """Claim for one instance after the other, up to the first after which no other claim would succeed."""
    results: Results = {}
    for request in requests:
        result = results[request.uuid] = claim(request)
        if result.hopeless:
            break
    return results


def roots_of(requests: Iterable[ClaimRequest]) -> set[str]:
    """Return the root providers of what is claimed, whose locks are held meanwhile."""
    return {root for request in requests for root in request.candidate.roots}


def read_until(
    shows: Callable[[], bool | None],
    delays: Iterable[float],
    timing: Timing,
    refusal: Callable[[], Refusal | None],
) -> bool | None:
    """Read after a lost response until its effect shows.

    Args:
        shows: Reads, and returns whether there is an effect; None if Placement does not tell.
        delays: Seconds before each read.
        timing: Sleeps.
        refusal: Returns why nothing is done any more; that ends the reading, after the first read.

    Returns:
        Whether there is an effect; None if no read was answered.
    """
    found = None
    for number, delay in enumerate(delays):
        if number and refusal():
            break
        timing.sleep(delay)
        shown = shows()
        if shown:
            return True
        found = found if shown is None else shown
    return found


def takes_from(request: ClaimRequest, provider: str, name: str) -> bool:
    """Return whether a request takes of that resource class from the provider."""
    entry = request.candidate.allocations.get(provider)
    return entry is not None and name in entry["resources"]
