"""Writes without a response that are carried out after the claim was granted, and its caller told.

spec: placement-and-workflow 4.6

A write for a new consumer is refused as long as the claim holds. Once the instance is deleted, and its
allocations with it, nothing refuses the write any more. So the instance is read after the time in which the
write can come, and what it holds by that write is given back. The claim itself has another generation. What
nova restores for an instance that exists, as after a migration that failed at once, may look like the write:
so nova's API database is asked, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import threading
from typing import Any

from oslo_log import log

from scheduler.background import BackgroundLoop
from scheduler.claims.cleanup import AllocationCleanup
from scheduler.claims.parts import ClaimParts
from scheduler.claims.result import ClaimResult, Outcome, OwnWrite
from scheduler.locks import KeyedLocks
from scheduler.placement.errors import PlacementSilent

LOG = log.getLogger(__name__)

IsDeleted = Callable[[str], bool | None]

# Seconds between rounds while nothing is watched; a new watch ends them early.
_IDLE = 3600.0


@dataclass(slots=True)
class _Watch:
    """An instance, writes of which one may have been carried out, and when it is read."""

    writes: tuple[OwnWrite, ...]
    context: Any
    since: float
    due: float
    attempts: int = 0


def late_writes_of(claim: ClaimResult) -> tuple[OwnWrite, ...]:
    """Return the writes of a granted claim that may take effect once the instance is deleted.

    A write that looks the same as the claim is not among them: what it does could not be told from the claim.
    """
    if claim.made is None:
        return ()
    return tuple(one for one in claim.lost if one.made.generation == 1 and not one.is_in(claim.made))


class LateWrites:
    """Watches claims that were answered; any thread may use it.

    The thread is started with the first of them. They are not in the journal: there they would keep other
    processes from claiming for the instance.
    """

    def __init__(
        self,
        parts: ClaimParts,
        cleanup: AllocationCleanup,
        instance_locks: KeyedLocks,
        is_deleted: IsDeleted,
        make_loop: Callable[[str, Callable[[], float]], BackgroundLoop] = BackgroundLoop,
    ) -> None:
        """Begin without any.

        Args:
            parts: What all claims of the process work with.
            cleanup: Gives back.
            instance_locks: Keep claims and reads of one instance apart.
            is_deleted: Returns whether an instance was deleted in nova; None if that is not known.
            make_loop: Makes the loop that calls ``look``.
        """
        self._reader, self._policy, self._timing = parts.writer.reader, parts.policy, parts.timing
        self._window = parts.writer.policy.late_write_window
        self._cleanup = cleanup
        self._instance_locks = instance_locks
        self._is_deleted = is_deleted
        self._lock = threading.Lock()
        self._watched: dict[str, _Watch] = {}
        self._loop = make_loop("late-writes", self.look)

    def watch(self, claims: Mapping[str, ClaimResult], context: Any = None) -> None:
        """Watch what late writes may do to instances that were answered.

        Args:
            claims: Their claims, by instance UUID.
            context: The context of the request, for Placement's log.
        """
        now = self._timing.monotonic()
        with self._lock:
            for uuid, claim in claims.items():
                writes = late_writes_of(claim)
                if writes and len(self._watched) < self._policy.cleanup_capacity:
                    due = now + self._window
                    self._watched[uuid] = _Watch(writes, context, now, due)
            if not self._watched:
                return
        try:
            self._loop.start()
        except RuntimeError as error:
            LOG.warning("Late writes to Placement are not looked for now: %s", error)
        self._loop.wake()

    def forget(self, uuid: str) -> None:
        """Stop watching an instance, for which another request claims: it is not deleted."""
        if self._watched:
            with self._lock:
                self._watched.pop(uuid, None)

    def stop(self) -> None:
        """Stop watching: the process ends."""
        with self._lock:
            self._watched.clear()
        self._loop.stop(0.0)

    def look(self) -> float:
        """Read each instance whose time has come; return the seconds until the next one."""
        now = self._timing.monotonic()
        with self._lock:
            due = {uuid: watch for uuid, watch in self._watched.items() if watch.due <= now}
        for uuid, watch in due.items():
            self._read(uuid, watch)
        now = self._timing.monotonic()
        with self._lock:
            return max(0.0, min((watch.due - now for watch in self._watched.values()), default=_IDLE))

    def _read(self, uuid: str, watch: _Watch) -> None:
        with self._instance_locks.hold([uuid], 0.0) as held:
            if not held or self._watched.get(uuid) is not watch:
                self._postpone(uuid, watch)
                return
            try:
                current = self._reader.read(uuid, watch.context)
            except PlacementSilent:
                self._postpone(uuid, watch)
                return
            # By the exact generation: a later one is that of the claim, or of nova's own writes.
            late = next((one for one in watch.writes if one.is_in(current)), None)
            deleted = late is not None and self._is_deleted(uuid)
            if deleted is None:
                self._postpone(uuid, watch)
                return
            self.forget(uuid)
            if deleted and late is not None:
                LOG.warning(
                    "A write without a response gave instance %s allocations after those of its claim were "
                    "deleted; removing them",
                    uuid,
                )
                self._cleanup.schedule_cleanup(
                    uuid, ClaimResult(Outcome.UNAVAILABLE, lost=(late,)), watch.context
                )

    def _postpone(self, uuid: str, watch: _Watch) -> None:
        """Set when to read next, unless the time for that is over."""
        now, delays = self._timing.monotonic(), self._policy.cleanup_delays
        watch.due = now + delays[min(watch.attempts, len(delays) - 1)]
        watch.attempts += 1
        if now - watch.since > self._policy.cleanup_timeout:
            self.forget(uuid)
            LOG.warning("It cannot be found out whether a late write gave instance %s allocations", uuid)
