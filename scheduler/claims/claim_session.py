"""The claims of one request: for whom, until when, and what became of them.

A request is over when its reply is delivered, or cannot be: ``confirm`` or ``give_back`` of its session is
called then.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
import time
from typing import Protocol, Self

from oslo_log import log as logging

from scheduler.claims.capacity import CapacityCheck, Excess, NoCapacityCheck
from scheduler.claims.claim import ClaimRequest
from scheduler.claims.claimer import BUSY, TOO_LATE, Claimer
from scheduler.claims.fence import HeldClaim
from scheduler.claims.observers import ClaimObserver, NoObserver
from scheduler.claims.result import ClaimResult, Outcome, unsent_claim
from scheduler.errors import NoValidHost
from scheduler.placement.allocations import ConsumerAllocations, Owner
from scheduler.placement.answer import AllocationCandidate, Resources
from scheduler.placement.claim_events import ClaimEvent, ClaimHistory, ClaimState
from scheduler.placement.errors import PlacementError
from scheduler.request.scheduling_request import SchedulingRequest

LOG = logging.getLogger(__name__)


Check = Callable[[Collection[str]], Mapping[str, str]]
"""Compute node uuids -> why those may not be claimed that may not. It raises ``PlacementError``."""


def check_nothing(_nodes: Collection[str]) -> Mapping[str, str]:
    """Let every host be claimed: Placement was asked for it after the request came."""
    return {}


class Reservations(Protocol):
    """Where hosts are reserved for instances."""

    def remove(self, instances: Iterable[str]) -> None:
        """Give back what is reserved for these instances."""


def _as_it_is(provider: str) -> str:
    return provider


@dataclass(frozen=True, slots=True)
class ComputeNodes:
    """What a request has to know of compute nodes when it claims.

    Attributes:
        ignored: UUIDs of those whose hosts the request ignores. An evacuated instance keeps what it holds on
            them.
        known: UUIDs of all.
        host_name: Returns the name of the host of one, by its UUID, for the log.
    """

    ignored: Collection[str] = ()
    known: Container[str] = ()
    host_name: Callable[[str], str] = _as_it_is


@dataclass(slots=True)
class ClaimSession:
    """A ``Claimer`` with everything filled in that is the same for all instances of a request.

    It remembers the claims and the reservations of the request. As a context manager it gives back both if it
    ends with an error, or too late. If it ends well the claims stay in the journal until the outcome of the
    reply is known: then ``confirm`` or ``give_back`` is to be called.

    Nothing is ever given back if an earlier delivery of the message may have been answered with it.

    While it is open, other requests for its instances wait.

    Attributes:
        claimer: Makes the claims.
        reservations: Where hosts are reserved for the instances.
        request: For whom and until when is claimed. Without a user in its spec, that of its context counts.
        nodes: What is known of the compute nodes.
        clock: Returns the time in seconds.
        observer: Is told what becomes of the claims.
        capacity: Checks what was granted. Claims that are one too many are given back.
        check: Checks the chosen hosts before they are claimed.
        seconds: How long the claims of the request took.
    """

    claimer: Claimer
    reservations: Reservations
    request: SchedulingRequest
    nodes: ComputeNodes = ComputeNodes()
    clock: Callable[[], float] = time.monotonic
    observer: ClaimObserver = field(default_factory=NoObserver)
    capacity: CapacityCheck = field(default_factory=NoCapacityCheck)
    check: Check = check_nothing
    seconds: float = field(default=0.0, init=False)
    _claims: dict[str, ClaimResult | None] = field(default_factory=dict, init=False)
    _events: dict[str, list[ClaimEvent]] = field(default_factory=dict, init=False)
    _finish: Callable[[], None] | None = field(default=None, init=False)
    _busy: bool = field(default=False, init=False)

    def events_of(self, instance_uuid: str) -> Sequence[ClaimEvent]:
        """Return what happened to all claims for an instance, in order."""
        return self._events.get(instance_uuid, ())

    def claim(self, instance_uuid: str, candidate: AllocationCandidate) -> ClaimResult:
        """Claim a candidate for an instance; as ``Claimer.claim``.

        A claim that put a provider over its capacity is given back, and refused.
        """
        request = self._claim_request(instance_uuid, candidate, self.nodes.ignored)
        result = self._unsent([request]).get(instance_uuid)
        if result is None:
            with self._timed(), self._releasing_on_error([request]):
                result = self.claimer.claim(request)
        self._remember({instance_uuid: result}, {instance_uuid: candidate})
        return self._checked({instance_uuid: result}, {instance_uuid: candidate})[instance_uuid]

    def claim_many(self, candidates: Mapping[str, AllocationCandidate]) -> Mapping[str, ClaimResult]:
        """Claim a candidate for each instance, by instance UUID; as ``claim`` and ``Claimer.claim_many``."""
        requests = [self._claim_request(uuid, candidate) for uuid, candidate in candidates.items()]
        results = self._unsent(requests)
        if left := [request for request in requests if request.uuid not in results]:
            with self._timed(), self._releasing_on_error(left):
                results |= self.claimer.claim_many(left)
        self._remember(results, candidates)
        return self._checked(results, candidates)

    def confirm_held(
        self, held: Mapping[str, ConsumerAllocations], candidates: Mapping[str, AllocationCandidate]
    ) -> Mapping[str, ClaimResult]:
        """Let the instances keep what they hold, all or none; as ``Claimer.confirm_many``.

        Args:
            held: What each instance holds, as it was read.
            candidates: The part of it that the request asks for.
        """
        claims = [
            HeldClaim(self._claim_request(uuid, candidate, self.nodes.ignored), held[uuid])
            for uuid, candidate in candidates.items()
        ]
        if self._busy or self._is_late():
            results = {one.uuid: self._refuse(one.request) for one in claims}
        else:
            self._claims |= dict.fromkeys(candidates)
            with self._timed():
                results = self.claimer.confirm_many(claims)
        self._remember(results, candidates)
        return results

    def __enter__(self) -> Self:
        self._finish = self.claimer.begin_request(self.request.instance_uuids, self.request.deadline)
        self._busy = self._finish is None
        return self

    def __exit__(self, error: type[BaseException] | None, *_details: object) -> None:
        """Give back claims and reservations after an error.

        Raises:
            NoValidHost: The deadline has passed.
        """
        late = error is None and self._is_late()
        if late or error is not None:
            self.give_back()
        if late:
            LOG.warning("A request took too long: %s", TOO_LATE)
            raise NoValidHost(TOO_LATE, final=True)

    def confirm(self) -> None:
        """Keep the claims: the reply that names them was delivered."""
        self._end()
        unsure = {uuid: claim for uuid, claim in self._claims.items() if claim and claim.lost}
        if unsure:
            self.claimer.watch_late_writes(unsure, self.request.context)

    def give_back(self) -> None:
        """Give back claims and reservations: the request has failed, or its reply cannot be delivered."""
        keeps_claims = self.request.may_be_answered
        if keeps_claims:
            LOG.warning(
                "Allocations of instances %s are kept although the reply was not delivered: an earlier "
                "delivery of the request may have been answered",
                ", ".join(self.request.instance_uuids),
            )
        claims = {uuid: claim for uuid, claim in self._claims.items() if claim and not keeps_claims}
        self._claims |= dict.fromkeys(claims)
        try:
            self._release(claims)
            self.reservations.remove(self.request.instance_uuids)
        finally:
            self._end()

    def _end(self) -> None:
        try:
            self.claimer.confirm_claims(self._claims)
        finally:
            finish, self._finish = self._finish, None
            if finish is not None:
                finish()

    @property
    def _owner(self) -> Owner:
        spec = self.request.spec
        return Owner(spec.project_id, spec.user_id or self.request.context.user_id)

    def _claim_request(
        self, uuid: str, candidate: AllocationCandidate, evacuating_from: Collection[str] = ()
    ) -> ClaimRequest:
        return ClaimRequest(
            uuid,
            candidate,
            self._owner,
            self.request.context,
            evacuating_from,
            self.nodes.host_name(candidate.root),
            self.request.deadline,
            self.request.message_id,
            redelivered=self.request.was_redelivered,
            nodes=self.nodes.known,
            alone=len(self.request.instance_uuids) == 1,
        )

    def _unsent(self, requests: Sequence[ClaimRequest]) -> dict[str, ClaimResult]:
        """Return the results of the claims that are not to be sent, by instance UUID."""
        if self._busy or self._is_late():
            return {request.uuid: self._refuse(request) for request in requests}
        try:
            with self._timed():
                reasons = self.check({request.candidate.root for request in requests})
        except PlacementError as error:
            return {one.uuid: _unsent_claim(one, Outcome.UNAVAILABLE, str(error)) for one in requests}
        return {
            one.uuid: _unsent_claim(one, Outcome.REFUSED, reasons[one.candidate.root])
            for one in requests
            if one.candidate.root in reasons
        }

    def _refuse(self, request: ClaimRequest) -> ClaimResult:
        outcome, reason = (Outcome.CONFLICT, BUSY) if self._busy else (Outcome.UNAVAILABLE, TOO_LATE)
        return _unsent_claim(request, outcome, reason)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = self.clock()
        try:
            yield
        finally:
            self.seconds += self.clock() - started

    @contextmanager
    def _releasing_on_error(self, requests: Sequence[ClaimRequest]) -> Iterator[None]:
        """After an error in a claim it is not known how far the claim came: give it back."""
        self._claims |= dict.fromkeys(
            request.uuid for request in requests if request.uuid not in self._claims
        )
        try:
            yield
        except BaseException:
            assumed = {request.uuid: _assumed_claim(request) for request in requests}
            self._claims |= dict.fromkeys(assumed)
            self.claimer.release_many(assumed, self.request.context)
            raise

    def _remember(
        self, results: Mapping[str, ClaimResult], candidates: Mapping[str, AllocationCandidate]
    ) -> None:
        self._claims |= {uuid: result for uuid, result in results.items() if result.claimed}
        for uuid, result in results.items():
            self._events.setdefault(uuid, []).extend(result.events)
            if result.claimed:
                self.observer.claimed(uuid, candidates[uuid].allocations)
            elif result.try_next:
                self.observer.refused(result, candidates[uuid])

    def _checked(
        self, results: Mapping[str, ClaimResult], candidates: Mapping[str, AllocationCandidate]
    ) -> Mapping[str, ClaimResult]:
        """Return the results once claims that put a provider over its capacity were given back."""
        if self.request.may_be_answered:
            return results
        added = {uuid: added for uuid, result in results.items() if (added := _added_by(result))}
        with self._timed():
            checked = self.capacity.check(added)
        for uuid in checked.within:
            self._add_event(uuid, ClaimState.WITHIN_CAPACITY, "the host has little room, and is not over it")
        refused = {uuid: _refused_as_over(results[uuid], excess) for uuid, excess in checked.over.items()}
        for uuid, result in refused.items():
            self._add_event(uuid, ClaimState.OVER_CAPACITY, result.reason)
            self.observer.refused(result, candidates[uuid])
        self._claims |= dict.fromkeys(refused)
        with self._timed():
            self._release({uuid: results[uuid] for uuid in refused})
        return {**results, **refused}

    def _add_event(self, uuid: str, state: ClaimState, cause: str) -> None:
        events = self._events[uuid]
        history = ClaimHistory(uuid, events[-1].host if events else "", events)
        history.add(state, cause)
        events.append(history.events[-1])

    def _release(self, claims: Mapping[str, ClaimResult]) -> None:
        for uuid, claim in claims.items():
            if claim.made and not claim.adopted:
                self.observer.released(uuid, claim.made.allocations)
        self.claimer.release_many(claims, self.request.context)

    def _is_late(self) -> bool:
        return self.clock() > self.request.deadline


def _unsent_claim(request: ClaimRequest, outcome: Outcome, reason: str) -> ClaimResult:
    return unsent_claim(request.uuid, request.host_label, outcome, reason)


def _added_by(result: ClaimResult) -> Resources:
    """Return what a claim of ours added to what the instance held; nothing if it holds nothing of ours."""
    if not result.claimed or result.adopted or result.made is None:
        return {}
    kept = result.previous.allocations if result.previous else {}
    return {provider: entry for provider, entry in result.made.allocations.items() if provider not in kept}


def _refused_as_over(result: ClaimResult, excess: Excess) -> ClaimResult:
    reason = (
        f"claims of several processes overlapped, and put provider {excess.provider} over its capacity "
        f"of {excess.resource_class}"
    )
    return ClaimResult(Outcome.REFUSED, reason, excess.resource_class, excess.provider, events=result.events)


def _assumed_claim(request: ClaimRequest) -> ClaimResult:
    # A release gives back only what the candidate gave.
    lost = (request.repeated,) if request.redelivered else ()
    return ClaimResult(Outcome.CLAIMED, made=request.plain.made, unsure=True, lost=lost)
