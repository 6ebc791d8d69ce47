"""The fence: what instances hold already is written once more, for a request that is answered with it.

spec: placement-and-workflow 4.9

An earlier delivery of the request, or another request, has given the instances their allocations. The same
allocations are written again with the generations that were read, which raises them. A process that gives
back the earlier claims goes by their generations, so it leaves the allocations alone from then on.

All are written in one POST, which Placement carries out for all instances or for none. So of two who fence
and give back at the same time one wins, for all: if anything was given back or deleted meanwhile, nothing is
fenced, and everything is still whose it was.

What a redelivered request holds is written twice. Another process may have died after it recorded the same
write, which was not carried out: its successor would take the first write for that one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from scheduler.claims.claim import OUTCOMES, ClaimRequest, Refuses, Results, reason_of
from scheduler.claims.parts import ClaimParts
from scheduler.claims.recorded_writes import RecordedWrites
from scheduler.claims.result import ClaimResult, Outcome, OwnWrite, own_write_in
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.claim_events import ClaimHistory, ClaimState
from scheduler.placement.writes import Write, WriteResult, Written

CHANGED = "the instance does not hold the allocations any more"
ANOTHER_CHANGED = "another instance of the request does not hold its allocations any more"


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


class Fence:
    """The fence of what the instances of one request hold; it is made once.

    The caller holds the locks of the instances.
    """

    def __init__(
        self, claims: Sequence[HeldClaim], parts: ClaimParts, refusal: Refuses, until: float
    ) -> None:
        """Prepare it.

        Args:
            claims: What is to be fenced.
            parts: What all claims work with.
            refusal: Returns why nothing more may be sent; None while it may.
            until: When to give up; seconds of the clock.
        """
        self._claims = {one.uuid: one for one in claims}
        self._parts, self._refusal, self._until = parts, refusal, until
        self._held = {one.uuid: one.held for one in claims}
        self._histories = {
            one.uuid: ClaimHistory(one.uuid, one.request.host_label, on_event=parts.on_event)
            for one in claims
        }
        self._mine = {one.uuid: one.earlier for one in claims}  # writes of ours
        self._fenced: Results = {}  # the results if nothing more is written

    def write(self) -> Results:
        """Return the result of each instance: all are fenced, or none.

        Never raises for a failure of Placement.
        """
        results: Results | None = None
        conflicts_left = self._parts.policy.consumer_conflicts
        while results is None:
            if refusal := self._refusal():
                return self._fail(*refusal)
            results = self._write_once(conflicts_left)
            conflicts_left -= not self._fenced
        return results

    def _write_once(self, conflicts_left: int) -> Results | None:
        """Write, and return the results; None: it is to be written once more."""
        own, first = self._own(), next(iter(self._claims.values())).request
        with RecordedWrites(self._parts.journal, own, {}, first.message_id) as recorded:
            written = recorded.settle(
                self._parts.writer.write(
                    {uuid: self._write_of(uuid) for uuid in self._claims},
                    all_or_none=True,
                    until=self._until,
                    refusal=lambda: reason_of(self._refusal()),
                    on_lost=recorded.note_lost,
                    context=first.context,
                )
            )
        one = written[first.uuid]
        if one.result is WriteResult.DONE:
            return self._accept(own, written)
        if one.result is WriteResult.CHANGED:
            changed = {uuid for uuid, each in written.items() if not self._holds_the_same(uuid, each)}
            if changed or not conflicts_left:
                lost = {uuid: fenced.own_writes for uuid, fenced in self._fenced.items()}
                self._fenced = {}
                return self._fail(Outcome.CONFLICT, ANOTHER_CHANGED, written, changed, lost)
            # Another run of the request has fenced it.
            self._held, self._fenced = {uuid: each.held for uuid, each in written.items()}, {}
            return None
        # Another host is no help to an instance that holds one.
        outcome = Outcome.CONFLICT if one.result is WriteResult.CONTENDED else OUTCOMES[one.result]
        unknown = own if one.lost else {}
        return self._fail(
            outcome, one.reason, written, lost={uuid: (mine,) for uuid, mine in unknown.items()}
        )

    def _own(self) -> dict[str, OwnWrite]:
        """Return what the next write makes this request's, by instance UUID."""
        own = {}
        for uuid, held in self._held.items():
            earlier = own_write_in(self._mine[uuid], held)
            if earlier is not None:
                own[uuid] = OwnWrite(self._write_of(uuid).made(held.generation), earlier.previous)
        return own

    def _write_of(self, uuid: str) -> Write:
        held, owner = self._held[uuid], self._claims[uuid].request.owner
        return Write(held.allocations, owner, held.generation, history=self._histories[uuid])

    def _holds_the_same(self, uuid: str, written: Written) -> bool:
        return written.held.allocations == self._held[uuid].allocations

    # -- results ---------------------------------------------------------------------------------------------

    def _accept(self, own: Mapping[str, OwnWrite], written: Mapping[str, Written]) -> Results | None:
        again = not self._fenced and any(one.request.redelivered for one in self._claims.values())
        for uuid, each in written.items():
            mine = own.get(uuid)
            self._held[uuid] = each.held
            self._mine[uuid] += (mine,) if mine else ()
            self._fenced[uuid] = ClaimResult(
                Outcome.CLAIMED,
                made=each.held,
                previous=mine.previous if mine else None,
                overlapped=bool(self._claims[uuid].earlier),
                adopted=mine is None,
            )
        state = ClaimState.REWRITING if again else ClaimState.GRANTED
        cause = "an earlier run could have recorded the same"
        for uuid, each in written.items():
            self._histories[uuid].add(state, cause if again else each.cause, each.status)
        return None if again else self._with_events(self._fenced)

    def _fail(
        self,
        outcome: Outcome,
        reason: str,
        written: Mapping[str, Written] | None = None,
        apart: Collection[str] = (),
        lost: Mapping[str, tuple[OwnWrite, ...]] | None = None,
    ) -> Results:
        """End for all instances; those in ``apart`` have changed.

        If they were fenced, and none has changed since, they stay fenced.
        """
        results: Results = {}
        for uuid in self._claims:
            own = (lost or {}).get(uuid, ())
            one = (written or {}).get(uuid, Written(WriteResult.UNSENT))
            why = CHANGED if uuid in apart else reason
            fenced = self._fenced.get(uuid)
            self._histories[uuid].add(ClaimState.GRANTED if fenced else outcome.end, why, one.status)
            failed = ClaimResult(
                outcome,
                why,
                one.resource_class,
                one.provider,
                made=own[-1].made if own else None,
                previous=own[-1].previous if own else None,
            )
            results[uuid] = replace(fenced or failed, unsure=bool(own), lost=own)
        return self._with_events(results)

    def _with_events(self, results: Results) -> Results:
        return {
            uuid: replace(one, events=tuple(self._histories[uuid].events)) for uuid, one in results.items()
        }
