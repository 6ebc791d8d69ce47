"""Claiming for one request, until the outcome of its reply is known: kept then, or released."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
import math
import time
from typing import Protocol, Self

from oslo_log import log as logging

from scheduler.claims.capacity import Excess, OvercommitCheck
from scheduler.claims.claim import Claimant
from scheduler.claims.claimer import TOO_LATE, Claimer
from scheduler.claims.doubts import Answered
from scheduler.claims.group_policy import GroupCheck
from scheduler.claims.observers import ClaimObserver
from scheduler.claims.result import ClaimResult, end_of
from scheduler.errors import AgainstGroupPolicy
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.answer import AllocationCandidate, Resources
from scheduler.placement.claim_events import ClaimEvent, ClaimHistory, ClaimState
from scheduler.placement.errors import PlacementError
from scheduler.placement.outcomes import Outcome
from scheduler.request.past import SOON
from scheduler.request.scheduling_request import SchedulingRequest

LOG = logging.getLogger(f"nova.{__name__}")

Check = Callable[[Collection[str]], Mapping[str, str]]
"""Compute node uuids -> why those may not be claimed that may not. It raises ``PlacementError``."""


class Reservations(Protocol):
    """Where hosts are reserved for instances."""

    def remove(self, instances: Iterable[str]) -> None:
        """Release what is reserved for these instances."""


def check_nothing(_nodes: Collection[str]) -> Mapping[str, str]:
    """Let every host be claimed: the query to Placement was sent after the request came."""
    return {}


@dataclass(slots=True)
class ClaimSession:
    """A ``Claimer`` with everything filled in that is the same for all instances of a request.

    As a context manager it releases claims and reservations if it ends with an error. If it ends well, its
    claims have one of three ends: ``keep``, ``release``, or ``leave`` in doubt. Without an end they stay
    for the next run of the message.

    Attributes:
        claimer: Makes the claims.
        reservations: Where hosts are reserved for the instances.
        request: Says for which project and until when to claim.
        claimant: The owner of the claims, and what is known of the compute nodes.
        clock: Returns the time in seconds.
        observer: Receives the outcome of the claims; None: nothing does.
        capacity: Checks what was granted. Claims that are one too many are released. None: nothing does.
        group: Checks what was granted to members of a server group. None: nothing does.
        check: Checks the chosen hosts before they are claimed.
        seconds: How long the claims of the request took.
        made: By instance what it holds because of these claims, with the generation that proves it.
        overtaken: Whether a release found that another writer was first.
        released: Whether something was released. A try of it without a response may come late.
    """

    claimer: Claimer
    reservations: Reservations
    request: SchedulingRequest
    claimant: Claimant
    clock: Callable[[], float] = time.monotonic
    observer: ClaimObserver | None = None
    capacity: OvercommitCheck | None = None
    group: GroupCheck | None = None
    check: Check = check_nothing
    seconds: float = field(default=0.0, init=False)
    made: dict[str, ConsumerAllocations] = field(default_factory=dict, init=False)
    overtaken: bool = field(default=False, init=False)
    released: bool = field(default=False, init=False)
    _left: dict[str, Resources] = field(default_factory=dict, init=False)
    _found: set[str] = field(default_factory=set, init=False)
    _lost: set[str] = field(default_factory=set, init=False)
    _closed_at: float = field(default=math.inf, init=False)
    _writes: int = field(default=0, init=False)
    _events: dict[str, list[ClaimEvent]] = field(default_factory=dict, init=False)

    # -- claims ----------------------------------------------------------------------------------------------

    def events_of(self, instance_uuid: str) -> Sequence[ClaimEvent]:
        """Return what happened to all claims for an instance, in order."""
        return self._events.get(instance_uuid, ())

    @property
    def took_several_writes(self) -> bool:
        """Whether another run of the request could have released some of its claims meanwhile."""
        return len(self.made) > 1 and self._writes > 1

    def claim_many(self, candidates: Mapping[str, AllocationCandidate]) -> Mapping[str, ClaimResult]:
        """Claim a candidate for each instance, by instance UUID, as ``Claimer.claim``.

        A claim that put a provider over its capacity, or that the policy of its server group forbids, is
        released, and refused.

        Raises:
            AgainstGroupPolicy: Members of an affinity group are on other hosts.
            PlacementUnavailable: Placement does not say where the members of a group are.
        """
        results = self._unsent(candidates)
        if left := {uuid: one for uuid, one in candidates.items() if uuid not in results}:
            with self._timed(), self._noting_lost_on_error(left):
                results |= self.claimer.claim(left, self.claimant, self.request.deadline)
        self._remember(results, candidates)
        return self._within_policy(self._checked(results), candidates)

    def adopt(self, found: Mapping[str, ConsumerAllocations]) -> None:
        """Take what instances hold for claims of this request: another run of it has made them."""
        self.made |= found
        self._found |= found.keys()

    def fence(self) -> Mapping[str, ClaimResult] | None:
        """Write all claims once more, all or none; as ``Claimer.fence``.

        Returns:
            None if another run was first. Nothing is released then: that run may have answered.

        Raises:
            AgainstGroupPolicy: The policy of the server group forbids one of the hosts.
            PlacementUnavailable: Placement does not say whether it does.
        """
        with self._timed():
            results = self.claimer.fence(self.made, self.claimant, self.request.deadline)
        for uuid, result in results.items():
            self._events.setdefault(uuid, []).extend(result.events)
            if result.made:
                self.made[uuid] = result.made
        self.note_lost(uuid for uuid, one in results.items() if one.lost)
        if any(result.outcome is Outcome.CHANGED for result in results.values()):
            self.leave()
            return None
        self._check_fenced()
        return results

    def note_lost(self, lost: Iterable[str]) -> None:
        """Note instances whose writes had no response, and may come yet."""
        uuids = set(lost)
        self._lost |= uuids
        self.claimer.doubts.note_lost(uuids, self.claimant.owner, self.claimant.kept)

    # -- the end ---------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_details: object) -> None:
        """Release claims and reservations after an error."""
        if error is not None:
            self.release()

    def close(self) -> None:
        """Note that nothing more is claimed: the reply follows."""
        self._closed_at = self.clock()

    def keep(self) -> None:
        """Keep the claims: the reply that names them was delivered."""
        if self.clock() > self._closed_at + SOON:
            # Its caller may have left before, as when the process was frozen: that is looked at later.
            self.claimer.doubts.note_unknown(self.made, self.claimant.owner, self.claimant.kept)
        rows = {uuid: one.allocations for uuid, one in self.made.items()}
        host_of = self.claimant.host_of
        self.claimer.doubts.note_answered({uuid: Answered(host_of(one), one) for uuid, one in rows.items()})

    def leave(self) -> None:
        """Leave the claims in doubt, as another run was first. What no reply names is released later."""
        # The next round may find no host in what the instances hold: then nobody else would release it.
        self.claimer.doubts.note_unknown(self.made, self.claimant.owner, self.claimant.kept)

    def release(self) -> None:
        """Release claims and reservations: the request has failed, or its reply cannot be delivered."""
        made, self.made = self.made, {}
        # Another run of the message wrote it, or may have. That one may be answered with it, without a
        # fence if it does not know that it is not the only one. What nova says later decides.
        unclear = made.keys() & (self._found | self._lost)
        self.claimer.doubts.note_unknown(unclear, self.claimant.owner, self.claimant.kept)
        self._release({uuid: one for uuid, one in made.items() if uuid not in unclear})
        self.reservations.remove(self.request.instance_uuids)

    def _release(self, made: Mapping[str, ConsumerAllocations]) -> None:
        for uuid, one in made.items():
            left = self._left.get(uuid, {})
            rows = {provider: entry for provider, entry in one.allocations.items() if provider not in left}
            if self.observer is not None:
                self.observer.released(uuid, rows)
        self.released = self.released or bool(made)
        changed = self.claimer.release(made, self._left, self.claimant.kept, self.request.context)
        # After a lost write of this run it may have come from that one.
        self.overtaken = self.overtaken or bool(changed - self._lost)

    # -- requests and results --------------------------------------------------------------------------------

    def _unsent(self, candidates: Mapping[str, AllocationCandidate]) -> dict[str, ClaimResult]:
        """Return the results of the claims that must not be sent, by instance UUID."""
        if self._is_late():
            return self._end_unsent(candidates, Outcome.UNSENT, TOO_LATE)
        try:
            with self._timed():
                reasons = self.check({one.root for one in candidates.values()})
        except PlacementError as error:
            return self._end_unsent(candidates, Outcome.UNSENT, str(error))
        results: dict[str, ClaimResult] = {}
        for root, reason in reasons.items():
            refused = {uuid: one for uuid, one in candidates.items() if one.root == root}
            results |= self._end_unsent(refused, Outcome.REFUSED, reason)
        return results

    def _end_unsent(
        self, candidates: Mapping[str, AllocationCandidate], outcome: Outcome, reason: str
    ) -> dict[str, ClaimResult]:
        """Return the results of claims that failed before anything was sent, and log each."""
        results: dict[str, ClaimResult] = {}
        for uuid, candidate in candidates.items():
            history = ClaimHistory(uuid, self.claimant.host_name(candidate.root))
            history.add(end_of(outcome), reason)
            results[uuid] = ClaimResult(outcome, reason, events=tuple(history.events))
        return results

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = self.clock()
        try:
            yield
        finally:
            self.seconds += self.clock() - started

    @contextmanager
    def _noting_lost_on_error(self, uuids: Iterable[str]) -> Iterator[None]:
        """After an error in a claim it is not known how far the claim came."""
        try:
            yield
        except BaseException:
            self.note_lost(uuids)
            raise

    def _remember(
        self, results: Mapping[str, ClaimResult], candidates: Mapping[str, AllocationCandidate]
    ) -> None:
        self._writes += (
            max((event.attempt for result in results.values() for event in result.events), default=0)
            + (len(results) - 1) // self.claimer.batch_size
        )
        for uuid, result in results.items():
            self._events.setdefault(uuid, []).extend(result.events)
            if result.made is not None:
                self.made[uuid] = result.made
                # An evacuated instance is left what it held before.
                self._left[uuid] = result.previous.allocations if result.previous else {}
        # Whatever fails from here on, the claims are released with the session.
        self.note_lost(uuid for uuid, one in results.items() if one.lost)
        for uuid, result in results.items():
            if self.observer is None:
                continue
            if result.made is not None:
                self.observer.claimed(uuid, candidates[uuid].allocations)
            elif result.try_next:
                self.observer.refused(result)

    def _checked(self, results: Mapping[str, ClaimResult]) -> Mapping[str, ClaimResult]:
        """Return the results once claims that put a provider over its capacity were released."""
        if self.capacity is None:
            return results
        added = {uuid: added for uuid, result in results.items() if (added := _added_by(result))}
        with self._timed():
            checked = self.capacity.check(added)
        for uuid in checked.within:
            self._add_event(uuid, ClaimState.WITHIN_CAPACITY, "the host has little room, and is not over it")
        refused = {uuid: _refused_as_over(results[uuid], excess) for uuid, excess in checked.over.items()}
        for uuid, result in refused.items():
            self._add_event(uuid, ClaimState.OVER_CAPACITY, result.reason)
            if self.observer is not None:
                self.observer.refused(result)
        with self._timed():
            self._release({uuid: self.made.pop(uuid) for uuid in refused})
        return {**results, **refused}

    def _check_fenced(self) -> None:
        """Look after the group once more: the fence is a write, perhaps over what another run has claimed."""
        if self.group is None:
            return
        rows = {
            uuid: one.allocations.keys() - self.claimant.kept.providers for uuid, one in self.made.items()
        }
        names = self.group.hosts_of(set().union(*rows.values()))
        nodes = {uuid: next(filter(names.__contains__, each), "") for uuid, each in rows.items()}
        with self._timed():
            forbidden = self.group.check(nodes, is_first=True)
        if forbidden:
            raise AgainstGroupPolicy(next(iter(forbidden)), self.group.group.text)

    def _within_policy(
        self, results: Mapping[str, ClaimResult], candidates: Mapping[str, AllocationCandidate]
    ) -> Mapping[str, ClaimResult]:
        """Return the results once claims were released that the policy of their server group forbids."""
        if self.group is None:
            return results
        nodes = {uuid: candidates[uuid].root for uuid, one in results.items() if one.claimed}
        try:
            with self._timed():
                forbidden = self.group.check(nodes, is_first=self.made.keys() <= nodes.keys())
        except AgainstGroupPolicy as error:
            self._add_event(error.consumer_uuid, ClaimState.AGAINST_POLICY, str(error))
            raise
        for uuid, reason in forbidden.items():
            self._add_event(uuid, ClaimState.AGAINST_POLICY, reason)
        with self._timed():
            self._release({uuid: self.made.pop(uuid) for uuid in forbidden})
        refused = {
            uuid: ClaimResult(Outcome.CONTENDED, reason, events=results[uuid].events)
            for uuid, reason in forbidden.items()
        }
        return {**results, **refused}

    def _add_event(self, uuid: str, state: ClaimState, cause: str) -> None:
        events = self._events[uuid]
        history = ClaimHistory(uuid, events[-1].host if events else "", events)
        history.add(state, cause)
        events.append(history.events[-1])

    def _is_late(self) -> bool:
        return self.clock() > self.request.deadline


def _added_by(result: ClaimResult) -> Resources:
    """Return what a claim of ours added to what the instance held; nothing if it holds nothing of ours."""
    if result.made is None:
        return {}
    kept = result.previous.allocations if result.previous else {}
    return {provider: entry for provider, entry in result.made.allocations.items() if provider not in kept}


def _refused_as_over(result: ClaimResult, excess: Excess) -> ClaimResult:
    reason = (
        f"claims of several processes overlapped, and put provider {excess.provider} over its capacity "
        f"of {excess.resource_class}"
    )
    return ClaimResult(Outcome.REFUSED, reason, excess.resource_class, excess.provider, events=result.events)
