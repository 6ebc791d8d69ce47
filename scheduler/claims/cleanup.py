"""Giving back what claims gave an instance (spec: placement-and-workflow 4.6, 4.8, 4.9).

A claim is given back with the consumer generation that proves it to be ours: what another request has written
since is left alone. Each of our writes takes effect at most once, so that a cleanup ends when all of them are
given back, even if a lost one could have come later.

A background thread gives claims back, many in one request to Placement. A caller waits for it a short time
only. It tries again until it is certain that nothing of a claim is left.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
import math
import threading
from typing import Any

from oslo_log import log

from scheduler.claims.policy import ClaimPolicy
from scheduler.claims.result import ClaimResult, OwnWrite, own_write_in
from scheduler.locks import KeyedLocks
from scheduler.logs import RateLimitedLogger
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import NOTHING, ConsumerAllocations
from scheduler.placement.errors import PlacementSilent, PlacementUnreachable
from scheduler.placement.writes import Write, WriteResult, Written

LOG = log.getLogger(__name__)

_WITHOUT_DECISION = {
    WriteResult.UNKNOWN,
    WriteResult.CONTENDED,
    WriteResult.DENIED,
    WriteResult.UNSENT,
}


@dataclass(slots=True)
class PendingCleanup:
    """An instance that may hold allocations of claims that are given back.

    Attributes:
        uuid: The instance.
        writes: Our writes that are in effect or may come to be, once each. Other allocations are left alone.
        since: When the first of these claims was given back; seconds of the clock.
        late_until: Until then a lost write may still be carried out.
        late_write_window: Seconds for which a write without a clear response may still be carried out.
        overlapped: Two writes ran at once, so that rows may exist which Placement does not show.
        certain: The only write is in effect unless another writer came, so that nothing is read before it is
            given back.
        context: The context of the request, for Placement's log.
        due: When to try next.
        attempts: How often it was tried.
        returned: A write that is given back by a request of unknown outcome.
        reported: Whether the log has an error that it takes so long.
    """

    uuid: str
    writes: tuple[OwnWrite, ...]
    since: float
    late_until: float = 0.0
    late_write_window: float = 0.0
    overlapped: bool = False
    certain: bool = False
    context: Any = None
    due: float = 0.0
    attempts: int = 0
    returned: OwnWrite | None = None
    reported: bool = False

    def joined_with(self, later: "PendingCleanup") -> "PendingCleanup":
        """Return this cleanup together with that of a later claim for the same instance."""
        return replace(
            later,
            writes=self.writes + later.writes,
            late_until=max(self.late_until, later.late_until),
            overlapped=self.overlapped or later.overlapped,
            certain=False,
            since=self.since,
            returned=self.returned,
        )

    def expect(self, write: OwnWrite, now: float) -> None:
        """Note a further write of ours, which had no clear response."""
        self.writes = (*self.writes, write)
        self.late_until = max(self.late_until, now + self.late_write_window)

    def settle(self, write: OwnWrite) -> None:
        """Note that a write cannot take effect any more."""
        left = list(self.writes)
        left.remove(write)
        self.writes = tuple(left)
        self.returned = None


def attempt_cleanup(writer: AllocationWriter, cleanup: PendingCleanup, now: float) -> bool:
    """Give back what the instance holds of ours; return whether nothing is left to do.

    The caller holds the lock of the instance.

    Raises:
        PlacementSilent: No response, or a failure.
    """
    if cleanup.certain and not cleanup.attempts and _give_back(writer, cleanup, cleanup.writes[0]):
        return True
    current = writer.reader.read(cleanup.uuid, cleanup.context)
    write = own_write_in(cleanup.writes, current)
    if write is None:
        if cleanup.returned:  # the request whose response was lost has been carried out
            cleanup.settle(cleanup.returned)
    else:
        if not _give_back(writer, cleanup, write, current.generation):
            raise PlacementUnreachable("the allocations changed between reading and writing")
        current = write.previous or NOTHING
    if now < cleanup.late_until and cleanup.writes:
        return False
    if cleanup.overlapped and cleanup.writes and not current.allocations:
        _delete_hidden_rows(writer, cleanup, now)
    return True


def _give_back(
    writer: AllocationWriter, cleanup: PendingCleanup, write: OwnWrite, generation: int | None = None
) -> bool:
    """Return False if the instance does not hold any more what the write gave it.

    Args:
        writer: Writes and reads allocations.
        cleanup: The cleanup.
        write: The write.
        generation: The generation of the consumer, if it was read.

    Raises:
        PlacementSilent: No response, or a failure.
    """
    written = write_once(writer, {cleanup.uuid: write_without(write, generation)}, cleanup.context)[
        cleanup.uuid
    ]
    if written.result is WriteResult.DONE:
        cleanup.settle(write)
        LOG.info("Deleted allocations for instance %s", cleanup.uuid)
        return True
    if written.result is WriteResult.CHANGED:
        return False
    if written.result is WriteResult.UNKNOWN:
        cleanup.returned = write
    raise PlacementUnreachable(written.reason)


def write_once(writer: AllocationWriter, writes: Mapping[str, Write], context: Any) -> Mapping[str, Written]:
    """Return what became of one try, all or none: the next one follows later."""
    return writer.write(writes, all_or_none=True, until=-math.inf, context=context)


def write_without(write: OwnWrite, generation: int | None = None) -> Write:
    """Return what puts back what the consumer held before a write, unless it was changed since.

    Args:
        write: The write.
        generation: The generation of the consumer now; None: that of the write.
    """
    before = write.previous or ConsumerAllocations(owner=write.made.owner)
    return Write(before.allocations, before.owner, generation or write.made.generation)


def _delete_hidden_rows(writer: AllocationWriter, cleanup: PendingCleanup, now: float) -> None:
    """Write rows that Placement does not show once more, after which they show; then give them back.

    That is a write of ours like any other: without a clear response it may be in effect, or come to be.
    """
    made = cleanup.writes[-1].made
    again = OwnWrite(replace(made, generation=1))
    writes = {cleanup.uuid: Write(made.allocations, made.owner)}
    written = write_once(writer, writes, cleanup.context)[cleanup.uuid]
    if written.result is WriteResult.DONE:
        cleanup.writes = (*cleanup.writes, again)
        _give_back(writer, cleanup, again)
    elif written.result is WriteResult.UNKNOWN:
        cleanup.expect(again, now)
    if written.result in _WITHOUT_DECISION:
        raise PlacementUnreachable(written.reason)


class AllocationCleanup:
    """The cleanups of a process; any thread may use it.

    A process that serves requests calls ``start`` first: its background thread lives as long as the process,
    so that a release never depends on whether another thread can be started. Otherwise the thread exists only
    while a cleanup is pending.
    """

    def __init__(
        self,
        writer: AllocationWriter,
        instance_locks: KeyedLocks,
        policy: ClaimPolicy,
        on_finished: Callable[[Collection[str]], None] = lambda _uuids: None,
    ) -> None:
        """Begin without pending cleanups.

        Args:
            writer: Writes and reads allocations.
            instance_locks: Keep claims and cleanups of one instance apart.
            policy: The bounds.
            on_finished: Called with the UUIDs of instances of which nothing is left to clean up.
        """
        self._writer = writer
        self._instance_locks = instance_locks
        self._policy = policy
        self._on_finished = on_finished
        self._timing = timing = writer.timing
        self._warnings = RateLimitedLogger(LOG, clock=timing.monotonic)
        self._changed = threading.Condition()
        self._pending: dict[str, PendingCleanup] = {}
        self._left: set[str] = set()  # to the next process
        self._worker: threading.Thread | None = None
        self._stays = False
        self._draining = False

    def start(self) -> None:
        """Start the background thread now, for as long as the process lives.

        Raises:
            RuntimeError: The system has no thread left.
        """
        with self._changed:
            if self._worker is None:
                self._worker = self._start_thread()
            self._stays = True

    def release_claims(self, claims: Mapping[str, ClaimResult], context: Any = None) -> None:
        """Give back claims, by instance UUID. Never raises.

        The background does it. It is waited for until each was tried once, but not longer than
        ``policy.release_timeout`` in all. What the instances held before the claims is put back.
        """
        # Pending from now on: if a claim comes first, it takes over, and its allocations are left alone.
        cleanups = [
            self._add_cleanup(uuid, claim, context, delay=0.0)
            for uuid, claim in claims.items()
            if claim.own_writes
        ]
        with self._changed:
            self._start_worker()
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: all(one.attempts or not self._is_current(one) for one in cleanups),
                self._policy.release_timeout,
            )

    def schedule_cleanup(
        self, uuid: str, claim: ClaimResult, context: Any = None, delay: float | None = None
    ) -> None:
        """Give back in the background what a claim wrote, or what a lost write may yet do.

        Args:
            uuid: The instance.
            claim: The claim.
            context: The context of the request, for Placement's log.
            delay: Seconds before the first attempt; None for the first of ``policy.cleanup_delays``.
        """
        first = self._policy.cleanup_delays[0] if delay is None else delay
        cleanup = self._add_cleanup(uuid, claim, context, delay=first)
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

    def wait_until_released(self, uuids: Collection[str], timeout: float) -> bool:
        """Wait until claims for these instances are released; for those of unknown outcome until one attempt.

        Returns:
            Whether they are.
        """
        with self._changed:
            pending = [one for uuid in uuids if (one := self._pending.get(uuid))]
            return self._changed.wait_for(
                lambda: (
                    not any(self._is_current(one) and (one.certain or not one.attempts) for one in pending)
                ),
                timeout,
            )

    def __len__(self) -> int:
        """Return how many instances have something that is still to be given back."""
        with self._changed:
            return len(self._pending)

    def is_pending(self, uuid: str) -> bool:
        """Return whether anything of an earlier claim is still to be given back, perhaps by a successor."""
        with self._changed:
            return uuid in self._pending or uuid in self._left

    def pending_of(self, uuid: str) -> PendingCleanup | None:
        """Return what is still to be given back of earlier claims for an instance; None if nothing is."""
        with self._changed:
            return self._pending.get(uuid)

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
        if not attempt_cleanup(self._writer, cleanup, self._timing.monotonic()):
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
            self._left |= left.keys()
            self._draining = False
            self._changed.notify_all()
        for cleanup in left.values():
            _log_abandoned(cleanup)
        return list(left)

    def _add_cleanup(self, uuid: str, claim: ClaimResult, context: Any, delay: float) -> PendingCleanup:
        now = self._timing.monotonic()
        cleanup = PendingCleanup(
            uuid,
            writes=claim.own_writes,
            since=now,
            late_until=now + self._writer.policy.late_write_window if claim.unsure else 0.0,
            late_write_window=self._writer.policy.late_write_window,
            overlapped=claim.overlapped,
            certain=claim.claimed and not claim.unsure,
            context=context,
            due=now + delay,
        )
        with self._changed:
            earlier = self._pending.get(uuid)
            cleanup = earlier.joined_with(cleanup) if earlier else cleanup
            self._pending[uuid] = cleanup
        return cleanup

    def _start_worker(self) -> None:
        """Start the background thread unless it is running. Without a free thread the next call tries it."""
        if self._worker is not None or not self._pending:
            return
        try:
            self._worker = self._start_thread()
        except RuntimeError as error:
            LOG.error("Claims cannot be given back now: %s", error)

    def _start_thread(self) -> threading.Thread:
        thread = threading.Thread(target=self._work, name="placement-releases", daemon=True)
        thread.start()
        return thread

    def _work(self) -> None:
        while due := self._wait_for_due():
            many = [one for one in due if one.certain and not one.attempts]
            if len(many) < 2 or not self._release_together(many):
                # A claim for the same instance may go first.
                self._attempt(due[0])

    def _wait_for_due(self) -> list[PendingCleanup]:
        """Return the next cleanups once they are due; none if nothing is left, and the thread is to end."""
        with self._changed:
            while self._pending or self._stays:
                in_order = sorted(self._pending.values(), key=lambda cleanup: cleanup.due)
                now = self._timing.monotonic()
                due = [one for one in in_order if one.due <= now]
                if due:
                    return due[: self._policy.batch_size]
                self._changed.wait(in_order[0].due - now if in_order else None)
            self._worker = None
            return []

    def _release_together(self, cleanups: Sequence[PendingCleanup]) -> bool:
        """Give back many claims in one request; return False if they must be given back one by one.

        All or none of them are carried out (spec: placement-and-workflow 4.9).
        """
        with self._instance_locks.hold([one.uuid for one in cleanups], 0.0) as held:
            if not held or not all(self._is_current(one) for one in cleanups):
                return False
            try:
                writes = {one.uuid: write_without(one.writes[0]) for one in cleanups}
                written = next(iter(write_once(self._writer, writes, cleanups[0].context).values()))
            except BaseException:
                LOG.exception("Removing allocations of %d instances together failed", len(cleanups))
                return False
            if written.result is WriteResult.DONE:
                self._finish_all(cleanups)
                return True
            if written.result in {WriteResult.UNKNOWN, WriteResult.UNSENT}:
                self._postpone_all(cleanups, written)
                return True
            return False

    def _finish_all(self, cleanups: Sequence[PendingCleanup]) -> None:
        LOG.info("Deleted allocations for instances %s", [one.uuid for one in cleanups])
        with self._changed:
            for cleanup in cleanups:
                self._pending.pop(cleanup.uuid, None)
            self._changed.notify_all()
        self._on_finished([one.uuid for one in cleanups])

    def _postpone_all(self, cleanups: Sequence[PendingCleanup], written: Written) -> None:
        uuids = [one.uuid for one in cleanups]
        self._warnings.warning(
            "delayed", "Removing allocations of instances %s is delayed: %s", uuids, written.reason
        )
        with self._changed:
            for cleanup in cleanups:
                if written.result is WriteResult.UNKNOWN:
                    cleanup.returned = cleanup.writes[0]
                self._postpone(cleanup)
            self._changed.notify_all()

    def _attempt(self, cleanup: PendingCleanup) -> None:
        done = False
        try:
            with self._instance_locks.hold([cleanup.uuid], 0.0) as held:
                done = (
                    held
                    and self._is_current(cleanup)
                    and attempt_cleanup(self._writer, cleanup, self._timing.monotonic())
                )
        except PlacementSilent as error:
            self._warnings.warning(
                "delayed", "Removing allocations of instance %s is delayed: %s", cleanup.uuid, error
            )
        except BaseException:  # also SystemExit, which would end the thread without a word
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
            self._on_finished([cleanup.uuid])

    def _give_up(self, cleanup: PendingCleanup) -> None:
        """Leave a cleanup to the next process, which finds what is recorded of it."""
        _log_abandoned(cleanup)
        if self._is_current(cleanup):
            del self._pending[cleanup.uuid]
            self._left.add(cleanup.uuid)

    def _postpone(self, cleanup: PendingCleanup) -> None:
        """Set when to try again, unless there are too many cleanups."""
        now, policy = self._timing.monotonic(), self._policy
        if len(self._pending) > policy.cleanup_capacity:
            self._give_up(cleanup)
            return
        if now - cleanup.since > policy.cleanup_timeout and not cleanup.reported:
            cleanup.reported = True
            LOG.error(
                "Allocations of a failed claim for instance %s could not be removed for %d s; trying on: %s",
                cleanup.uuid,
                now - cleanup.since,
                [write.made.allocations for write in cleanup.writes],
            )
        delays = policy.cleanup_delays
        delay = policy.drain_delay if self._draining else delays[min(cleanup.attempts, len(delays) - 1)]
        cleanup.attempts += 1
        cleanup.due = now + delay
        self._start_worker()


def _log_abandoned(cleanup: PendingCleanup) -> None:
    LOG.error(
        "Instance %s may have been left with allocations of a claim that was given up: %s",
        cleanup.uuid,
        [write.made.allocations for write in cleanup.writes],
    )
