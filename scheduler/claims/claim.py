"""One claim, from its first PUT until its outcome is known (spec: placement-and-workflow 4.3-4.6).

Most consumers are new, so the first PUT says that there is none, and nothing is read before it. What the
consumer holds is read only after a conflict, or after a lost response.

A claim begins with FIRST_WRITE. The states and what follows them; ``ClaimState`` tells what each means::

    FIRST_WRITE       after a write: GRANTED, or VERIFYING if an earlier write may overlap with it
    REPLACING                        CONSUMER_CHANGED   consumer generation conflict
    ADOPTING                         BACKING_OFF        concurrent update
    KEEPING_SOURCE                   OUTCOME_UNKNOWN    no response, or one that does not tell
    REWRITING                        NEXT_HOST          refused, or the lock of the host is not free
    RESENDING                        GIVEN_UP           no host will do, or the time is over
    BACKING_OFF
    CONSUMER_CHANGED  the allocations are there, ours: GRANTED; of another request: ADOPTING;
                      ours, and a lost write may do the same later: REWRITING;
                      others, only of evacuated hosts: KEEPING_SOURCE; of an earlier claim of ours: REPLACING;
                      of another request, which may have been answered with them: GIVEN_UP;
                      none: FIRST_WRITE with the generation that the conflict named; too often: GIVEN_UP;
                      BACKING_OFF if a write of ours may be at work that made the record of the consumer
    OUTCOME_UNKNOWN   as CONSUMER_CHANGED if the consumer has changed; else RESENDING; too often: GIVEN_UP
    VERIFYING         as CONSUMER_CHANGED if there are allocations; else REWRITING

In each state a read without a response leads to GIVEN_UP: whatever the claim has written by then is cleaned
up by the caller.

What is ours is known by its generation: a write that sends none makes 1, each other one adds 1
(spec: placement-and-workflow 4.2).
"""

from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass, replace
import math
from typing import Any

from oslo_log import log

from scheduler.claims.allocations_api import (
    NOTHING,
    ConsumerAllocations,
    Owner,
    allocations_body,
    claim_body,
    claim_body_beside,
)
from scheduler.claims.events import ClaimEvent, ClaimHistory, ClaimState
from scheduler.claims.parts import ClaimParts
from scheduler.claims.responses import (
    IN_EFFECT,
    WriteOutcome,
    cause_of,
    expected_generation,
    refused_resource,
    write_outcome,
)
from scheduler.claims.result import ClaimResult, Outcome, OwnWrite, own_write_in
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.client import Reply
from scheduler.placement.errors import PlacementSilent, PlacementUnanswered, PlacementUnreachable

LOG = log.getLogger(__name__)

STOPPING = "the scheduler is stopping"

#: How a claim ends that Placement refuses.
REFUSALS = {
    WriteOutcome.REFUSED: Outcome.REFUSED,
    WriteOutcome.GONE: Outcome.GONE,
    WriteOutcome.INVALID: Outcome.INVALID,
    WriteOutcome.DENIED: Outcome.UNAVAILABLE,
}


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What is to be claimed.

    Attributes:
        uuid: The instance.
        candidate: What it shall hold.
        owner: Whose quota it counts against.
        context: The context of the request, for Placement's log.
        evacuating_from: UUIDs of compute nodes whose allocations the instance keeps besides.
        host: The name of the candidate's host; "" if it is not known.
        deadline: When the caller stops waiting for the reply; seconds of the clock of claims.
        message_id: The identity of the message that the claim is for; "" if there is none.
        nodes: UUIDs of all compute nodes. What an evacuated instance holds on a node that it does not
            leave is from another request.
        redelivered: Whether an earlier delivery of the message may have written the same for the instance.
        alone: Whether the request is for this instance alone.
    """

    uuid: str
    candidate: AllocationCandidate
    owner: Owner
    context: Any = None
    evacuating_from: Collection[str] = ()
    host: str = ""
    deadline: float = math.inf
    message_id: str = ""
    nodes: Container[str] = ()
    redelivered: bool = False
    alone: bool = True

    @property
    def plain(self) -> OwnWrite:
        """The first write of the claim, for a consumer that holds nothing."""
        return OwnWrite(ConsumerAllocations(self.candidate.allocations, 1, self.owner))

    @property
    def repeated(self) -> OwnWrite:
        """The second write of the claim of a redelivered request."""
        return OwnWrite(replace(self.plain.made, generation=2))

    @property
    def host_label(self) -> str:
        """The host for log lines: its name if known, otherwise the UUID of the root provider."""
        return self.host or self.candidate.root


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """What is known of the consumer beforehand.

    Attributes:
        generation: 0 if Placement is known to have a record of it without allocations.
        unsure: A write of an earlier claim may still be carried out; that claim's cleanup sees to it.
        late_until: Until then a write of ours may still be carried out that had no clear response; seconds of
            the clock of claims.
        earlier: The writes of earlier claims that are to be given back.
        elsewhere: Those of them that another process gives back, also if this claim succeeds.
        lost: Writes for this claim that had no clear response.
        events: What already happened to this claim.
    """

    generation: int | None = None
    unsure: bool = False
    late_until: float = -math.inf
    earlier: tuple[OwnWrite, ...] = ()
    elsewhere: tuple[OwnWrite, ...] = ()
    lost: int = 0
    events: tuple[ClaimEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class _Write:
    """What is sent until the consumer turns out to be in another state.

    ``before`` is what it holds until then. ``source`` is what it keeps besides. ``adopts``: it holds the same
    already, because of another request.
    """

    body: dict[str, Any]
    before: ConsumerAllocations = NOTHING
    source: ConsumerAllocations | None = None
    adopts: bool = False

    @property
    def own(self) -> OwnWrite:
        """What it does."""
        owner = Owner(self.body["project_id"], self.body["user_id"])
        generation = (self.body["consumer_generation"] or 0) + 1
        return OwnWrite(ConsumerAllocations(self.body["allocations"], generation, owner), self.source)


class AllocationClaim:
    """A claim for one instance on one host; it is made once.

    The caller holds the lock of the instance, and has recorded the plain claim in the journal.
    """

    def __init__(
        self,
        request: ClaimRequest,
        parts: ClaimParts,
        known: ConsumerState = ConsumerState(),
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare a claim. Its time begins now.

        Args:
            request: What to claim.
            parts: What all claims work with.
            known: What is known of the consumer.
            stopping: Whether the process stops, so that nothing more is to be written.
        """
        self._request = request
        self._api, self._policy, self._timing = parts.api, parts.policy, parts.timing
        self._journal, self._provider_locks = parts.journal, parts.provider_locks
        now = self._timing.monotonic()
        self._deadline = min(now + self._policy.claim_timeout, request.deadline)
        # An earlier delivery may have been served by another host, whose journal is not known here.
        late_until = now + self._policy.late_write_window if request.redelivered else -math.inf
        self._late_until = max(known.late_until, late_until)
        self._stopping = stopping
        self._history = ClaimHistory(request.uuid, request.host_label, known.events, parts.on_event)
        self._known = known
        self._write = self._plain_write(NOTHING, known.generation)
        self._writes = known.lost  # that were sent
        self._lost_writes = [self._write.own] * known.lost  # of these, had no clear response
        self._accepted: OwnWrite | None = None
        self._granted: OwnWrite | None = None
        self._fallback: OwnWrite | None = None  # is granted unless the consumer has changed since
        self._held: ConsumerAllocations | None = None
        self._unverified = known.lost + known.unsure  # writes that the next success may overlap with
        self._concurrent_updates = 0
        self._consumer_conflicts = 0
        self._waits_for_record = 0
        self._last_reply = Reply(0)
        self._read_delays: Sequence[float] = ()
        self._result: ClaimResult | None = None

    @property
    def left_empty_consumer(self) -> bool:
        """Whether Placement has a record of a consumer without allocations because of this claim."""
        new = self._write.body["consumer_generation"] is None
        return new and self._result is not None and self._result.outcome is Outcome.GONE

    def claim(self) -> ClaimResult:
        """Write the allocations, and return how that ended. Never raises for a failure of Placement."""
        act: dict[ClaimState, Callable[[], ClaimState]] = {
            ClaimState.FIRST_WRITE: self._send,
            ClaimState.REPLACING: self._send,
            ClaimState.ADOPTING: self._send,
            ClaimState.KEEPING_SOURCE: self._send,
            ClaimState.REWRITING: self._send,
            ClaimState.RESENDING: self._send,
            ClaimState.BACKING_OFF: self._send_after_delay,
            ClaimState.CONSUMER_CHANGED: self._read_changed_consumer,
            ClaimState.OUTCOME_UNKNOWN: self._read_until_changed,
            ClaimState.VERIFYING: self._verify,
        }
        state = ClaimState.FIRST_WRITE
        while self._result is None:
            try:
                state = act[state]()
            except PlacementSilent as error:
                self._fail(Outcome.UNAVAILABLE, str(error))
        return self._result

    # -- states that write -----------------------------------------------------------------------------------

    def _send(self) -> ClaimState:
        left = self._deadline - self._timing.monotonic()
        if left < 0:
            return self._fail(Outcome.UNAVAILABLE, "the claim took too long")
        if self._stopping():
            return self._fail(Outcome.STOPPING, STOPPING)
        self._history.begin_try()
        candidate, timeout = self._request.candidate, min(self._policy.lock_timeout, left)
        with self._provider_locks.hold(candidate.roots, timeout) as held:
            if not held:
                return self._fail(Outcome.CONTENDED, f"its lock was not free within {timeout:g} s")
            recorded = self._record()
            self._writes += 1
            try:
                reply = self._api.put_allocations(self._request.uuid, self._write.body, self._request.context)
            except PlacementUnanswered as error:
                return self._lose(str(error), timed_out=error.timed_out)
            except PlacementUnreachable:
                self._journal.withdraw_writes(recorded)
                raise
        if write_outcome(reply) not in IN_EFFECT:
            self._journal.withdraw_writes(recorded)
        return self._react(reply)

    def _send_after_delay(self) -> ClaimState:
        delay = self._timing.uniform(*self._policy.retry_delay) * 2**self._waits_for_record
        self._timing.sleep(min(delay, self._policy.longest_retry_delay))
        return self._send()

    def _react(self, reply: Reply) -> ClaimState:
        self._last_reply = reply
        outcome = write_outcome(reply)
        if outcome is WriteOutcome.DONE:
            return self._succeed(reply)
        if outcome is WriteOutcome.CONSUMER_CONFLICT:
            return self._go(ClaimState.CONSUMER_CHANGED, cause_of(reply), reply.status)
        if outcome is WriteOutcome.UNKNOWN:
            return self._lose(cause_of(reply), reply.status)
        if outcome is WriteOutcome.CONCURRENT:
            return self._count_concurrent_update(reply)
        return self._refuse(REFUSALS[outcome], reply)

    def _record(self) -> dict[str, OwnWrite]:
        """Record a write that is about to be sent: each may take effect. Return what is recorded by that.

        The caller has recorded the first plain write. One that adopts is not ours to give back.
        """
        write, request = self._write, self._request
        if write.adopts or (write.own == request.plain and not self._lost_writes):
            return {}
        recorded = {request.uuid: write.own}
        self._journal.record_writes(recorded, request.message_id)
        return recorded

    def _succeed(self, reply: Reply) -> ClaimState:
        self._accepted = self._write.own
        if self._unverified and not self._fallback:
            return self._go(ClaimState.VERIFYING, "an earlier write may have overlapped", reply.status)
        return self._grant(self._write.own, "Placement accepted it", reply.status)

    def _lose(self, cause: str, status: int | None = None, *, timed_out: bool = False) -> ClaimState:
        self._lost_writes.append(self._write.own)
        self._unverified += 1
        policy = self._policy
        self._late_until = self._timing.monotonic() + policy.late_write_window
        self._read_delays = policy.reads_after(timed_out=timed_out)
        return self._go(ClaimState.OUTCOME_UNKNOWN, f"no clear response ({cause})", status)

    def _count_concurrent_update(self, reply: Reply) -> ClaimState:
        self._concurrent_updates += 1
        if self._concurrent_updates >= self._policy.concurrent_update_tries:
            LOG.error("Failed scheduler client operation claim_resources: out of retries: %s", reply.detail)
            return self._refuse(Outcome.CONTENDED, reply)
        return self._go(ClaimState.BACKING_OFF, cause_of(reply), reply.status)

    # -- states that read ------------------------------------------------------------------------------------

    def _verify(self) -> ClaimState:
        current = self._read()
        if current.allocations:
            return self._start_from(current)
        # Two writes for this consumer overlapped: the rows exist, but hidden. Written again they show.
        self._write, self._unverified = self._plain_write(NOTHING, None), 0
        return self._go(ClaimState.REWRITING, "Placement accepted the allocations, but does not show them")

    def _read_changed_consumer(self) -> ClaimState:
        self._fallback = None
        current = self._read()
        generation = expected_generation(self._last_reply)
        if not current.allocations and generation is not None:
            # Either a record left behind by a refused claim, or another writer's claim in progress.
            current = self._read_repeatedly(self._policy.reads_after_reset) or NOTHING
        if current.allocations:
            return self._start_from(current)
        if generation == 0 and self._timing.monotonic() < self._late_until:
            return self._wait_for_own_record()
        return self._start_empty(generation)

    def _wait_for_own_record(self) -> ClaimState:
        """Write as for a new consumer until the record of the consumer is no longer without allocations.

        A write of ours that is still at work may have made the record. If that write is refused, Placement
        removes the record, and what was written meanwhile is not shown (spec: placement-and-workflow 4.5).
        """
        self._write = self._plain_write(NOTHING, None)
        self._waits_for_record += 1
        return self._go(ClaimState.BACKING_OFF, "an earlier write may still be at work on the consumer")

    def _read_until_changed(self) -> ClaimState:
        """Repeat the write, which may be done or still running, once it must have ended without an effect."""
        current = self._read_repeatedly(self._read_delays)
        if current is None:
            return self._fail_after_last(Outcome.UNAVAILABLE, "Placement does not answer")
        if current != self._write.before:
            return self._start_from(current)
        if self._fallback or len(self._lost_writes) > self._policy.resends:
            return self._fail_after_last(Outcome.UNAVAILABLE, "Placement does not answer any write")
        lost = self._history.events[-1].cause
        return self._go(ClaimState.RESENDING, f"{lost} and no effect")

    def _read_repeatedly(self, delays: Sequence[float]) -> ConsumerAllocations | None:
        """Read after each delay until the consumer has changed; None if no read was answered.

        Once the time is over nothing is read again, answered or not: a read may take long.
        """
        current = None
        for number, delay in enumerate(delays):
            if number and (self._stopping() or self._timing.monotonic() + delay > self._deadline):
                break  # what the write may yet do is left to a cleanup
            self._timing.sleep(delay)
            try:
                current = self._read()
            except PlacementSilent:
                continue
            if current != self._write.before:
                break
        return current

    def _read(self) -> ConsumerAllocations:
        return self._api.get_allocations(self._request.uuid, self._request.context)

    # -- from what the consumer holds ------------------------------------------------------------------------

    def _start_from(self, current: ConsumerAllocations) -> ClaimState:
        """Go on from what the consumer turned out to hold."""
        self._fallback = None
        wanted = self._write.body["allocations"]
        sent = [one for one in (self._accepted, *self._lost_writes) if one]
        own = own_write_in(sent, current)
        if own and own.made.allocations == wanted:
            made = replace(own.made, generation=current.generation)
            same = sum(one.is_in(current) for one in sent)
            return self._grant_alone(replace(own, made=made), current, same)
        if not current.allocations:
            return self._start_empty(None)
        if self._conflicts_too_often():
            return self._fail_in_conflict()
        earlier = own_write_in(self._known.earlier, current)
        source = current if earlier is None else earlier.previous
        if source is not None and self._is_source(source):
            return self._keep_source(source, current)
        if earlier is not None:
            self._write = self._plain_write(current, current.generation)
            return self._go(ClaimState.REPLACING, "the instance holds allocations of an earlier claim")
        return self._start_beside_another_request(current)

    def _grant_alone(self, own: OwnWrite, current: ConsumerAllocations, same: int) -> ClaimState:
        """Grant a write; but repeat it if it could not be told from another one.

        That is one of another process, which gives it back, or a lost one for a new consumer, which may come
        when the instance is deleted (``late_writes``). For the latter the repetition is tried once.

        Args:
            own: The write.
            current: What the instance holds.
            same: How many writes of this claim give it exactly that.
        """
        late = current.generation == 1 and same > 1
        elsewhere = own_write_in(self._known.elsewhere, current) is not None
        if not (elsewhere or late):
            return self._grant(own, "the instance holds the allocations")
        self._fallback = None if elsewhere else own
        body = allocations_body(current.allocations, self._request.owner, current.generation)
        self._write = _Write(body, current, source=own.previous)
        if elsewhere:
            return self._go(ClaimState.REPLACING, "an earlier claim could have written the same")
        return self._go(ClaimState.REWRITING, "a lost write may yet do the same")

    def _keep_source(self, source: ConsumerAllocations, current: ConsumerAllocations) -> ClaimState:
        request = self._request
        body = claim_body_beside(
            replace(source, generation=current.generation), request.candidate, request.owner
        )
        self._write = _Write(body, current, source=source)
        return self._go(ClaimState.KEEPING_SOURCE, "the instance holds allocations of the evacuated host")

    def _start_beside_another_request(self, current: ConsumerAllocations) -> ClaimState:
        """Adopt the allocations of another request, or fail; it may have been answered with them."""
        if not (self._lost_writes or self._known.earlier):
            # Nothing was written: a successor of this process must not take them for ours.
            self._journal.remove_records([self._request.uuid])
        if body := self._body_that_adopts(current):
            self._write = _Write(body, current, adopts=True)
            return self._go(ClaimState.ADOPTING, "the instance holds the allocations by another request")
        self._held = current
        reason = "the instance holds allocations of another request"
        return self._fail_after_last(Outcome.CONFLICT, reason)

    def _body_that_adopts(self, current: ConsumerAllocations) -> dict[str, Any] | None:
        """Return the body that writes once more what the consumer holds; None if that is not the candidate.

        An evacuated instance may hold the candidate beside the allocations that it keeps. One of several
        instances is only adopted together with all others (``confirmation``): if one of these fails, what was
        adopted would not be given back, neither by this request nor by the one that it was adopted from.
        """
        request, candidate = self._request, self._request.candidate
        if not request.alone:
            return None
        if current.allocations == candidate.allocations:
            return claim_body(candidate, request.owner, current.generation)
        root, held = candidate.root, current.allocations
        holds_all = held.keys() >= candidate.allocations.keys()
        if self._other_nodes(current) == {root} and holds_all and held[root] == candidate.allocations[root]:
            return allocations_body(held, request.owner, current.generation)
        return None

    def _start_empty(self, generation: int | None) -> ClaimState:
        if self._conflicts_too_often():
            return self._fail_in_conflict()
        self._write = self._plain_write(NOTHING, generation)
        text = "does not exist" if generation is None else f"has generation {generation}"
        return self._go(ClaimState.FIRST_WRITE, f"the consumer {text} and holds nothing")

    def _conflicts_too_often(self) -> bool:
        self._consumer_conflicts += 1
        return self._consumer_conflicts > self._policy.consumer_conflicts

    def _fail_in_conflict(self) -> ClaimState:
        return self._fail_after_last(
            Outcome.CONFLICT, "another writer changes the allocations of the instance"
        )

    def _is_source(self, current: ConsumerAllocations) -> bool:
        sources = self._request.evacuating_from
        if self._other_nodes(current):
            return False
        if not sources or any(provider in sources for provider in current.allocations):
            return bool(sources)
        return any(
            self._api.get_root_provider(provider, self._request.context) in sources
            for provider in current.allocations
        )

    def _other_nodes(self, current: ConsumerAllocations) -> set[str]:
        """Return the nodes that an evacuated instance does not leave, and holds allocations of."""
        request = self._request
        if not request.evacuating_from:
            return set()
        leaves = request.evacuating_from
        return {node for node in current.allocations if node in request.nodes and node not in leaves}

    def _plain_write(self, before: ConsumerAllocations, generation: int | None) -> _Write:
        return _Write(claim_body(self._request.candidate, self._request.owner, generation), before)

    # -- events and ends -------------------------------------------------------------------------------------

    def _go(self, state: ClaimState, cause: str, status: int | None = None) -> ClaimState:
        self._history.add(state, cause, status)
        return state

    def _grant(self, own: OwnWrite, cause: str, status: int | None = None) -> ClaimState:
        self._granted = own
        return self._end(Outcome.CLAIMED, "", cause, status)

    def _refuse(self, outcome: Outcome, reply: Reply) -> ClaimState:
        name, provider = refused_resource(reply)
        return self._end(outcome, reply.summary, cause_of(reply), reply.status, (name, provider))

    def _fail(self, outcome: Outcome, reason: str) -> ClaimState:
        return self._end(outcome, reason, reason)

    def _fail_after_last(self, outcome: Outcome, reason: str) -> ClaimState:
        """End with what Placement said last as the cause."""
        if not self._history.events:
            return self._fail(outcome, reason)
        last = self._history.events[-1]
        status = last.status if last.status and last.status >= 400 else None
        return self._end(outcome, reason, f"{last.cause}; {reason}", status)

    def _end(
        self,
        outcome: Outcome,
        reason: str,
        cause: str,
        status: int | None = None,
        resource: tuple[str, str] = ("", ""),
    ) -> ClaimState:
        if self._fallback and outcome is not Outcome.CLAIMED:
            self._granted, outcome, reason, resource = self._fallback, Outcome.CLAIMED, "", ("", "")
        self._history.add(outcome.end, cause, status)
        self._result = self._make_result(outcome, reason, *resource)
        return outcome.end

    def _make_result(
        self, outcome: Outcome, reason: str = "", name: str = "", provider: str = ""
    ) -> ClaimResult:
        known, granted, lost = self._known, self._granted, list(self._lost_writes)
        was_lost = bool(lost)
        if granted != self._accepted and granted in lost:
            lost.remove(granted)
        if self._accepted and not granted:
            lost.append(self._accepted)
        adopted = self._write.adopts
        if adopted:
            lost = [one for one in lost if one != self._write.own]
        made = granted or (lost[-1] if lost else None)
        return ClaimResult(
            outcome,
            reason,
            refused_class=name,
            refused_provider=provider,
            made=made.made if made else None,
            previous=made.previous if made else None,
            unsure=was_lost or bool(lost),
            overlapped=self._writes > 0 and (known.unsure or (was_lost and self._writes > 1)),
            lost=tuple(lost),
            adopted=adopted,
            held=self._held,
            events=tuple(self._history.events),
        )
