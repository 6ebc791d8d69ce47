"""Give claims back: at once, or when Placement does not let us, in the background until it does."""

import threading
import time

from oslo_log import log

from scheduler.placement.consumers import Consumers
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.locks import KeyedLocks
from scheduler.placement.outcome import ClaimResult
from scheduler.placement.patience import Patience
from scheduler.placement.undo import Leftover, delete, undo

LOG = log.getLogger(__name__)

# Instances whose clean-up is pending. Beyond that, error lines are all that is left of them.
CAPACITY = 10_000

# Seconds between attempts when the daemon is about to end.
HURRIED = 0.2


class Releases:
    """The clean-ups of a process. ``instances`` keeps claims and clean-ups of one instance apart.

    The background thread exists only while there is something to do.
    """

    def __init__(self, api: Consumers, instances: KeyedLocks, patience: Patience) -> None:
        self._api = api
        self._instances = instances
        self._patience = patience
        self._changed = threading.Condition()
        self._pending: dict[str, Leftover] = {}
        self._worker: threading.Thread | None = None
        self._hurried = False

    def release(self, uuid: str, claim: ClaimResult, context) -> None:
        """Undo a claim. Never raises: what cannot be done now is done in the background.

        What the instance held before the claim is put back.
        """
        try:
            with self._instances.hold([uuid], self._patience.lock) as alone:
                done = alone and self._release(uuid, claim, context)
        except PlacementSilent as error:
            LOG.warning("Allocations of %s are given back later: %s", uuid, error)
            done = False
        except Exception:
            LOG.exception("Allocations of %s are given back later", uuid)
            done = False
        if not done:
            self.later(uuid, claim, context)

    def _release(self, uuid: str, claim: ClaimResult, context) -> bool:
        if claim.previous or claim.unsure:
            return undo(self._api, self._leftover(uuid, claim, context))
        delete(self._api, uuid, context)
        return True

    def later(self, uuid: str, claim: ClaimResult, context) -> None:
        """Undo a claim in the background, or whatever may yet come of one that is given up."""
        leftover = self._leftover(uuid, claim, context)
        with self._changed:
            if uuid in self._pending:
                self._pending[uuid] = self._pending[uuid].joined(leftover)
            elif len(self._pending) >= CAPACITY:
                _abandon(leftover)
            else:
                self._pending[uuid] = leftover
            self._start_worker()
            self._changed.notify_all()

    def _leftover(self, uuid: str, claim: ClaimResult, context) -> Leftover:
        now = time.monotonic()
        late = now + self._patience.late if claim.unsure else 0.0
        ours = (claim.made,) if claim.made else ()
        due = now + self._patience.cleanup[0]
        return Leftover(uuid, ours, claim.previous, late, claim.overlapped, context, due=due)

    def forget(self, uuid: str) -> None:
        """A later claim for the instance succeeded: nothing of an earlier one can come any more."""
        with self._changed:
            self._pending.pop(uuid, None)
            self._changed.notify_all()

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
        if undo(self._api, leftover):
            self.forget(uuid)
            return False
        return True

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
            self._attempt(leftover)

    def _next(self) -> Leftover | None:
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

    def _attempt(self, leftover: Leftover) -> None:
        done = False
        try:
            # A claim for the same instance is welcome to go first.
            with self._instances.hold([leftover.uuid], 0.0) as alone:
                done = alone and undo(self._api, leftover)
        except PlacementSilent as error:
            LOG.debug("Allocations of %s are given back later: %s", leftover.uuid, error)
        except Exception:
            LOG.exception("Allocations of %s are not given back", leftover.uuid)
        with self._changed:
            if self._pending.get(leftover.uuid) is leftover and (done or not self._postpone(leftover)):
                del self._pending[leftover.uuid]
            self._changed.notify_all()

    def _postpone(self, leftover: Leftover) -> bool:
        """Set when to try again; False if it was tried for long enough."""
        now = time.monotonic()
        if now - leftover.since > self._patience.cleanup_limit:
            _abandon(leftover)
            return False
        delays = self._patience.cleanup
        delay = HURRIED if self._hurried else delays[min(leftover.attempts, len(delays) - 1)]
        leftover.attempts += 1
        leftover.due = now + delay
        return True


def _abandon(leftover: Leftover) -> None:
    LOG.error(
        "Instance %s may have been left with allocations of a claim that was given up: %s",
        leftover.uuid,
        [made.allocations for made in leftover.ours],
    )
