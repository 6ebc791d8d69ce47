"""Claiming candidates for instances, and giving them back (spec: placement-and-workflow 4, 6.1).

From one process, at most one claim for an instance is in flight: writes for one consumer that overlap can
leave rows that Placement does not show.

At most one request for an instance has claims at a time: a second one waits for a bounded time, and is then
refused. Requests of other processes of the daemon are known by the journal.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
import math
import threading
from typing import Any, TypeVar

from oslo_log import log

from scheduler.claims.claim import STOPPING, Claim, Results, claim_all
from scheduler.claims.claim_request import ClaimRequest, ConsumerState
from scheduler.claims.cleanup import AllocationCleanup
from scheduler.claims.fence import Fence, HeldClaim
from scheduler.claims.journal import ClaimJournal, Journal
from scheduler.claims.late_writes import IsDeleted, LateWrites
from scheduler.claims.parts import ClaimParts
from scheduler.claims.policy import ClaimPolicy
from scheduler.claims.recorded_writes import EarlierWrites, RecordedClaims
from scheduler.claims.result import ClaimResult, Outcome, Refusal, unsent_claim
from scheduler.locks import KeyedLocks
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.errors import PlacementSilent

LOG = log.getLogger(__name__)

BUSY = "another request for the instance is being served"

TOO_LATE = "its caller has given up by now"

_Claim = TypeVar("_Claim", ClaimRequest, HeldClaim)

# Seconds between looks at whether claims are in flight, while the process stops.
_DRAIN_POLL = 0.05

# Seconds between looks at whether the process stops, while releases are waited for.
_LOOK_INTERVAL = 1.0


class Claimer:
    """Claims and releases of a process; any thread may use it. It is made anew after a fork.

    Attributes:
        on_event: Called at each event of a claim; must not wait.
        recorded: What is recorded of claims.
        journal: The records of this process.
    """

    def __init__(
        self,
        writer: AllocationWriter,
        policy: ClaimPolicy = ClaimPolicy(),  # noqa: B008 - it is immutable
        is_deleted: IsDeleted = lambda _uuid: None,
    ) -> None:
        """Begin without claims.

        Args:
            writer: Writes and reads allocations.
            policy: The bounds of claims and cleanups.
            is_deleted: Returns whether an instance was deleted in nova; None if that is not known.
        """
        self.on_event: Callable[[], None] = lambda: None
        on_event = lambda: self.on_event()  # noqa: E731, PLW0108 - it is set later
        self._parts = parts = ClaimParts(writer, policy, on_event=on_event)
        self._policy, self._timing = policy, parts.timing
        self.journal: ClaimJournal = parts.journal
        self._instance_locks = KeyedLocks()
        self._request_locks = KeyedLocks()
        self._stopping = threading.Event()
        writer.before_try = self.journal.mark_sent
        self._cleanup = AllocationCleanup(writer, self._instance_locks, policy, self._forget_claims)
        self.recorded = RecordedClaims(parts, self._cleanup, self._stopping.is_set)
        self._late_writes = LateWrites(parts, self._cleanup, self._instance_locks, is_deleted)

    def _forget_claims(self, uuids: Collection[str]) -> None:
        self.recorded.forget(uuids)

    def start(self) -> None:
        """Start the background thread that gives claims back, before the first request is served.

        Raises:
            RuntimeError: The system has no thread left.
        """
        self._cleanup.start()

    def open_journal(self, journal: Journal) -> None:
        """Record claims there from now on, and give back in the background what a dead process recorded."""
        self.recorded.open(journal)

    def pending_cleanups(self) -> int:
        """Return for how many instances something is still to be given back."""
        return len(self._cleanup)

    def confirm_claims(self, instance_uuids: Iterable[str]) -> None:
        """Remove the records of claims whose request is over.

        Records of what is still to be given back stay.
        """
        self.journal.remove_records([uuid for uuid in instance_uuids if not self._cleanup.is_pending(uuid)])

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
        """Give the instance what the candidate says; as ``claim_many``."""
        return self.claim_many([request])[request.uuid]

    def claim_many(self, requests: Iterable[ClaimRequest]) -> Results:
        """Give each instance what its candidate says. Never raises for a failure of Placement.

        The caller goes on to another candidate only if ``try_next`` of the result says so, and hands what was
        claimed but is not wanted to ``release``. A claim that failed needs no release: what may yet come of
        it is cleaned up here. After one with ``hopeless`` the rest may not have been tried, and has the same
        outcome.

        What the instance holds on the nodes of ``request.evacuating_from`` it keeps besides; what it holds
        elsewhere by an earlier claim is replaced.

        Args:
            requests: For different instances.

        Returns:
            Instance UUID → result.
        """
        # Neighbours on a host go together: the fewer providers in a transaction, the fewer conflicts.
        ordered = sorted(requests, key=lambda request: request.candidate.root)
        return _in_pieces(
            ordered, self._policy.batch_size, self._claim_some, lambda result: not result.hopeless
        )

    def confirm_many(self, claims: Sequence[HeldClaim]) -> Results:
        """Fence what the instances of a request hold, for all or for none: it is not given back then.

        More than ``policy.confirm_size`` are fenced in pieces, up to the first that fails.

        What an instance holds by a claim that this daemon gives back for the same message is the request's
        from then on. Anything else is adopted.

        Returns:
            Instance UUID → result. An instance that does not hold the same any more has the outcome CONFLICT,
            and so have all others.
        """
        size = self._policy.confirm_size
        return _in_pieces(claims, size, self._fence_some, lambda result: result.claimed)

    def _claim_some(self, requests: Sequence[ClaimRequest]) -> Results:
        for request in requests:
            LOG.debug("Attempting to claim resources in the placement API for instance %s", request.uuid)
        return self._with_locks(requests, lambda: self._claim_locked(requests))

    def _claim_locked(self, requests: Sequence[ClaimRequest]) -> Results:
        try:
            for request in requests:
                self.recorded.wait_for_dead_writes(request)
                self._cleanup.finish_cleanup(request.uuid)
        except PlacementSilent as error:
            return _refuse_all(
                requests, Outcome.UNAVAILABLE, f"an earlier claim cannot be given back: {error}"
            )
        earlier = self.recorded.record(requests, self._lock_timeout(requests))
        if earlier is None:
            return _refuse_all(requests, *self._refusal_of_busy())
        for request in requests:
            self.recorded.wait_for_dead_writes(request)
        claims = [Claim(one, self._parts, self._known(one.uuid, earlier)) for one in requests]
        refusal, until = self._bounds(requests)
        return self._settle_all(requests, claim_all(claims, self._parts, refusal, until))

    def _known(self, uuid: str, earlier: EarlierWrites) -> ConsumerState:
        """Return what is known of a consumer: what this process is to give back, and what other ones left."""
        left, pending = earlier.get(uuid, ()), self._cleanup.pending_of(uuid)
        window = self._parts.writer.policy.late_write_window
        late_until = self._timing.monotonic() + window if left else -math.inf
        return ConsumerState(
            max(late_until, pending.late_until) if pending else late_until,
            earlier=(*(pending.writes if pending else ()), *left),
            elsewhere=left,
        )

    def _fence_some(self, claims: Sequence[HeldClaim]) -> Results:
        requests = [one.request for one in claims]
        return self._with_locks(requests, lambda: self._fence_locked(claims, requests))

    def _fence_locked(self, claims: Sequence[HeldClaim], requests: Sequence[ClaimRequest]) -> Results:
        left = self.recorded.record(requests, self._lock_timeout(requests), confirms=True)
        if left is None:
            return _refuse_all(requests, *self._refusal_of_busy())
        for request in requests:
            self.recorded.wait_for_dead_writes(request)
        held = [one._replace(earlier=self._known(one.uuid, left).earlier) for one in claims]
        return self._settle_all(requests, Fence(held, self._parts, *self._bounds(requests)).write())

    def _bounds(self, requests: Sequence[ClaimRequest]) -> tuple[Callable[[], Refusal | None], float]:
        """Return what tells why nothing more may be sent, and when to give up."""
        deadline = _deadline_of(requests)
        until = min(deadline, self._timing.monotonic() + self._policy.claim_timeout)
        return (lambda: self._refusal(deadline)), until

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

    def _settle_all(self, requests: Sequence[ClaimRequest], results: Results) -> Results:
        return {request.uuid: self._settle(request, results[request.uuid]) for request in requests}

    def _settle(self, request: ClaimRequest, result: ClaimResult) -> ClaimResult:
        """Clean up after a failed claim; let a successful one take over what is pending."""
        self._late_writes.forget(request.uuid)
        if not result.claimed:
            if result.unsure:
                self._cleanup.schedule_cleanup(request.uuid, result, request.context)
            elif not self._cleanup.is_pending(request.uuid):
                self.journal.withdraw_records([request.uuid])
            return result
        earlier = self._cleanup.cancel_cleanup(request.uuid)
        if earlier is None:
            return result
        return replace(result, unsure=True, lost=result.lost + earlier.writes)

    def get_held(self, instance_uuid: str, context: Any = None) -> ConsumerAllocations:
        """Return what an instance holds now.

        Raises:
            PlacementSilent: Placement does not tell.
        """
        return self._parts.writer.reader.read(instance_uuid, context)

    def get_held_many(
        self, instance_uuids: Sequence[str], context: Any = None
    ) -> Mapping[str, ConsumerAllocations]:
        """Return what instances hold now, by UUID; the first that holds nothing ends the reading.

        Raises:
            PlacementSilent: Placement does not tell what one of them holds.
        """
        return self._parts.writer.reader.read_many(instance_uuids, context, lambda held: not held.allocations)

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
