"""Confirming what instances hold already, for a request that is answered with it.

spec: placement-and-workflow 4.9

An earlier delivery of the request, or another request, has given the instances their allocations. The same
allocations are written again, which raises the generation of each consumer. A process that gives back
the earlier claims goes by their generations, so it leaves the allocations alone from then on.

All are written in one request to Placement, which carries it out for all instances or for none. So of two who
confirm and give back at the same time one wins, for all: if anything was given back or deleted meanwhile,
nothing is confirmed, and everything is still whose it was.

Only a clear response counts. After a lost one the instances are read until the effect shows, and are written
once more with the generations that they have then. The lost write cannot take effect after that.

What a redelivered request holds is written twice. Another process may have died after it recorded the same
confirmation, which was not carried out: its successor would take the first write for that one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from scheduler.claims.allocations_api import ConsumerAllocations, allocations_body
from scheduler.claims.batch import read_until, roots_of
from scheduler.claims.claim import REFUSALS, ClaimRequest
from scheduler.claims.events import ClaimHistory, ClaimState
from scheduler.claims.parts import ClaimParts
from scheduler.claims.responses import IN_EFFECT, WriteOutcome, cause_of, refused_resource, write_outcome
from scheduler.claims.result import ClaimResult, Outcome, OwnWrite, Refusal, own_write_in
from scheduler.placement.client import Reply
from scheduler.placement.errors import PlacementSilent, PlacementUnanswered, PlacementUnreachable

CHANGED = "the instance does not hold the allocations any more"
ANOTHER_CHANGED = "another instance of the request does not hold its allocations any more"

ReadAll = Callable[[Sequence[str], Any], Mapping[str, ConsumerAllocations]]
"""Instance UUIDs, context → what those of them hold that were read; an empty one ends the reading."""


class HeldClaim(NamedTuple):
    """An instance that is to keep what it holds.

    Attributes:
        request: For whom, and until when. Its candidate is the part of the allocations that it asked for.
        held: What the instance holds, as it was read.
        earlier: Writes that are to be given back by this process, or by another one of its daemon for the
            same request. What is from one of them is this request's from then on. All else is adopted: a
            caller may have been answered with it.
    """

    request: ClaimRequest
    held: ConsumerAllocations
    earlier: tuple[OwnWrite, ...] = ()

    @property
    def uuid(self) -> str:
        """The instance."""
        return self.request.uuid


class Confirmation:
    """The confirmation of what the instances of one request hold; it is made once.

    The caller holds the locks of the instances.
    """

    def __init__(
        self,
        claims: Sequence[HeldClaim],
        parts: ClaimParts,
        read_all: ReadAll,
        refusal: Callable[[], Refusal | None] = lambda: None,
    ) -> None:
        """Prepare it.

        Args:
            claims: What is to be confirmed; at most ``policy.confirm_size`` instances.
            parts: What all claims work with.
            read_all: Reads what instances hold.
            refusal: Returns why nothing more may be sent; None while it may.
        """
        self._requests = {one.uuid: one.request for one in claims}
        self._held = {one.uuid: one.held for one in claims}
        self._wanted = {one.uuid: one.held.allocations for one in claims}
        self._earlier = {one.uuid: one.earlier for one in claims}
        self._histories = {
            uuid: ClaimHistory(uuid, request.host_label, on_event=parts.on_event)
            for uuid, request in self._requests.items()
        }
        self._api, self._policy, self._timing = parts.api, parts.policy, parts.timing
        self._journal, self._provider_locks = parts.journal, parts.provider_locks
        self._read_all = read_all
        self._refusal = refusal
        self._own: dict[str, OwnWrite] = {}  # what the current write makes this request's
        self._lost: dict[str, tuple[OwnWrite, ...]] = {}  # of these, had no clear response
        self._accepted: dict[str, ClaimResult] = {}  # the results if nothing more is written
        self._changed = False  # at least one instance may have, since it was read
        self._times_lost = 0
        self._concurrent_updates = 0
        self._consumer_conflicts = 0
        self._results: dict[str, ClaimResult] = {}

    def confirm_all(self) -> dict[str, ClaimResult]:
        """Return the result of each instance: all have been confirmed, or none.

        Never raises for a failure of Placement.
        """
        try:
            while not self._results:
                self._send()
        except PlacementSilent as error:
            self._fail(Outcome.UNAVAILABLE, str(error))
        return self._results

    # -- the request: each method leads to results, or to the same request once more -------------------------

    def _send(self) -> None:
        if refusal := self._refusal():
            self._fail(*refusal)
            return
        for history in self._histories.values():
            history.begin_try()
        roots = roots_of(self._requests.values())
        with self._provider_locks.hold(roots, self._policy.lock_timeout) as held:
            if not held:
                self._fail(Outcome.CONFLICT, "the locks of its hosts were not free in time")
                return
            self._record()
            try:
                react = partial(self._react, self._write())
            except PlacementUnreachable:
                self._journal.withdraw_writes(self._own)
                raise
            except PlacementUnanswered as error:
                delays = self._policy.reads_after(timed_out=error.timed_out)
                react = partial(self._lose, str(error), delays)
        react()

    def _record(self) -> None:
        self._own = {}
        for uuid, held in self._held.items():
            earlier = own_write_in(self._writes_of(uuid), held)
            if earlier is not None:
                owner = self._requests[uuid].owner
                made = ConsumerAllocations(held.allocations, (held.generation or 0) + 1, owner)
                self._own[uuid] = OwnWrite(made, earlier.previous)
        self._journal.record_writes(self._own, next(iter(self._requests.values())).message_id)

    def _writes_of(self, uuid: str) -> tuple[OwnWrite, ...]:
        """Return the writes after which what an instance holds is this request's."""
        accepted = self._accepted.get(uuid)
        own = accepted.own_writes if accepted else ()
        return (*self._earlier[uuid], *self._lost.get(uuid, ()), *own)

    def _write(self) -> Reply:
        bodies = {
            uuid: allocations_body(held.allocations, self._requests[uuid].owner, held.generation)
            for uuid, held in self._held.items()
        }
        if len(bodies) > 1:
            return self._api.post_allocations(bodies, self._context)
        ((uuid, body),) = bodies.items()
        return self._api.put_allocations(uuid, body, self._context)

    def _react(self, reply: Reply) -> None:
        outcome = write_outcome(reply)
        if outcome not in IN_EFFECT:
            # The record would claim what another process confirms with the same generation.
            self._journal.withdraw_writes(self._own)
        if outcome is WriteOutcome.DONE:
            self._accept(reply)
        elif outcome is WriteOutcome.CONSUMER_CONFLICT:
            self._look_again(reply)
        elif outcome is WriteOutcome.CONCURRENT:
            self._back_off(reply)
        elif outcome is WriteOutcome.UNKNOWN:
            self._lose(cause_of(reply), self._policy.reads_after_reset, reply.status)
        else:
            self._refuse(REFUSALS[outcome], reply)

    def _back_off(self, reply: Reply) -> None:
        self._concurrent_updates += 1
        if self._concurrent_updates >= self._policy.concurrent_update_tries:
            self._fail(Outcome.CONFLICT, cause_of(reply), reply.status)
        else:
            self._add_event(ClaimState.BACKING_OFF, cause_of(reply), reply.status)
            self._timing.sleep(self._timing.uniform(*self._policy.retry_delay))

    # -- what the instances hold now -------------------------------------------------------------------------

    def _look_again(self, reply: Reply) -> None:
        """Read all instances, of which one has changed: perhaps another run of the request confirmed it."""
        self._add_event(ClaimState.CONSUMER_CHANGED, cause_of(reply), reply.status)
        self._consumer_conflicts += 1
        self._changed = True
        if self._consumer_conflicts > self._policy.consumer_conflicts:
            reason = "another writer changes the allocations of the instance"
            self._fail(Outcome.CONFLICT, reason, reply.status)
        else:
            self._read()

    def _lose(self, cause: str, delays: Sequence[float], status: int | None = None) -> None:
        """Read the first instance until it has changed: the request did all or nothing. Then read all."""
        self._lost |= {uuid: (*self._lost.get(uuid, ()), own) for uuid, own in self._own.items()}
        self._times_lost += 1
        self._add_event(ClaimState.OUTCOME_UNKNOWN, f"no clear response ({cause})", status)
        if read_until(self._first_has_changed, delays, self._timing, self._refusal) is None:
            self._fail(Outcome.UNAVAILABLE, "Placement does not answer")
        elif self._times_lost > self._policy.resends:
            self._fail(Outcome.UNAVAILABLE, "Placement does not answer any write")
        else:
            self._read()
            self._add_event(ClaimState.RESENDING, f"no clear response ({cause})")

    def _first_has_changed(self) -> bool | None:
        first = next(iter(self._requests))
        try:
            return self._api.get_allocations(first, self._context) != self._held[first]
        except PlacementSilent:
            return None

    def _read(self) -> None:
        current = self._read_all(list(self._requests), self._context)
        changed = {uuid: CHANGED for uuid, held in current.items() if held.allocations != self._wanted[uuid]}
        if changed:
            self._changed = True
            self._fail(Outcome.CONFLICT, ANOTHER_CHANGED, apart=changed)
        else:
            self._held, self._changed = dict(current), False

    # -- results ---------------------------------------------------------------------------------------------

    def _add_event(self, state: ClaimState, cause: str, status: int | None = None) -> None:
        for history in self._histories.values():
            history.add(state, cause, status)

    @property
    def _context(self) -> Any:
        return next(iter(self._requests.values())).context

    def _accept(self, reply: Reply) -> None:
        first, self._lost = not self._accepted, {}  # a lost write cannot take effect any more
        for uuid, held in self._held.items():
            own = self._own.get(uuid)
            made = own.made if own else replace(held, generation=(held.generation or 0) + 1)
            self._held[uuid] = made
            self._accepted[uuid] = ClaimResult(
                Outcome.CLAIMED,
                made=made,
                previous=own.previous if own else None,
                overlapped=bool(self._earlier[uuid]),
                adopted=own is None,
            )
        if first and any(request.redelivered for request in self._requests.values()):
            self._add_event(ClaimState.REWRITING, "an earlier run could have recorded the same", reply.status)
        else:
            self._grant("Placement accepted it", reply.status)

    def _grant(self, cause: str, status: int | None = None) -> None:
        self._add_event(ClaimState.GRANTED, cause, status)
        for uuid, result in self._accepted.items():
            lost = self._lost.get(uuid, ())
            events = tuple(self._histories[uuid].events)
            self._results[uuid] = replace(result, unsure=bool(lost), lost=lost, events=events)

    def _refuse(self, outcome: Outcome, reply: Reply) -> None:
        self._fail(outcome, cause_of(reply), reply.status, refused_resource(reply))

    def _fail(
        self,
        outcome: Outcome,
        reason: str,
        status: int | None = None,
        resource: tuple[str, str] = ("", ""),
        apart: Mapping[str, str] | None = None,
    ) -> None:
        """End for all instances. ``apart`` has reasons that those have which have changed.

        If they were confirmed, and none has changed since, they stay confirmed.
        """
        if self._accepted and not self._changed:
            self._grant(reason, status)
            return
        for uuid in self._requests:
            why = (apart or {}).get(uuid, reason)
            self._histories[uuid].add(outcome.end, why, status)
            accepted = self._accepted.get(uuid)
            lost = (*(accepted.own_writes if accepted else ()), *self._lost.get(uuid, ()))
            self._results[uuid] = ClaimResult(
                outcome,
                why,
                *resource,
                made=lost[-1].made if lost else None,
                previous=lost[-1].previous if lost else None,
                unsure=bool(lost),
                overlapped=bool(self._earlier[uuid]),
                lost=lost,
                events=tuple(self._histories[uuid].events),
            )
