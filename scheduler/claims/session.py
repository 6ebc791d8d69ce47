"""Claiming for a request, until the outcome of its reply is known: kept then, released, or left in doubt."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
import math
import time
from typing import Any

from scheduler.claims.checks import Added, Check, Finding, look_after
from scheduler.claims.claims import Claims, Pass, Results, Winners, all_win, ended, unsent
from scheduler.claims.doubts import Answered
from scheduler.errors import AgainstGroupPolicy
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.answer import AllocationCandidate, Resources
from scheduler.placement.claim_events import ClaimEvent, ClaimHistory
from scheduler.placement.errors import PlacementError
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Written
from scheduler.request.past import SOON
from scheduler.request.scheduling_request import SchedulingRequest


class Session(AbstractContextManager):
    """The claims of a request.

    As a context manager it releases claims and reservations if it ends with an error. If it ends well, its
    claims have one of three ends: ``keep``, ``release``, or ``doubt``. Without an end they stay for the next
    run of the message.

    Attributes:
        seconds: How long the claims of the request took.
        made: By instance what it holds because of these claims, with the generation that proves it.
        overtaken: Whether a release found that another writer was first.
        released: Whether something was released. A try of it without a response may come late.
    """

    def __init__(
        self,
        claims: Claims,
        reservations: Any,
        request: SchedulingRequest,
        prepare: Callable[[Any, SchedulingRequest, Winners], Pass],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin without claims.

        Args:
            reservations: Its ``remove`` releases the hosts that are reserved for some instances.
            prepare: Returns what claims go by on the hosts of a table.
        """
        self._claims, self._reservations, self._request = claims, reservations, request
        self._prepare, self._clock = prepare, clock
        self.seconds = 0.0
        self.made: dict[str, ConsumerAllocations] = {}
        self.overtaken = self.released = False
        self._kept: dict[str, Resources] = {}  # what instances held before, and are left
        # Another run may have written what these hold, as it was found, or a write for them had no response.
        self._unclear: set[str] = set()
        self._writes = 0
        self._closed_at = math.inf
        self._events: dict[str, list[ClaimEvent]] = {}

    def begin(self, table: Any, request: SchedulingRequest, winners: Winners = all_win) -> None:
        """Begin a pass over the hosts of a table; nothing of an earlier one is claimed any more."""
        self._pass = self._prepare(table, request, winners)
        self._kept, self._unclear, self._writes = {}, set(), 0

    # -- claims ----------------------------------------------------------------------------------------------

    def events_of(self, instance_uuid: str) -> Sequence[ClaimEvent]:
        """Return what happened to all claims for an instance, in order."""
        return self._events.get(instance_uuid, ())

    @property
    def took_several_writes(self) -> bool:
        """Whether another run of the request could have released some of its claims meanwhile."""
        return len(self.made) > 1 and self._writes > 1

    def claim(self, candidates: Mapping[str, AllocationCandidate]) -> Mapping[str, Written]:
        """Claim a candidate for each instance, by instance UUID, as ``Claims.claim``.

        A claim that put a provider over its capacity, or that the policy of its server group forbids, is
        released, and refused.

        Raises:
            AgainstGroupPolicy: Members of an affinity group are on other hosts.
            PlacementUnavailable: Placement does not say where the members of a group are.
        """
        with self._timed():
            results = self._refused_before(candidates)
            if left := {uuid: one for uuid, one in candidates.items() if uuid not in results}:
                try:
                    results |= self._claims.claim(left, self._pass, self._request.deadline)
                except BaseException:
                    self._note_lost(left)  # nobody knows how far the claim came
                    raise
            self._remember(results, candidates)
            # Only what a claim added: what the instance keeps was there before.
            added = {uuid: _rows(one.held, self._kept[uuid]) for uuid, one in results.items() if one.done}
            is_first = self.made.keys() <= added.keys()
            for check in filter(None, [self._pass.capacity, self._pass.group]):
                broken = self._look_after(check, added, is_first=is_first)
                for uuid, finding in broken.items():
                    del added[uuid]
                    results[uuid] = _refused(results[uuid], finding)
                    self._claims.note_refusal(results[uuid])
                self._release({uuid: self.made.pop(uuid) for uuid in broken})
        return results

    def adopt(self, found: Mapping[str, ConsumerAllocations]) -> None:
        """Take what instances hold for claims of this request: another run of it has made them."""
        self.made |= found
        self._unclear |= found.keys()

    def fence(self) -> Mapping[str, Written]:
        """Write all claims once more, all or none; return those that were refused, as ``Claims.fence``.

        If another run was first nothing is released: that run may have answered.

        Raises:
            AgainstGroupPolicy: The policy of the server group forbids one of the hosts.
            PlacementUnavailable: Placement does not say whether it does.
        """
        with self._timed():
            results = self._claims.fence(self.made, self._pass, self._request.deadline)
            for uuid, one in results.items():
                self._events.setdefault(uuid, []).extend(one.events)
                if one.done:
                    self.made[uuid] = one.held
            self._note_lost(uuid for uuid, one in results.items() if one.lost)
            refused = {uuid: one for uuid, one in results.items() if not one.done}
            if any(one.outcome is Outcome.CHANGED for one in refused.values()):
                self.doubt()
            elif self._pass.group is not None and not refused:
                self._look_after_fence(self._pass.group)
        return refused

    def _look_after_fence(self, check: Check) -> None:
        """Look after the group once more: the fence is a write, perhaps over what another run has claimed."""
        kept = self._pass.kept.providers
        added = {uuid: _rows(one, kept) for uuid, one in self.made.items()}
        for uuid, finding in self._look_after(check, added, is_first=True, fenced=True).items():
            raise AgainstGroupPolicy(uuid, finding.cause)

    def _look_after(
        self, check: Check, added: Added, *, is_first: bool, fenced: bool = False
    ) -> Mapping[str, Finding]:
        """Return the claims that a check finds too many."""
        timing, policy = self._claims.writer.timing, self._claims.writer.policy
        found = look_after(check, added, timing, policy, is_first=is_first, fenced=fenced)
        for uuid, one in found.items():
            events = self._events.setdefault(uuid, [])
            history = ClaimHistory(uuid, events[-1].host if events else "", events)
            history.add(one.state, one.cause)
            events.append(history.events[-1])
            if one.hosts:
                raise AgainstGroupPolicy(uuid, one.cause, one.hosts)
        return {uuid: one for uuid, one in found.items() if one.is_released}

    # -- the end ---------------------------------------------------------------------------------------------

    def __exit__(self, error: type[BaseException] | None, *_details: object) -> None:
        """Release claims and reservations after an error."""
        if error is not None:
            self.release()

    def close(self) -> None:
        """Note that nothing more is claimed: the reply follows."""
        self._closed_at = self._clock()

    def keep(self) -> None:
        """Keep the claims: the reply that names them was delivered."""
        if self._clock() > self._closed_at + SOON:
            # Its caller may have left before, as when the process was frozen: that is looked at later.
            self.doubt()
        rows = {uuid: one.allocations for uuid, one in self.made.items()}
        host_of = self._pass.host_of
        self._claims.doubts.note_answered({uuid: Answered(host_of(one), one) for uuid, one in rows.items()})

    def doubt(self, instances: Collection[str] | None = None) -> None:
        """Leave claims in doubt: another run was first, or nobody knows whether the reply was delivered.

        What no reply names is released later. The next run may find no host in what the instances hold: then
        nobody else would release it.

        Args:
            instances: None: all of the request.
        """
        uuids = self.made if instances is None else instances
        self._claims.doubts.note_unknown(uuids, self._pass.owner, self._pass.kept)

    def release(self) -> None:
        """Release claims and reservations: the request has failed, or its reply cannot be delivered."""
        made, self.made = self.made, {}
        # Another run may have written these allocations, and may reply with them without a fence. So they are
        # left in doubt, not released: what nova says later decides.
        unclear = made.keys() & self._unclear
        self.doubt(unclear)
        self._release({uuid: one for uuid, one in made.items() if uuid not in unclear})
        self._reservations.remove(self._request.instance_uuids)

    def _release(self, made: Mapping[str, ConsumerAllocations]) -> None:
        for uuid, one in made.items():
            rows = _rows(one, self._kept.get(uuid, ()))
            for listener in self._claims.listeners:
                listener.released(uuid, rows)
        self.released = self.released or bool(made)
        if made:
            changed = self._claims.release(made, self._kept, self._pass.kept, self._pass.context)
            # After a lost write of this run it may have come from that one.
            self.overtaken = self.overtaken or bool(changed - self._unclear)

    # -- results ---------------------------------------------------------------------------------------------

    def _refused_before(self, candidates: Mapping[str, AllocationCandidate]) -> Results:
        """Return the results of the claims whose hosts do not pass the check before, by instance UUID."""
        of, roots = self._pass, {one.root for one in candidates.values()}
        outcome = Outcome.REFUSED
        try:
            reasons = of.winners(roots)
        except PlacementError as error:
            outcome, reasons = Outcome.UNSENT, dict.fromkeys(roots, str(error))
        return {
            uuid: ended(unsent(outcome, reasons[one.root]), ClaimHistory(uuid, of.host_name(one.root)))
            for uuid, one in candidates.items()
            if one.root in reasons
        }

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = self._clock()
        try:
            yield
        finally:
            self.seconds += self._clock() - started

    def _note_lost(self, lost: Iterable[str]) -> None:
        """Note instances whose writes had no response, and may come yet."""
        uuids = set(lost)
        self._unclear |= uuids
        self.doubt(uuids)

    def _remember(self, results: Results, candidates: Mapping[str, AllocationCandidate]) -> None:
        tries = (event.attempt for result in results.values() for event in result.events)
        self._writes += max(tries, default=0) + (len(results) - 1) // self._claims.batch_size
        for uuid, result in results.items():
            self._events.setdefault(uuid, []).extend(result.events)
            if result.done:
                self.made[uuid] = result.held
                # An evacuated instance is left what it held before.
                self._kept[uuid] = result.kept.allocations
        # Whatever fails from here on, the claims are released with the session.
        self._note_lost(uuid for uuid, one in results.items() if one.lost)
        for uuid, result in results.items():
            if result.done:
                for listener in self._claims.listeners:
                    listener.claimed(uuid, candidates[uuid].allocations)
            elif result.try_next:
                self._claims.note_refusal(result)


class NothingSent(Session):
    """Grants each claim and sends nothing: instances hold them already, or shall hold nothing."""

    def __init__(self, _request: SchedulingRequest | None = None) -> None:
        """Begin; nothing is remembered."""
        self.overtaken = False

    def begin(self, table: Any, request: SchedulingRequest, winners: Winners = all_win) -> None:
        """Begin a pass."""

    def claim(self, candidates: Mapping[str, AllocationCandidate]) -> Mapping[str, Written]:
        """Return that each instance has its allocations."""
        return dict.fromkeys(candidates, Written(Outcome.DONE))

    def release(self) -> None:
        """Release nothing."""


def _rows(held: ConsumerAllocations, besides: Collection[str]) -> Resources:
    """Return what an instance holds of other providers."""
    return {one: entry for one, entry in held.allocations.items() if one not in besides}


def _refused(result: Written, finding: Finding) -> Written:
    """Return the result of a claim that was released after a check."""
    outcome = Outcome.REFUSED if finding.resource_class else Outcome.CONTENDED
    return replace(
        result,
        outcome=outcome,
        cause=finding.cause,
        reason=finding.cause,
        provider=finding.provider,
        resource_class=finding.resource_class,
    )
