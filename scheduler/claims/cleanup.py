"""Give claims back: at once, or when Placement does not let us, in the background until it does.

Take back what a claim of ours gave an instance (spec: placement-and-workflow 4.6, 4.8).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
import logging
import threading
import time

from oslo_log import log

from scheduler.claims.allocations_api import (
    NOTHING,
    AllocationsApi,
    ConsumerAllocations,
    emptied,
    plain,
    restored,
)
from scheduler.claims.policy import ClaimPolicy
from scheduler.claims.responses import Verdict, judge
from scheduler.claims.result import ClaimResult
from scheduler.locks import KeyedLocks
from scheduler.placement.errors import PlacementSilent, PlacementUnreachable

LOG = log.getLogger(__name__)

_TELLS_NOTHING = {Verdict.UNKNOWN, Verdict.CONCURRENT, Verdict.DENIED}


@dataclass(slots=True)
class PendingCleanup:
    """An instance that may hold something of ours.

    :ivar ours: what our writes gave it, or may yet give it. Whatever else it holds is somebody else's, and
        left alone.
    :ivar previous: what it held before, and shall hold again; None for nothing.
    :ivar late: until then (monotonic) a lost write may still be carried out.
    :ivar overlapped: two writes ran at once, so that rows may exist which Placement does not show.
    :ivar certain: it holds exactly ours, as nothing came between the claim and now.
    """

    uuid: str
    ours: tuple[ConsumerAllocations, ...]
    previous: ConsumerAllocations | None = None
    late: float = 0.0
    overlapped: bool = False
    certain: bool = False
    context: object = None
    since: float = field(default_factory=time.monotonic)
    due: float = 0.0
    attempts: int = 0

    def joined(self, other: "PendingCleanup") -> "PendingCleanup":
        """With a later claim for the same instance. What it held before the first one is what counts."""
        return replace(
            other,
            ours=self.ours + other.ours,
            previous=self.previous or other.previous,
            late=max(self.late, other.late),
            overlapped=self.overlapped or other.overlapped,
            certain=False,
            since=self.since,
        )


def undo(api: AllocationsApi, leftover: PendingCleanup) -> bool:
    """One attempt; True if nothing is left to do. The caller keeps other writers of this process away.

    :raises PlacementSilent: no answer, or not the one that is wanted.
    """
    if leftover.certain and not leftover.attempts:
        delete(api, leftover.uuid, leftover.context)
        return True
    held = api.read(leftover.uuid, leftover.context)
    if any(held.allocations == ours.allocations for ours in leftover.ours):
        _take_back(api, leftover, held)
        LOG.info("Deleted allocations for instance %s", leftover.uuid)
        held = leftover.previous or NOTHING
    if time.monotonic() < leftover.late:
        return False
    if leftover.overlapped and not held.allocations:
        _uncover(api, leftover)
    return True


def _take_back(api: AllocationsApi, leftover: PendingCleanup, held: ConsumerAllocations) -> None:
    # Not DELETE: the generation makes sure that nobody has changed the consumer since it was read.
    if leftover.previous:
        body = restored(leftover.previous, held.generation)
    else:
        body = emptied(held)
    reply = api.put(leftover.uuid, body, leftover.context)
    if judge(reply) is not Verdict.DONE:
        raise PlacementUnreachable(reply.summary)


def _uncover(api: AllocationsApi, leftover: PendingCleanup) -> None:
    """Rows that Placement does not show are replaced, and so shown again, by one more write; then deleted."""
    made = leftover.ours[-1]
    body = plain(made.allocations, made.owner, None)
    reply = api.put(leftover.uuid, body, leftover.context)
    verdict = judge(reply)
    if verdict is Verdict.DONE:
        delete(api, leftover.uuid, leftover.context)
    elif verdict in _TELLS_NOTHING:
        raise PlacementUnreachable(reply.summary)


def delete(api: AllocationsApi, uuid: str, context) -> None:
    """Drop all that an instance holds; it may hold nothing.

    :raises PlacementSilent: no answer, or not the one that is wanted.
    """
    reply = api.delete(uuid, context)
    if reply.status == 204:
        LOG.info("Deleted allocations for instance %s", uuid)
    elif reply.status != 404:
        raise PlacementUnreachable(reply.summary)


LOG = log.getLogger(__name__)

# Instances whose clean-up is pending. Beyond that, error lines are all that is left of them.
CAPACITY = 10_000

# Seconds between attempts when the daemon is about to end.
HURRIED = 0.2


class AllocationCleanup:
    """The clean-ups of a process. ``instances`` keeps claims and clean-ups of one instance apart.

    The background thread exists only while there is something to do. ``settled`` is told of each instance for
    which nothing is left to do.
    """

    def __init__(
        self,
        api: AllocationsApi,
        instances: KeyedLocks,
        patience: ClaimPolicy,
        settled: Callable[[str], None] = lambda _uuid: None,
    ) -> None:
        self._settled = settled
        self._api = api
        self._instances = instances
        self._patience = patience
        self._changed = threading.Condition()
        self._pending: dict[str, PendingCleanup] = {}
        self._worker: threading.Thread | None = None
        self._hurried = False

    def release(self, uuid: str, claim: ClaimResult, context) -> None:
        """Undo a claim. Never raises: what cannot be done now is done in the background.

        What the instance held before the claim is put back.
        """
        # Pending from now on: a claim that comes first takes over, and what it gets is not ours to undo.
        self._attempt(self._add(self._leftover(uuid, claim, context)), self._patience.lock)

    def later(self, uuid: str, claim: ClaimResult, context) -> None:
        """Undo a claim in the background, or whatever may yet come of one that is given up."""
        leftover = self._add(self._leftover(uuid, claim, context))
        with self._changed:
            if len(self._pending) > CAPACITY:
                self._give_up(leftover)
            self._start_worker()
            self._changed.notify_all()

    def _add(self, leftover: PendingCleanup) -> PendingCleanup:
        with self._changed:
            before = self._pending.get(leftover.uuid)
            leftover = before.joined(leftover) if before else leftover
            self._pending[leftover.uuid] = leftover
        return leftover

    def _leftover(self, uuid: str, claim: ClaimResult, context) -> PendingCleanup:
        now = time.monotonic()
        made = (claim.made,) if claim.made else ()
        return PendingCleanup(
            uuid,
            ours=made + claim.earlier,
            previous=claim.previous,
            late=now + self._patience.late if claim.unsure else 0.0,
            overlapped=claim.overlapped,
            certain=claim.claimed and not (claim.previous or claim.unsure),
            context=context,
            due=now + self._patience.cleanup[0],
        )

    def forget(self, uuid: str) -> PendingCleanup | None:
        """A later claim for the instance succeeded: as long as it stands, nothing of an earlier one can come.

        What could come once it is undone.
        """
        with self._changed:
            leftover = self._pending.pop(uuid, None)
            self._changed.notify_all()
        return leftover

    def pending(self, uuid: str) -> bool:
        """Whether something of an earlier claim is still to be undone."""
        with self._changed:
            return uuid in self._pending

    def catch_up(self, uuid: str) -> bool:
        """Before another claim for the instance: undo now what is pending. The caller holds its lock.

        True if a lost write may still be carried out.

        :raises PlacementSilent: it cannot be undone now.
        """
        with self._changed:
            leftover = self._pending.get(uuid)
        if leftover is None:
            return False
        if not undo(self._api, leftover):
            return True
        with self._changed:
            self._end(leftover)
        return False

    def drain(self, timeout: float) -> list[str]:
        """Try without pauses until all is done, or for ``timeout`` seconds; the instances that are left."""
        with self._changed:
            self._hurried = True
            for leftover in self._pending.values():
                leftover.due = 0.0
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._pending, timeout)
            left, self._pending = self._pending, {}
            self._hurried = False
            self._changed.notify_all()
        for leftover in left.values():
            _abandon(leftover)
        return list(left)

    def _start_worker(self) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="placement-releases", daemon=True)
            self._worker.start()

    def _work(self) -> None:
        while leftover := self._next():
            # A claim for the same instance is welcome to go first.
            self._attempt(leftover, 0.0)

    def _next(self) -> PendingCleanup | None:
        """The next one that is due, waited for; None if there is nothing left, and the thread ends."""
        with self._changed:
            while self._pending:
                soonest = min(self._pending.values(), key=lambda leftover: leftover.due)
                wait = soonest.due - time.monotonic()
                if wait <= 0:
                    return soonest
                self._changed.wait(wait)
            self._worker = None
            return None

    def _attempt(self, leftover: PendingCleanup, patience: float) -> None:
        done = False
        try:
            with self._instances.hold([leftover.uuid], patience) as alone:
                done = alone and self._stands(leftover) and undo(self._api, leftover)
        except PlacementSilent as error:
            level = logging.DEBUG if leftover.attempts else logging.WARNING
            LOG.log(level, "Allocations of %s are given back later: %s", leftover.uuid, error)
        except Exception:
            LOG.exception("Allocations of %s are not given back", leftover.uuid)
        with self._changed:
            if done:
                self._end(leftover)
            elif self._stands(leftover):
                self._postpone(leftover)
            self._changed.notify_all()

    def _stands(self, leftover: PendingCleanup) -> bool:
        with self._changed:
            return self._pending.get(leftover.uuid) is leftover

    def _end(self, leftover: PendingCleanup) -> None:
        if self._stands(leftover):
            del self._pending[leftover.uuid]
            self._settled(leftover.uuid)

    def _give_up(self, leftover: PendingCleanup) -> None:
        _abandon(leftover)
        self._end(leftover)

    def _postpone(self, leftover: PendingCleanup) -> None:
        """Set when to try again, unless it was tried for long enough."""
        now = time.monotonic()
        if now - leftover.since > self._patience.cleanup_limit or len(self._pending) > CAPACITY:
            self._give_up(leftover)
            return
        delays = self._patience.cleanup
        delay = HURRIED if self._hurried else delays[min(leftover.attempts, len(delays) - 1)]
        leftover.attempts += 1
        leftover.due = now + delay
        self._start_worker()


def _abandon(leftover: PendingCleanup) -> None:
    LOG.error(
        "Instance %s may have been left with allocations of a claim that was given up: %s",
        leftover.uuid,
        [made.allocations for made in leftover.ours],
    )
