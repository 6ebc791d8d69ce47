"""Take candidates for instances, and give them back (spec: placement-and-workflow 4, 6.1).

Per process, at most one claim for an instance is in flight, and at most one on a host or sharing provider:
writes for one consumer that overlap can leave rows behind that Placement does not show, and writes on one
provider that overlap can over-commit it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
import time

from oslo_log import log

from scheduler.claims.allocations_api import AllocationsApi, ConsumerAllocations, Owner
from scheduler.claims.batch import AT_ONCE, Batch, one_by_one
from scheduler.claims.claim import AllocationClaim, ClaimRequest, ConsumerState, EmptyConsumers
from scheduler.claims.cleanup import AllocationCleanup
from scheduler.claims.journal import ClaimJournal, Journal
from scheduler.claims.policy import ClaimPolicy
from scheduler.claims.result import ClaimResult, Outcome
from scheduler.locks import KeyedLocks
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent

LOG = log.getLogger(__name__)


class Claimer:
    """Claims and releases of a process; shared by all threads, and started anew after a fork."""

    def __init__(self, api: AllocationsApi, patience: ClaimPolicy) -> None:
        self._api = api
        self._patience = patience
        self._instances = KeyedLocks()
        self._lanes = KeyedLocks()
        self._notes = ClaimJournal()
        self._releases = AllocationCleanup(
            self._api, self._instances, patience, settled=lambda uuid: self._notes.drop([uuid])
        )
        self._orphans = EmptyConsumers()

    @classmethod
    def of(cls, client: PlacementClient) -> "Claimer":
        """The claimer of a process, with the patience of a daemon."""
        return cls(AllocationsApi(client), ClaimPolicy())

    def keep_notes(self, journal: Journal) -> None:
        """Note claims there from now on, and take back in the background what a dead process noted."""
        self._notes.open(journal, self._take_back)

    def _take_back(self, uuid: str, claim: ClaimResult) -> None:
        LOG.warning("Instance %s may have been claimed for by a worker that died; taken back", uuid)
        self._releases.later(uuid, claim, None)

    def answered(self, instance_uuids: Iterable[str]) -> None:
        """Their request is about to be answered, and what is not about to be given back is wanted."""
        self._notes.drop([uuid for uuid in instance_uuids if not self._releases.pending(uuid)])

    def _write_down(self, wish: ClaimRequest) -> None:
        self._notes.write(wish.uuid, ConsumerAllocations(wish.candidate.allocations, owner=wish.owner))

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
        wish = ClaimRequest(instance_uuid, candidate, owner, context, evacuating_from)
        with self._instances.hold([instance_uuid], self._patience.lock) as alone:
            if not alone:
                return ClaimResult(Outcome.CONFLICT, "another claim for the instance is running")
            return self._claim(wish)

    def claim_many(
        self,
        candidates: Mapping[str, AllocationCandidate],
        project_id: str,
        user_id: str,
        context=None,
    ) -> dict[str, ClaimResult]:
        """Give each instance what its candidate says; for instances that hold nothing yet.

        The result of each, as from ``claim``: instances with ``try_next`` want another candidate. After one
        that has none of ``claimed`` and ``try_next``, the caller gives up; the rest may not have been tried.

        :param candidates: instance UUID → candidate.
        """
        owner = Owner(project_id, user_id)
        # Neighbours on a host go together: the fewer providers in a transaction, the fewer conflicts.
        pairs = sorted(candidates.items(), key=lambda pair: pair[1].root)
        wishes = [ClaimRequest(uuid, candidate, owner, context) for uuid, candidate in pairs]
        results: dict[str, ClaimResult] = {}
        for start in range(0, len(wishes), AT_ONCE):
            some = wishes[start : start + AT_ONCE]
            results |= self._claim_some(some)
            hopeless = [result for result in results.values() if result.hopeless]
            if hopeless:
                given_up = ClaimResult(hopeless[0].outcome, hopeless[0].reason)
                return {wish.uuid: given_up for wish in wishes} | results
        return results

    def _claim_some(self, wishes: list[ClaimRequest]) -> dict[str, ClaimResult]:
        uuids = [wish.uuid for wish in wishes]
        LOG.debug("Attempting to claim resources in the placement API for instances %s", uuids)
        with self._instances.hold(uuids, self._patience.lock) as alone:
            if not alone:
                return dict.fromkeys(uuids, ClaimResult(Outcome.CONFLICT, "another claim is running"))
            if any(self._releases.pending(uuid) for uuid in uuids):
                return one_by_one(wishes, self._claim)
            for wish in wishes:
                self._write_down(wish)
            batch = Batch(wishes, self._api, self._lanes, self._orphans, self._patience, self._attempt)
            results = batch.run()
            return {wish.uuid: self._settle(wish, results[wish.uuid]) for wish in wishes}

    def _claim(self, wish: ClaimRequest) -> ClaimResult:
        try:
            unsure = self._releases.catch_up(wish.uuid)
        except PlacementSilent as error:
            return ClaimResult(Outcome.UNAVAILABLE, f"an earlier claim cannot be undone: {error}")
        self._write_down(wish)
        result = self._attempt(wish, ConsumerState(self._orphans.generation(wish.uuid), unsure=unsure))
        return self._settle(wish, result)

    def _attempt(self, wish: ClaimRequest, known: ConsumerState) -> ClaimResult:
        attempt = AllocationClaim(wish, self._api, self._lanes, self._patience, self._notes, known)
        result = attempt.run()
        if attempt.orphaned:
            self._orphans.add(wish.uuid)
        return result

    def _settle(self, wish: ClaimRequest, result: ClaimResult) -> ClaimResult:
        if not result.claimed:
            if result.unsure:
                self._releases.later(wish.uuid, result, wish.context)
            return result
        self._orphans.discard(wish.uuid)
        earlier = self._releases.forget(wish.uuid)
        if earlier is None:
            return result
        previous = result.previous or earlier.previous
        return replace(result, unsure=True, earlier=earlier.ours, previous=previous)

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
