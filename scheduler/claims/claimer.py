"""Claiming candidates for instances, and giving them back (spec: placement-and-workflow 4, 6.1).

From one process, at most one claim for an instance is in flight, and at most one on a host or sharing
provider: writes for one consumer that overlap can leave rows that Placement does not show, and writes on one
provider that overlap can over-commit it.

At most one request for an instance has claims at a time: a second one waits for a bounded time, and is then
refused. Requests of other processes of the daemon are known by the journal.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
import math
import threading
from typing import Any, TypeVar

from oslo_log import log

from scheduler.claims.allocations_api import AllocationsApi, ConsumerAllocations, Written, claim_body
from scheduler.claims.batch import Batch, Results, claim_one_by_one, roots_of
from scheduler.claims.claim import STOPPING, AllocationClaim, ClaimRequest, ConsumerState
from scheduler.claims.cleanup import AllocationCleanup
from scheduler.claims.confirmation import Confirmation, HeldClaim
from scheduler.claims.empty_consumers import EmptyConsumers
from scheduler.claims.group_commit import GroupCommit
from scheduler.claims.journal import ClaimJournal, Journal
from scheduler.claims.late_writes import IsDeleted, LateWrites
from scheduler.claims.parts import ClaimParts
from scheduler.claims.policy import ClaimPolicy, Timing
from scheduler.claims.responses import IN_EFFECT, WriteOutcome, write_outcome
from scheduler.claims.result import ClaimResult, Outcome, OwnWrite, Refusal, unsent_claim
from scheduler.locks import KeyedLocks
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent, PlacementUnreachable
from scheduler.placement.read_each import read_each

LOG = log.getLogger(__name__)

BUSY = "another request for the instance is being served"

TOO_LATE = "its caller has given up by now"

EarlierWrites = Mapping[str, tuple[OwnWrite, ...]]
"""Instance UUID → writes of other processes that may be replaced, as no caller was told of them."""

_Claim = TypeVar("_Claim", ClaimRequest, HeldClaim)

# Seconds between looks at whether claims are in flight, while the process stops.
_DRAIN_POLL = 0.05

# Seconds between looks at whether the process stops, while releases are waited for.
_LOOK_INTERVAL = 1.0


class Claimer:
    """Claims and releases of a process; any thread may use it. It is made anew after a fork.

    Attributes:
        on_event: Called at each event of a claim; must not wait.
    """

    def __init__(
        self,
        api: AllocationsApi,
        policy: ClaimPolicy,
        timing: Timing = Timing(),  # noqa: B008 - it is immutable
        is_deleted: IsDeleted = lambda _uuid: None,
    ) -> None:
        """Begin without claims.

        Args:
            api: The requests to Placement.
            policy: The bounds of claims and cleanups.
            timing: Clock, sleep and randomness.
            is_deleted: Returns whether an instance was deleted in nova; None if that is not known.
        """
        self.on_event: Callable[[], None] = lambda: None
        on_event = lambda: self.on_event()  # noqa: E731, PLW0108 - it is set later
        self._parts = parts = ClaimParts(api, policy, timing, on_event=on_event)
        self._api, self._policy, self._timing = api, policy, timing
        self._journal, self._provider_locks = parts.journal, parts.provider_locks
        self._instance_locks = KeyedLocks()
        self._request_locks = KeyedLocks()
        self._stopping = threading.Event()
        api.before_write = self._journal.mark_sent
        self._taken_over: dict[str, float] = {}  # instance -> when the record of a dead process was
        self._cleanup = AllocationCleanup(api, self._instance_locks, policy, self._forget_claims, timing)
        self._late_writes = LateWrites(parts, self._cleanup, self._instance_locks, is_deleted)
        self._empty_consumers = EmptyConsumers(policy.empty_consumers)

    @classmethod
    def of(
        cls,
        client: PlacementClient,
        is_deleted: IsDeleted,
        written: Written,
    ) -> "Claimer":
        """Return the claimer of a process, with the bounds of a daemon.

        Args:
            client: Sends requests to Placement.
            is_deleted: Returns whether an instance was deleted in nova; None if that is not known.
            written: Called after each write.
        """
        api = GroupCommit(client)
        api.written = written
        return cls(api, ClaimPolicy(), is_deleted=is_deleted)

    @property
    def journal(self) -> ClaimJournal:
        """The records of this process."""
        return self._journal

    def start(self) -> None:
        """Start the background thread that gives claims back, before the first request is served.

        Raises:
            RuntimeError: The system has no thread left.
        """
        self._cleanup.start()

    def open_journal(self, journal: Journal) -> None:
        """Record claims there from now on, and give back in the background what a dead process recorded."""
        self._journal.open_page(journal, self._clean_up_recorded)

    def _clean_up_recorded(self, uuid: str, claim: ClaimResult) -> None:
        LOG.warning("Removing allocations of instance %s left by a worker that died", uuid)
        self._taken_over[uuid] = self._timing.monotonic()
        self._cleanup.schedule_cleanup(uuid, claim, delay=self._policy.recorded_claim_delay)

    def _forget_claims(self, uuids: Collection[str]) -> None:
        """Forget what was recorded of instances of which nothing is left to give back."""
        self._journal.remove_records(uuids)
        for uuid in uuids:
            self._taken_over.pop(uuid, None)

    def _wait_for_dead_writes(self, request: ClaimRequest) -> None:
        """Wait until Placement has ended what a process sent for the instance before it died."""
        taken_over = self._taken_over.pop(request.uuid, -math.inf)
        now = self._timing.monotonic()
        wait = min(taken_over + self._policy.recorded_write_delay, request.deadline) - now
        if wait > 0 and not self._stopping.is_set():
            self._timing.sleep(wait)

    def pending_cleanups(self) -> int:
        """Return for how many instances something is still to be given back."""
        return len(self._cleanup)

    def confirm_claims(self, instance_uuids: Iterable[str]) -> None:
        """Remove the records of claims whose request is over.

        Records of what is still to be given back stay.
        """
        self._journal.remove_records([uuid for uuid in instance_uuids if not self._cleanup.is_pending(uuid)])

    def watch_late_writes(self, claims: Mapping[str, ClaimResult], context: Any = None) -> None:
        """Give back what a lost write of these claims does after their instances were deleted.

        Args:
            claims: Claims that were answered, by instance UUID.
            context: The context of the request, for Placement's log.
        """
        self._late_writes.watch(claims, context)

    def begin_request(
        self, instance_uuids: Iterable[str], deadline: float = math.inf
    ) -> Callable[[], None] | None:
        """Wait until no other request of this process has claims for these instances.

        Args:
            instance_uuids: The instances.
            deadline: When the caller stops waiting for the reply; seconds of the clock of claims.

        Returns:
            What to call when the request is over; None if another one is still being served.
        """
        stack = ExitStack()
        timeout = min(self._policy.lock_timeout, max(0.0, deadline - self._timing.monotonic()))
        if stack.enter_context(self._request_locks.hold(instance_uuids, timeout)):
            return stack.close
        stack.close()
        return None

    def stop_claiming(self) -> None:
        """Send no further claim.

        Claims that are asked for from now on are refused, and so are those in flight that have not been
        granted. What was claimed can still be given back.
        """
        self._stopping.set()

    def claim(self, request: ClaimRequest) -> ClaimResult:
        """Give the instance what the candidate says. Never raises for a failure of Placement.

        The caller goes on to another candidate only if ``try_next`` of the result says so, and hands what was
        claimed but is not wanted to ``release``. A claim that failed needs no release: what may yet come of
        it is cleaned up here.

        What the instance holds on the nodes of ``request.evacuating_from`` it keeps besides; what it holds
        elsewhere is replaced.
        """
        LOG.debug("Attempting to claim resources in the placement API for instance %s", request.uuid)
        if refusal := self._refusal(request.deadline):
            return unsent_claim(request.uuid, request.host_label, *refusal)
        with self._instance_locks.hold([request.uuid], self._lock_timeout([request])) as held:
            if not held:
                return unsent_claim(request.uuid, request.host_label, Outcome.CONFLICT, BUSY)
            return self._claim_locked(request)

    def claim_many(self, requests: Iterable[ClaimRequest]) -> Results:
        """Give each instance what its candidate says; for different instances that hold nothing yet.

        The results are as from ``claim``: instances with ``try_next`` want another candidate. After one with
        ``hopeless`` the rest may not have been tried, and has the same outcome.

        Returns:
            Instance UUID → result.
        """
        # Neighbours on a host go together: the fewer providers in a transaction, the fewer conflicts.
        ordered = sorted(requests, key=lambda request: request.candidate.root)
        return _in_pieces(
            ordered, self._policy.batch_size, self._claim_batch, lambda result: not result.hopeless
        )

    def confirm_many(self, claims: Sequence[HeldClaim]) -> Results:
        """Confirm what the instances of a request hold, for all or for none: it is not given back then.

        More than ``policy.confirm_size`` are confirmed in pieces, up to the first that fails.

        What an instance holds by a claim that this daemon gives back for the same message is the request's
        from then on. Anything else is adopted.

        Returns:
            Instance UUID → result. An instance that does not hold the same any more has the outcome CONFLICT,
            and so have all others.
        """
        size = self._policy.confirm_size
        return _in_pieces(claims, size, self._confirm_some, lambda result: result.claimed)

    def _confirm_some(self, claims: Sequence[HeldClaim]) -> Results:
        requests = [one.request for one in claims]
        return self._with_locks(requests, lambda: self._confirm_locked(claims, requests))

    def _confirm_locked(self, claims: Sequence[HeldClaim], requests: Sequence[ClaimRequest]) -> Results:
        left = self._record_claims(requests, confirms=True)
        if left is None:
            return _refuse_all(requests, *self._refusal_of_busy())
        for request in requests:
            self._wait_for_dead_writes(request)
        end = min(_deadline_of(requests), self._timing.monotonic() + self._policy.claim_timeout)
        confirmation = Confirmation(
            [self._with_earlier(one, left.get(one.uuid, ())) for one in claims],
            self._parts,
            self.get_held_many,
            partial(self._refusal, end),
        )
        results = confirmation.confirm_all()
        return {request.uuid: self._settle(request, results[request.uuid]) for request in requests}

    def _with_earlier(self, claim: HeldClaim, left: tuple[OwnWrite, ...]) -> HeldClaim:
        """Return a claim with what this process is to give back, and what other ones have left."""
        pending = self._cleanup.pending_of(claim.uuid)
        return claim._replace(earlier=(*(pending.writes if pending else ()), *left))

    def _refusal(self, deadline: float) -> Refusal | None:
        """Return why nothing may be claimed any more; None while it may."""
        if self._stopping.is_set():
            return Refusal(Outcome.STOPPING, STOPPING)
        return Refusal(Outcome.UNAVAILABLE, TOO_LATE) if self._timing.monotonic() > deadline else None

    def _refusal_of_busy(self) -> Refusal:
        return self._refusal(math.inf) or Refusal(Outcome.CONFLICT, BUSY)

    def _lock_timeout(self, requests: Iterable[ClaimRequest]) -> float:
        left = _deadline_of(requests) - self._timing.monotonic()
        return max(0.0, min(self._policy.lock_timeout, left))

    def _with_locks(self, requests: Sequence[ClaimRequest], claim: Callable[[], Results]) -> Results:
        """Return what ``claim`` does while the locks of the instances are held, or why it is not called."""
        if refusal := self._refusal(_deadline_of(requests)):
            return _refuse_all(requests, *refusal)
        uuids = [request.uuid for request in requests]
        with self._instance_locks.hold(uuids, self._lock_timeout(requests)) as held:
            return claim() if held else _refuse_all(requests, Outcome.CONFLICT, BUSY)

    def _claim_batch(self, requests: Sequence[ClaimRequest]) -> Results:
        uuids = [request.uuid for request in requests]
        LOG.debug("Attempting to claim resources in the placement API for instances %s", uuids)
        return self._with_locks(requests, lambda: self._claim_batch_locked(requests))

    def _claim_batch_locked(self, requests: Sequence[ClaimRequest]) -> Results:
        uuids = [request.uuid for request in requests]
        if any(self._cleanup.is_pending(uuid) for uuid in uuids):
            return claim_one_by_one(requests, self._claim_locked)
        earlier = self._record_claims(requests)
        if earlier is None:
            return _refuse_all(requests, *self._refusal_of_busy())
        if any(self._cleanup.is_pending(uuid) for uuid in uuids):  # taken over from a dead process
            self._journal.withdraw_writes({request.uuid: request.plain for request in requests})
            return claim_one_by_one(requests, self._claim_locked)
        return self._claim_recorded_many(requests, earlier)

    def _claim_recorded_many(self, requests: Sequence[ClaimRequest], earlier: EarlierWrites) -> Results:
        """Claim what holds nothing together, and the rest one by one."""
        together = [request for request in requests if request.uuid not in earlier]
        results = self._distinguish_many(together, self._make_batch(together).claim_all())
        done = {request.uuid: self._settle(request, results[request.uuid]) for request in together}
        if any(result.hopeless for result in done.values()):
            return done
        alone = [request for request in requests if request.uuid in earlier]
        return done | claim_one_by_one(alone, partial(self._claim_recorded, earlier=earlier))

    def _make_batch(self, requests: Sequence[ClaimRequest]) -> Batch:
        return Batch(
            requests,
            self._parts,
            self._empty_consumers,
            self._claim_alone,
            partial(self._refusal, _deadline_of(requests)),
        )

    def _claim_locked(self, request: ClaimRequest) -> ClaimResult:
        self._wait_for_dead_writes(request)
        try:
            unsure = self._cleanup.finish_cleanup(request.uuid)
        except PlacementSilent as error:
            reason = f"an earlier claim cannot be given back: {error}"
            return unsent_claim(request.uuid, request.host_label, Outcome.UNAVAILABLE, reason)
        earlier = self._record_claims([request])
        if earlier is None:
            return unsent_claim(request.uuid, request.host_label, *self._refusal_of_busy())
        return self._claim_recorded(request, earlier, unsure=unsure)

    def _claim_recorded(
        self, request: ClaimRequest, earlier: EarlierWrites, *, unsure: bool = False
    ) -> ClaimResult:
        self._wait_for_dead_writes(request)
        left = earlier.get(request.uuid, ())
        pending = self._cleanup.pending_of(request.uuid)
        own = pending.writes if pending else ()
        late_until = self._timing.monotonic() + self._policy.late_write_window if left else -math.inf
        known = ConsumerState(
            self._empty_consumers.generation_of(request.uuid),
            unsure=unsure or bool(left or own),
            late_until=max(late_until, pending.late_until) if pending else late_until,
            earlier=(*own, *left),
            elsewhere=left,
        )
        return self._settle(request, self._distinguish(request, self._claim_alone(request, known)))

    def _distinguish_many(self, requests: Sequence[ClaimRequest], results: Results) -> Results:
        """Do as ``_distinguish`` for many claims, in one request to Placement if it accepts that."""
        again = [request for request in requests if _looks_like_earlier(request, results[request.uuid])]
        sent, done = self._repeat_together(again) if len(again) > 1 else (False, False)
        if done:
            made = {one.uuid: replace(results[one.uuid], made=one.repeated.made) for one in again}
        else:
            made = {one.uuid: self._distinguish(one, results[one.uuid], lost=int(sent)) for one in again}
        return results | made

    def _repeat_together(self, requests: Sequence[ClaimRequest]) -> tuple[bool, bool]:
        """Write claims once more; return whether that may have been carried out, and whether it has been."""
        with self._provider_locks.hold(roots_of(requests), self._lock_timeout(requests)) as held:
            if not held or self._stopping.is_set():
                return False, False
            writes = {request.uuid: request.repeated for request in requests}
            self._journal.record_writes(writes, requests[0].message_id)
            bodies = {request.uuid: claim_body(request.candidate, request.owner, 1) for request in requests}
            try:
                outcome = write_outcome(self._api.post_allocations(bodies, requests[0].context))
            except PlacementUnreachable:
                self._journal.withdraw_writes(writes)
                return False, False
            except PlacementSilent:
                return True, False
        if outcome not in IN_EFFECT:
            self._journal.withdraw_writes(writes)
        return outcome is WriteOutcome.UNKNOWN, outcome is WriteOutcome.DONE

    def _distinguish(self, request: ClaimRequest, result: ClaimResult, *, lost: int = 0) -> ClaimResult:
        """Write a claim of a redelivered request once more, if it looks like one of its earlier delivery.

        The process of that one may have died with the same claim recorded and not sent. Its successor,
        perhaps on another host, would take the allocations for these: both have generation 1, or the next one
        after that of the allocations which an evacuated instance keeps.

        Args:
            request: The request.
            result: The result of the claim.
            lost: How often it was written once more already, without a clear response.
        """
        if not _looks_like_earlier(request, result):
            return result
        known = ConsumerState(
            1 if result.previous is None else None,  # else the claim reads the instance again
            unsure=result.unsure,
            earlier=result.own_writes,
            elsewhere=result.own_writes,
            lost=lost,
            events=result.events,
        )
        again = self._claim_alone(request, known)
        if again.claimed:
            return replace(again, unsure=again.unsure or result.unsure, lost=again.lost + result.lost)
        return replace(again, unsure=True, lost=again.lost + result.own_writes)

    def _record_claims(
        self, requests: Sequence[ClaimRequest], *, confirms: bool = False
    ) -> EarlierWrites | None:
        """Record claims before they are sent.

        Of two processes that record at once both see the other, step back and try again. A confirmation takes
        over what another process gives back for the same message. The write raises the generation: so it is
        left alone there, and is this process's to give back. It is recorded right before it is sent, with its
        own generation: with that of a new consumer, its record would be taken for that of the allocations.

        Args:
            requests: The claims.
            confirms: Whether they confirm what the instances hold.

        Returns:
            What other processes have written and may be replaced; None if another process has claims for an
            instance that may not, and nothing may be sent.
        """
        uuids = [request.uuid for request in requests]
        writes = {} if confirms else {request.uuid: request.plain for request in requests}
        unrecorded = writes
        end = self._timing.monotonic() + self._lock_timeout(requests)
        while True:
            self._journal.record_writes(unrecorded, requests[0].message_id)
            others = self._journal.claims_of_others(uuids, requests[0].message_id)
            if not others.busy and (confirms or not others.returned):
                return others.earlier
            # Records of what is still to be given back stay, and those with them.
            unrecorded = {uuid: one for uuid, one in writes.items() if not self._cleanup.is_pending(uuid)}
            self._journal.remove_records(list(unrecorded))
            if self._timing.monotonic() >= end or self._stopping.is_set():
                return None
            self._timing.sleep(self._timing.uniform(*self._policy.retry_delay))

    def _claim_alone(self, request: ClaimRequest, known: ConsumerState) -> ClaimResult:
        claim = AllocationClaim(request, self._parts, known, self._stopping.is_set)
        result = claim.claim()
        if claim.left_empty_consumer:
            self._empty_consumers.add(request.uuid)
        return result

    def _settle(self, request: ClaimRequest, result: ClaimResult) -> ClaimResult:
        """Clean up after a failed claim; let a successful one take over what is pending."""
        self._late_writes.forget(request.uuid)
        if not result.claimed:
            if result.unsure:
                self._cleanup.schedule_cleanup(request.uuid, result, request.context)
            elif not self._cleanup.is_pending(request.uuid):
                self._journal.withdraw_records([request.uuid])
            return result
        self._empty_consumers.discard(request.uuid)
        earlier = self._cleanup.cancel_cleanup(request.uuid)
        if earlier is None:
            return result
        return replace(result, unsure=True, lost=result.lost + earlier.writes)

    def get_held(self, instance_uuid: str, context: Any = None) -> ConsumerAllocations:
        """Return what an instance holds now.

        Raises:
            PlacementSilent: Placement does not tell.
        """
        return self._api.get_allocations(instance_uuid, context)

    def get_held_many(
        self, instance_uuids: Sequence[str], context: Any = None
    ) -> Mapping[str, ConsumerAllocations]:
        """Return what instances hold now, by UUID; the first that holds nothing ends the reading.

        Raises:
            PlacementSilent: Placement does not tell what one of them holds.
        """
        read = partial(self._api.get_allocations, context=context)
        return read_each(read, instance_uuids, self._policy.reads_at_once, lambda held: not held.allocations)

    def release(self, instance_uuid: str, claim: ClaimResult, context: Any = None) -> None:
        """Give back a claim; as ``release_many``."""
        self.release_many({instance_uuid: claim}, context)

    def release_many(self, claims: Mapping[str, ClaimResult], context: Any = None) -> None:
        """Give back claims that succeeded, by instance UUID; those that failed are left alone. Never raises.

        What cannot be done in ``policy.release_timeout`` seconds is done in the background, for a bounded
        time.
        """
        self._cleanup.release_claims({uuid: one for uuid, one in claims.items() if one.claimed}, context)

    def wait_until_released(self, instance_uuids: Collection[str], deadline: float) -> None:
        """Wait until claims that were handed to ``release_many`` are released.

        Args:
            instance_uuids: The instances.
            deadline: When to wait no longer; seconds of the clock of claims. ``stop_claiming`` ends it, too.
        """
        while not self._stopping.is_set() and (left := deadline - self._timing.monotonic()) > 0:
            if self._cleanup.wait_until_released(instance_uuids, min(left, _LOOK_INTERVAL)):
                return

    def drain(self, timeout: float) -> list[str]:
        """Wait until requests, claims in flight and pending cleanups have ended, ``timeout`` seconds at most.

        Returns:
            The instances that may be left with allocations; each has an error in the log.
        """
        self._late_writes.stop()
        deadline = self._timing.monotonic() + timeout
        while (
            self._request_locks.busy() or self._instance_locks.busy()
        ) and self._timing.monotonic() < deadline:
            self._timing.sleep(_DRAIN_POLL)
        return self._cleanup.drain(max(0.0, deadline - self._timing.monotonic()))


def _looks_like_earlier(request: ClaimRequest, result: ClaimResult) -> bool:
    """Return whether a claim cannot be told from one that an earlier delivery of the request recorded."""
    if not (request.redelivered and result.claimed and result.made is not None) or result.adopted:
        return False
    return result.made.generation == 1 or result.previous is not None


def _in_pieces(
    claims: Sequence[_Claim],
    size: int,
    write: Callable[[Sequence[_Claim]], Results],
    goes_on: Callable[[ClaimResult], bool],
) -> Results:
    """Write claims some at a time, up to a result after which the rest is given up for the same reason."""
    results: Results = {}
    for start in range(0, len(claims), size):
        results |= write(claims[start : start + size])
        last = next((result for result in results.values() if not goes_on(result)), None)
        if last:
            return {one.uuid: ClaimResult(last.outcome, last.reason) for one in claims} | results
    return results


def _deadline_of(requests: Iterable[ClaimRequest]) -> float:
    """Return when the first of the callers stops waiting; infinity without requests."""
    return min((request.deadline for request in requests), default=math.inf)


def _refuse_all(requests: Iterable[ClaimRequest], outcome: Outcome, reason: str) -> Results:
    return {
        request.uuid: unsent_claim(request.uuid, request.host_label, outcome, reason) for request in requests
    }
