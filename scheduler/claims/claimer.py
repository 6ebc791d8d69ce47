"""Claiming candidates for instances, and giving them back (spec: placement-and-workflow 4, 6.1).

From one process, at most one claim for an instance is in flight, and at most one on a host or sharing
provider: writes for one consumer that overlap can leave rows that Placement does not show, and writes on one
provider that overlap can over-commit it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from oslo_log import log

from scheduler.claims.allocations_api import AllocationsApi, ConsumerAllocations
from scheduler.claims.batch import Batch, Results, claim_one_by_one
from scheduler.claims.claim import AllocationClaim, ClaimRequest, ConsumerState
from scheduler.claims.cleanup import AllocationCleanup
from scheduler.claims.empty_consumers import EmptyConsumers
from scheduler.claims.group_commit import GroupCommit
from scheduler.claims.journal import ClaimJournal, Journal
from scheduler.claims.policy import ClaimPolicy, Timing
from scheduler.claims.result import ClaimResult, Outcome, unsent_claim
from scheduler.locks import KeyedLocks
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent

LOG = log.getLogger(__name__)

_BUSY = "another claim for the instance is running"

# Seconds between looks at whether claims are in flight, while the process stops.
_DRAIN_POLL = 0.05


class Claimer:
    """Claims and releases of a process; any thread may use it. It is made anew after a fork."""

    def __init__(
        self,
        api: AllocationsApi,
        policy: ClaimPolicy,
        timing: Timing = Timing(),  # noqa: B008 - it is immutable
    ) -> None:
        """Begin without claims.

        Args:
            api: The requests to Placement.
            policy: The bounds of claims and cleanups.
            timing: Clock, sleep and randomness.
        """
        self._api = api
        self._policy = policy
        self._timing = timing
        self._instance_locks = KeyedLocks()
        self._provider_locks = KeyedLocks()
        self._journal = ClaimJournal()
        self._cleanup = AllocationCleanup(
            api, self._instance_locks, policy, lambda uuid: self._journal.remove_records([uuid]), timing
        )
        self._empty_consumers = EmptyConsumers(policy.empty_consumers)

    @classmethod
    def of(cls, client: PlacementClient, writes_in_flight: int = 1) -> "Claimer":
        """Return the claimer of a process, with the bounds of a daemon.

        Args:
            client: Sends requests to Placement.
            writes_in_flight: How many writes are in flight at once; what waits meanwhile is sent together.
        """
        return cls(GroupCommit(client, writes_in_flight), ClaimPolicy())

    def open_journal(self, journal: Journal) -> None:
        """Record claims there from now on, and give back in the background what a dead process recorded."""
        self._journal.open_page(journal, self._clean_up_recorded)

    def _clean_up_recorded(self, uuid: str, claim: ClaimResult) -> None:
        LOG.warning("Removing allocations of instance %s left by a worker that died", uuid)
        self._cleanup.schedule_cleanup(uuid, claim)

    def confirm_claims(self, instance_uuids: Iterable[str]) -> None:
        """Remove the records of claims whose request is answered, or which are given back.

        Records of what is still to be given back stay.
        """
        self._journal.remove_records([uuid for uuid in instance_uuids if not self._cleanup.is_pending(uuid)])

    def claim(self, request: ClaimRequest) -> ClaimResult:
        """Give the instance what the candidate says. Never raises for a failure of Placement.

        The caller goes on to another candidate only if ``try_next`` of the result says so, and hands what was
        claimed but is not wanted to ``release``. A claim that failed needs no release: what may yet come of
        it is cleaned up here.

        What the instance holds on the nodes of ``request.evacuating_from`` it keeps besides; what it holds
        elsewhere is replaced.
        """
        LOG.debug("Attempting to claim resources in the placement API for instance %s", request.uuid)
        with self._instance_locks.hold([request.uuid], self._policy.lock_timeout) as held:
            if not held:
                return unsent_claim(request.uuid, request.host_label, Outcome.CONFLICT, _BUSY)
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
        size = self._policy.batch_size
        results: Results = {}
        for start in range(0, len(ordered), size):
            results |= self._claim_batch(ordered[start : start + size])
            hopeless = [result for result in results.values() if result.hopeless]
            if hopeless:
                given_up = ClaimResult(hopeless[0].outcome, hopeless[0].reason)
                return {request.uuid: given_up for request in ordered} | results
        return results

    def _claim_batch(self, requests: Sequence[ClaimRequest]) -> Results:
        uuids = [request.uuid for request in requests]
        LOG.debug("Attempting to claim resources in the placement API for instances %s", uuids)
        with self._instance_locks.hold(uuids, self._policy.lock_timeout) as held:
            if not held:
                return {
                    request.uuid: unsent_claim(request.uuid, request.host_label, Outcome.CONFLICT, _BUSY)
                    for request in requests
                }
            if any(self._cleanup.is_pending(uuid) for uuid in uuids):
                return claim_one_by_one(requests, self._claim_locked)
            for request in requests:
                self._record_claim(request)
            results = self._make_batch(requests).claim_all()
            return {request.uuid: self._settle(request, results[request.uuid]) for request in requests}

    def _make_batch(self, requests: Sequence[ClaimRequest]) -> Batch:
        return Batch(
            requests,
            self._api,
            self._provider_locks,
            self._empty_consumers,
            self._policy,
            self._claim_alone,
            self._timing,
        )

    def _claim_locked(self, request: ClaimRequest) -> ClaimResult:
        try:
            unsure = self._cleanup.finish_cleanup(request.uuid)
        except PlacementSilent as error:
            reason = f"an earlier claim cannot be given back: {error}"
            return unsent_claim(request.uuid, request.host_label, Outcome.UNAVAILABLE, reason)
        self._record_claim(request)
        generation = self._empty_consumers.generation_of(request.uuid)
        return self._settle(request, self._claim_alone(request, ConsumerState(generation, unsure=unsure)))

    def _record_claim(self, request: ClaimRequest) -> None:
        made = ConsumerAllocations(request.candidate.allocations, owner=request.owner)
        self._journal.record_claim(request.uuid, made)

    def _claim_alone(self, request: ClaimRequest, known: ConsumerState) -> ClaimResult:
        claim = AllocationClaim(
            request, self._api, self._provider_locks, self._policy, self._journal, known, self._timing
        )
        result = claim.claim()
        if claim.left_empty_consumer:
            self._empty_consumers.add(request.uuid)
        return result

    def _settle(self, request: ClaimRequest, result: ClaimResult) -> ClaimResult:
        """Clean up after a failed claim; let a successful one take over what is pending."""
        if not result.claimed:
            if result.unsure:
                self._cleanup.schedule_cleanup(request.uuid, result, request.context)
            return result
        self._empty_consumers.discard(request.uuid)
        earlier = self._cleanup.cancel_cleanup(request.uuid)
        if earlier is None:
            return result
        previous = result.previous or earlier.previous
        return replace(result, unsure=True, earlier=earlier.ours, previous=previous)

    def release(self, instance_uuid: str, claim: ClaimResult, context: Any = None) -> None:
        """Give back a claim that succeeded; one that failed is left alone. Never raises.

        What cannot be done now is tried again in the background, for a bounded time.
        """
        if claim.claimed:
            self._cleanup.release_claim(instance_uuid, claim, context)

    def drain(self, timeout: float) -> list[str]:
        """Wait until claims in flight and pending cleanups have ended, for at most ``timeout`` seconds.

        Returns:
            The instances that may be left with allocations; each has an error in the log.
        """
        deadline = self._timing.monotonic() + timeout
        while self._instance_locks.busy() and self._timing.monotonic() < deadline:
            self._timing.sleep(_DRAIN_POLL)
        return self._cleanup.drain(max(0.0, deadline - self._timing.monotonic()))
