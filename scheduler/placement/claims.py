"""Take a candidate for an instance, and give it back (spec: placement-and-workflow 4, 6.1).

Per process, at most one claim for an instance is in flight, and at most one on a host or sharing provider:
writes for one consumer that overlap can leave rows behind that Placement does not show, and writes on one
provider that overlap can over-commit it.
"""

from collections.abc import Collection
import time

from oslo_log import log

from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.attempt import Attempt, Knowledge, Wish
from scheduler.placement.client import PlacementClient
from scheduler.placement.consumers import Consumers, Owner
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.locks import KeyedLocks
from scheduler.placement.outcome import ClaimResult, Outcome
from scheduler.placement.patience import Patience
from scheduler.placement.release import Releases

LOG = log.getLogger(__name__)


class Claimer:
    """Claims and releases of a process; shared by all threads, and started anew after a fork."""

    def __init__(self, api: Consumers, patience: Patience) -> None:
        self._api = api
        self._patience = patience
        self._instances = KeyedLocks()
        self._lanes = KeyedLocks()
        self._releases = Releases(self._api, self._instances, patience)
        self._orphans = Orphans()

    @classmethod
    def of(cls, client: PlacementClient) -> "Claimer":
        """The claimer of a process, with the patience of a daemon."""
        return cls(Consumers(client), Patience())

    def claim(
        self,
        instance_uuid: str,
        candidate: AllocationCandidate,
        project_id: str,
        user_id: str,
        context=None,
        evacuating_from: Collection[str] = (),
    ) -> ClaimResult:
        """Give the instance what the candidate says. Never raises for what Placement or the network do.

        The caller goes on to another candidate only if ``try_next`` says so, and hands what was claimed
        but is not wanted to ``release``. A claim that failed needs no release: whatever may yet come of it is
        cleaned up here.

        :param evacuating_from: UUIDs of the compute nodes of the hosts that the request ignores. An instance
            that holds something there keeps it besides; what it holds elsewhere is replaced.
        """
        LOG.debug("Attempting to claim resources in the placement API for instance %s", instance_uuid)
        owner = Owner(project_id, user_id)
        wish = Wish(instance_uuid, candidate, owner, context, evacuating_from)
        with self._instances.hold([instance_uuid], self._patience.lock) as alone:
            if not alone:
                return ClaimResult(Outcome.CONFLICT, "another claim for the instance is running")
            return self._claim(wish)

    def _claim(self, wish: Wish) -> ClaimResult:
        try:
            unsure = self._releases.catch_up(wish.uuid)
        except PlacementSilent as error:
            return ClaimResult(Outcome.UNAVAILABLE, f"an earlier claim cannot be undone: {error}")
        known = Knowledge(0 if wish.uuid in self._orphans else None, unsure)
        attempt = Attempt(wish, self._api, self._lanes, self._patience, known)
        result = attempt.run()
        if attempt.orphaned:
            self._orphans.add(wish.uuid)
        if result.claimed:
            self._orphans.discard(wish.uuid)
            self._releases.forget(wish.uuid)
        elif result.unsure:
            self._releases.later(wish.uuid, result, wish.context)
        return result

    def release(self, instance_uuid: str, claim: ClaimResult, context=None) -> None:
        """Undo a claim that succeeded; another is left alone. Never raises.

        What cannot be done now is tried again in the background, for a bounded time.
        """
        if claim.claimed:
            self._releases.release(instance_uuid, claim, context)

    def drain(self, timeout: float) -> list[str]:
        """Before the end: wait for claims in flight and pending clean-ups, ``timeout`` seconds in all.

        The instances that may be left with allocations, each of which has an error line in the log.
        """
        deadline = time.monotonic() + timeout
        while self._instances.busy() and time.monotonic() < deadline:
            time.sleep(0.05)
        return self._releases.drain(max(0.0, deadline - time.monotonic()))


class Orphans:
    """Instances of which Placement keeps a record without allocations, after a claim on a missing provider.

    Only a hint that saves two requests, so a bounded number is kept.
    """

    CAPACITY = 10_000

    def __init__(self) -> None:
        self._known: dict[str, None] = {}

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._known

    def add(self, uuid: str) -> None:
        """Remember one, and forget the oldest if there are too many."""
        self._known[uuid] = None
        if len(self._known) > self.CAPACITY:
            self._known.pop(next(iter(self._known)), None)

    def discard(self, uuid: str) -> None:
        """It has allocations now."""
        self._known.pop(uuid, None)
