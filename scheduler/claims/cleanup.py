"""Giving back what a claim gave an instance (spec: placement-and-workflow 4.6, 4.8).

A claim is given back at once. If Placement does not answer, or a lost write may still be carried out, a
background thread tries again until it is certain that nothing of the claim is left.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
import logging
import threading
from typing import Any

from oslo_log import log

from scheduler.claims.allocations_api import (
    NOTHING,
    AllocationsApi,
    ConsumerAllocations,
    allocations_body,
    emptying_body,
    restoring_body,
)
from scheduler.claims.policy import ClaimPolicy, Timing
from scheduler.claims.responses import WriteOutcome, write_outcome
from scheduler.claims.result import ClaimResult
from scheduler.locks import KeyedLocks
from scheduler.placement.errors import PlacementSilent, PlacementUnreachable

LOG = log.getLogger(__name__)

_WITHOUT_DECISION = {WriteOutcome.UNKNOWN, WriteOutcome.CONCURRENT, WriteOutcome.DENIED}


@dataclass(slots=True)
class PendingCleanup:
    """An instance that may hold allocations of claims that are given back.

    Attributes:
        uuid: The instance.
        ours: What our writes gave it, or may yet give it. Other allocations are left alone.
        since: When the first of these claims was given back; seconds of the clock.
        previous: What it held before, and shall hold again; None for nothing.
        late_until: Until then a lost write may still be carried out.
        overlapped: Two writes ran at once, so that rows may exist which Placement does not show.
        certain: It holds exactly ``ours``, as nothing came between the claim and now.
        context: The context of the request, for Placement's log.
        due: When to try next.
        attempts: How often it was tried.
    """

    uuid: str
    ours: tuple[ConsumerAllocations, ...]
    since: float
    previous: ConsumerAllocations | None = None
    late_until: float = 0.0
    overlapped: bool = False
    certain: bool = False
    context: Any = None
    due: float = 0.0
    attempts: int = 0

    def joined_with(self, later: "PendingCleanup") -> "PendingCleanup":
        """Return this cleanup together with that of a later claim for the same instance.

        What the instance held before the first claim is what is put back.
        """
        return replace(
            later,
            ours=self.ours + later.ours,
            previous=self.previous or later.previous,
            late_until=max(self.late_until, later.late_until),
            overlapped=self.overlapped or later.overlapped,
            certain=False,
            since=self.since,
        )


def attempt_cleanup(api: AllocationsApi, cleanup: PendingCleanup, now: float) -> bool:
    """Give back what the instance holds of ours; return whether nothing is left to do.

    The caller holds the lock of the instance.

    Raises:
        PlacementSilent: No response, or a failure.
    """
    if cleanup.certain and not cleanup.attempts:
        _delete_allocations(api, cleanup)
        return True
    current = api.get_allocations(cleanup.uuid, cleanup.context)
    if any(current.allocations == ours.allocations for ours in cleanup.ours):
        _replace_allocations(api, cleanup, current)
        LOG.info("Deleted allocations for instance %s", cleanup.uuid)
        current = cleanup.previous or NOTHING
    if now < cleanup.late_until:
        return False
    if cleanup.overlapped and not current.allocations:
        _delete_hidden_rows(api, cleanup)
    return True


def _replace_allocations(api: AllocationsApi, cleanup: PendingCleanup, current: ConsumerAllocations) -> None:
    # Not DELETE: with the generation, nothing is written if another writer changed the consumer since.
    if cleanup.previous:
        body = restoring_body(cleanup.previous, current.generation)
    else:
        body = emptying_body(current)
    reply = api.put_allocations(cleanup.uuid, body, cleanup.context)
    if write_outcome(reply) is not WriteOutcome.DONE:
        raise PlacementUnreachable(reply.summary)


def _delete_hidden_rows(api: AllocationsApi, cleanup: PendingCleanup) -> None:
    """Write rows that Placement does not show once more, after which they show; then delete them."""
    made = cleanup.ours[-1]
    body = allocations_body(made.allocations, made.owner, None)
    reply = api.put_allocations(cleanup.uuid, body, cleanup.context)
    outcome = write_outcome(reply)
    if outcome is WriteOutcome.DONE:
        _delete_allocations(api, cleanup)
    elif outcome in _WITHOUT_DECISION:
        raise PlacementUnreachable(reply.summary)


def _delete_allocations(api: AllocationsApi, cleanup: PendingCleanup) -> None:
    reply = api.delete_allocations(cleanup.uuid, cleanup.context)
    if reply.status == 204:
        LOG.info("Deleted allocations for instance %s", cleanup.uuid)
    elif reply.status != 404:
        raise PlacementUnreachable(reply.summary)


class AllocationCleanup:
    """The cleanups of a process; any thread may use it.

    The background thread exists only while a cleanup is pending.
    """

    def __init__(
        self,
        api: AllocationsApi,
        instance_locks: KeyedLocks,
        policy: ClaimPolicy,
        on_finished: Callable[[str], None] = lambda _uuid: None,
        timing: Timing = Timing(),  # noqa: B008 - it is immutable
    ) -> None:
        """Begin without pending cleanups.

        Args:
            api: The requests to Placement.
            instance_locks: Keep claims and cleanups of one instance apart.
            policy: The bounds.
            on_finished: Called with the UUID of each instance of which nothing is left to clean up.
            timing: The clock.
        """
        self._api = api
        self._instance_locks = instance_locks
        self._policy = policy
        self._on_finished = on_finished
        self._timing = timing
        self._changed = threading.Condition()
        self._pending: dict[str, PendingCleanup] = {}
        self._worker: threading.Thread | None = None
        self._draining = False

    def release_claim(self, uuid: str, claim: ClaimResult, context: Any = None) -> None:
        """Give back a claim. Never raises: what cannot be done now is done in the background.

        What the instance held before the claim is put back.
        """
        # Pending from now on: if a claim comes first, it takes over, and its allocations are left alone.
        cleanup = self._add_cleanup(uuid, claim, context)
        self._attempt(cleanup, self._policy.lock_timeout)

    def schedule_cleanup(self, uuid: str, claim: ClaimResult, context: Any = None) -> None:
        """Give back in the background what a claim wrote, or what a lost write may yet do."""
        cleanup = self._add_cleanup(uuid, claim, context)
        with self._changed:
            if len(self._pending) > self._policy.cleanup_capacity:
                self._give_up(cleanup)
            self._start_worker()
            self._changed.notify_all()

    def cancel_cleanup(self, uuid: str) -> PendingCleanup | None:
        """Cancel what is pending for an instance, after a later claim for it has succeeded.

        While that claim holds, no earlier write can take effect.

        Returns:
            What could take effect once the later claim is given back; None if nothing was pending.
        """
        with self._changed:
            cleanup = self._pending.pop(uuid, None)
            self._changed.notify_all()
        return cleanup

    def is_pending(self, uuid: str) -> bool:
        """Return whether anything of an earlier claim is still to be given back."""
        with self._changed:
            return uuid in self._pending

    def finish_cleanup(self, uuid: str) -> bool:
        """Give back now what is pending for an instance, before another claim for it.

        The caller holds the lock of the instance.

        Returns:
            Whether a lost write may still be carried out.

        Raises:
            PlacementSilent: It cannot be given back now.
        """
        with self._changed:
            cleanup = self._pending.get(uuid)
        if cleanup is None:
            return False
        if not attempt_cleanup(self._api, cleanup, self._timing.monotonic()):
            return True
        with self._changed:
            self._finish(cleanup)
        return False

    def drain(self, timeout: float) -> list[str]:
        """Try all cleanups with short delays, for at most ``timeout`` seconds.

        Returns:
            The instances that may be left with allocations.
        """
        with self._changed:
            self._draining = True
            for cleanup in self._pending.values():
                cleanup.due = 0.0
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._pending, timeout)
            left, self._pending = self._pending, {}
            self._draining = False
            self._changed.notify_all()
        for cleanup in left.values():
            _log_abandoned(cleanup)
        return list(left)

    def _add_cleanup(self, uuid: str, claim: ClaimResult, context: Any) -> PendingCleanup:
        now = self._timing.monotonic()
        made = (claim.made,) if claim.made else ()
        cleanup = PendingCleanup(
            uuid,
            ours=made + claim.earlier,
            since=now,
            previous=claim.previous,
            late_until=now + self._policy.late_write_window if claim.unsure else 0.0,
            overlapped=claim.overlapped,
            certain=claim.claimed and not (claim.previous or claim.unsure),
            context=context,
            due=now + self._policy.cleanup_delays[0],
        )
        with self._changed:
            earlier = self._pending.get(uuid)
            cleanup = earlier.joined_with(cleanup) if earlier else cleanup
            self._pending[uuid] = cleanup
        return cleanup

    def _start_worker(self) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="placement-releases", daemon=True)
            self._worker.start()

    def _work(self) -> None:
        while cleanup := self._wait_for_due():
            # A claim for the same instance may go first.
            self._attempt(cleanup, 0.0)

    def _wait_for_due(self) -> PendingCleanup | None:
        """Return the next cleanup once it is due; None if there is none left, and the thread ends."""
        with self._changed:
            while self._pending:
                soonest = min(self._pending.values(), key=lambda cleanup: cleanup.due)
                wait = soonest.due - self._timing.monotonic()
                if wait <= 0:
                    return soonest
                self._changed.wait(wait)
            self._worker = None
            return None

    def _attempt(self, cleanup: PendingCleanup, lock_timeout: float) -> None:
        done = False
        try:
            with self._instance_locks.hold([cleanup.uuid], lock_timeout) as held:
                done = (
                    held
                    and self._is_current(cleanup)
                    and attempt_cleanup(self._api, cleanup, self._timing.monotonic())
                )
        except PlacementSilent as error:
            level = logging.DEBUG if cleanup.attempts else logging.WARNING
            LOG.log(level, "Removing allocations of instance %s is delayed: %s", cleanup.uuid, error)
        except Exception:
            LOG.exception("Removing allocations of instance %s failed", cleanup.uuid)
        with self._changed:
            if done:
                self._finish(cleanup)
            elif self._is_current(cleanup):
                self._postpone(cleanup)
            self._changed.notify_all()

    def _is_current(self, cleanup: PendingCleanup) -> bool:
        with self._changed:
            return self._pending.get(cleanup.uuid) is cleanup

    def _finish(self, cleanup: PendingCleanup) -> None:
        if self._is_current(cleanup):
            del self._pending[cleanup.uuid]
            self._on_finished(cleanup.uuid)

    def _give_up(self, cleanup: PendingCleanup) -> None:
        _log_abandoned(cleanup)
        self._finish(cleanup)

    def _postpone(self, cleanup: PendingCleanup) -> None:
        """Set when to try again, unless the time for this cleanup is over."""
        now, policy = self._timing.monotonic(), self._policy
        if now - cleanup.since > policy.cleanup_timeout or len(self._pending) > policy.cleanup_capacity:
            self._give_up(cleanup)
            return
        delays = policy.cleanup_delays
        delay = policy.drain_delay if self._draining else delays[min(cleanup.attempts, len(delays) - 1)]
        cleanup.attempts += 1
        cleanup.due = now + delay
        self._start_worker()


def _log_abandoned(cleanup: PendingCleanup) -> None:
    LOG.error(
        "Instance %s may have been left with allocations of a claim that was given up: %s",
        cleanup.uuid,
        [made.allocations for made in cleanup.ours],
    )
