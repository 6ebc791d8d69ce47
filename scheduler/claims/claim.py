"""Claims: which write follows what became of the last one (spec: placement-and-workflow 4.3-4.6).

Most consumers are new, so the first write says that there is none, and nothing is read before it. A claim
begins with FIRST_WRITE; ``ClaimState`` tells what each state means. The writer adds the states of its tries::

    the write is    what follows
    DONE            GRANTED; or the same once more with the next generation (a fence), if another run of the
                    request, or a lost write that comes late, could have done the same
    CHANGED         the instance holds
                        nothing: FIRST_WRITE
                        allocations of evacuated hosts only: KEEPING_SOURCE
                        those of an earlier claim of ours: REPLACING
                        the same, of another request, which may have been answered with them: ADOPTING
                        others, or it changes all the time: GIVEN_UP
    REFUSED, GONE, CONTENDED             NEXT_HOST
    INVALID, DENIED, UNSENT, UNKNOWN     GIVEN_UP; what may yet come of it is cleaned up by the caller

What is ours is known by its generation: a write that sends none makes 1, each other one adds 1
(spec: placement-and-workflow 4.2).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from oslo_log import log

from scheduler.claims.claim_request import NEW, ClaimRequest, ConsumerState
from scheduler.claims.parts import ClaimParts
from scheduler.claims.recorded_writes import RecordedWrites
from scheduler.claims.result import ClaimResult, Outcome, OwnWrite, Refusal, own_write_in
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.claim_events import ClaimHistory, ClaimState
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.writes import Write, WriteResult, Written

LOG = log.getLogger(__name__)

STOPPING = "the scheduler is stopping"

Results = dict[str, ClaimResult]
"""Instance UUID → result."""

Refuses = Callable[[], Refusal | None]
"""Returns why nothing more may be sent; None while it may."""


_NOT_SENT = Written(WriteResult.UNSENT)


def reason_of(refusal: Refusal | None) -> str:
    """Return the reason of a refusal; "" for none."""
    return refusal.reason if refusal else ""


#: How a claim ends whose write was not carried out.
OUTCOMES = {
    WriteResult.REFUSED: Outcome.REFUSED,
    WriteResult.GONE: Outcome.GONE,
    WriteResult.CONTENDED: Outcome.CONTENDED,
    WriteResult.INVALID: Outcome.INVALID,
    WriteResult.CHANGED: Outcome.CONFLICT,
    WriteResult.DENIED: Outcome.UNAVAILABLE,
    WriteResult.UNSENT: Outcome.UNAVAILABLE,
    WriteResult.UNKNOWN: Outcome.UNAVAILABLE,
}


class Claim:
    """The claim for one instance on one host.

    Attributes:
        request: What is claimed.
        write: What is to be written next.
        adopts: Whether the instance holds that already, because of another request.
        result: How the claim ended; None before.
    """

    def __init__(self, request: ClaimRequest, parts: ClaimParts, known: ConsumerState = NEW) -> None:
        """Begin a claim.

        Args:
            request: What to claim.
            parts: What all claims work with.
            known: What is known of the consumer.
        """
        self.request = request
        self._reader, self._conflicts_left = parts.writer.reader, parts.policy.consumer_conflicts
        self._history = ClaimHistory(request.uuid, request.host_label, on_event=parts.on_event)
        self._known, self._journal = known, parts.journal
        now = parts.timing.monotonic()
        # An earlier delivery may have been served by another host, whose journal is not known here.
        late = now + parts.writer.policy.late_write_window if request.redelivered else known.late_until
        self._late_until = max(known.late_until, late)
        self._overlaps = now < self._late_until
        self._source: ConsumerAllocations | None = None  # what the instance keeps besides
        self._lost: list[OwnWrite] = []
        self._accepted: OwnWrite | None = None
        self._fenced = False
        self._held: ConsumerAllocations | None = None
        self.adopts = False
        self.write = self._plain_write()
        self.result: ClaimResult | None = None

    @property
    def own(self) -> OwnWrite:
        """What the next write does."""
        return OwnWrite(self.write.made(self.write.generation), self._source)

    def take(self, written: Written, refusal: Refusal | None = None) -> None:
        """Go on after a write: there is another one to be sent, or a result.

        Args:
            written: What became of it.
            refusal: Why nothing more may be sent, if so.
        """
        self._lost += [self.own] * (0 if self.adopts else written.lost)
        self._overlaps |= written.lost > 0
        try:
            if written.result is WriteResult.DONE:
                self._accept(written)
            elif written.result is WriteResult.CHANGED:
                self._go_on_from(written)
            else:
                self._fail(written, refusal)
        except PlacementSilent as error:
            self._end(Outcome.UNAVAILABLE, str(error), str(error))

    def refuse(self, refusal: Refusal) -> None:
        """End: nothing more may be sent."""
        self._end(*refusal, refusal.reason)

    # -- a write was carried out -----------------------------------------------------------------------------

    def _accept(self, written: Written) -> None:
        self._accepted = OwnWrite(written.held, self._source)
        if self.adopts or not self._fence(self._accepted, written.lost):
            self._end(Outcome.CLAIMED, "", written.cause, written)

    def _fence(self, own: OwnWrite, lost: int) -> bool:
        """Write the same once more if it could not be told from another write; return whether to do so.

        That is one of another process, which gives it back; or one that is recorded by a process that died
        before it was carried out; or a lost one for a new consumer, which may come when the instance is
        deleted (``late_writes``).
        """
        request, generation = self.request, own.made.generation
        state = ClaimState.REWRITING
        if own_write_in(self._known.elsewhere, own.made):
            state, why = ClaimState.REPLACING, "an earlier claim could have written the same"
        elif self._fenced:
            return False
        elif lost:
            why = "a lost write may yet do the same"
        elif request.redelivered and (generation == 1 or own.previous is not None):
            why = "an earlier run could have recorded the same"
        else:
            return False
        self._fenced = True
        self.write = Write(own.made.allocations, request.owner, generation, history=self._history)
        self._history.add(state, why)
        return True

    # -- the instance holds something else than expected -----------------------------------------------------

    def _go_on_from(self, written: Written) -> None:
        current = written.held
        self._conflicts_left -= 1
        if self._conflicts_left < 0 or (self.write.generation is None and not current.allocations):
            reason = "another writer changes the allocations of the instance"
            self._end(Outcome.CONFLICT, reason, f"{written.cause}; {reason}", written)
            return
        earlier = own_write_in(self._known.earlier, current)
        source = current if earlier is None else earlier.previous
        if not current.allocations:
            self._source, self.write = None, self._plain_write()
            self._history.add(ClaimState.FIRST_WRITE, "the consumer holds nothing")
        elif source is not None and self._is_source(source):
            self._source = source
            # A provider in both keeps its old amounts: source and destination share it.
            allocations = {**self.request.candidate.allocations, **source.allocations}
            self._write_over(current, allocations)
            reason = "the instance holds allocations of the evacuated host"
            self._history.add(ClaimState.KEEPING_SOURCE, reason)
        elif earlier is not None:
            self._source = None
            self.write = replace(self._plain_write(), generation=current.generation)
            self._history.add(ClaimState.REPLACING, "the instance holds allocations of an earlier claim")
        else:
            self._start_beside_another_request(current, written)

    def _start_beside_another_request(self, current: ConsumerAllocations, written: Written) -> None:
        """Adopt the allocations of another request, or fail; it may have been answered with them."""
        if not (self._lost or self._known.earlier):
            # Nothing was written: a successor of this process must not take them for ours.
            self._journal.remove_records([self.request.uuid])
        if self._can_adopt(current):
            self.adopts = True
            self._write_over(current, current.allocations)
            self._history.add(ClaimState.ADOPTING, "the instance holds the allocations by another request")
            return
        self._held = current
        reason = "the instance holds allocations of another request"
        self._end(Outcome.CONFLICT, reason, f"{written.cause}; {reason}", written)

    def _can_adopt(self, current: ConsumerAllocations) -> bool:
        """Return whether the instance holds the candidate, perhaps beside what an evacuated one keeps.

        One of several instances is only adopted together with all others (``fence``): if one of these fails,
        what was adopted would not be given back, neither by this request nor by the one that it was adopted
        from.
        """
        wanted, held, root = self.request.candidate, current.allocations, self.request.candidate.root
        if not self.request.alone or held == wanted.allocations:
            return self.request.alone
        return (
            self._other_nodes(current) == {root}
            and held.keys() >= wanted.allocations.keys()
            and held[root] == wanted.allocations[root]
        )

    def _is_source(self, current: ConsumerAllocations) -> bool:
        sources = self.request.evacuating_from
        if not sources or self._other_nodes(current):
            return False
        if any(provider in sources for provider in current.allocations):
            return True
        context = self.request.context
        return any(self._reader.root_of(provider, context) in sources for provider in current.allocations)

    def _other_nodes(self, current: ConsumerAllocations) -> set[str]:
        """Return nodes, other than the evacuated ones, on which an evacuated instance has allocations."""
        leaves, nodes = self.request.evacuating_from, self.request.nodes
        return {node for node in current.allocations if leaves and node in nodes and node not in leaves}

    # -- writes and ends -------------------------------------------------------------------------------------

    def _plain_write(self) -> Write:
        plain = Write.of(self.request.candidate, self.request.owner)
        return replace(plain, history=self._history, late_until=self._late_until)

    def _write_over(self, current: ConsumerAllocations, allocations: Any) -> None:
        self.write = Write(allocations, self.request.owner, current.generation, history=self._history)

    def _fail(self, written: Written, refusal: Refusal | None) -> None:
        if written.result is WriteResult.CONTENDED:
            LOG.error("Failed scheduler client operation claim_resources: out of retries: %s", written.cause)
        outcome = OUTCOMES[written.result]
        if refusal and outcome is Outcome.UNAVAILABLE:
            outcome = refusal.outcome
        self._end(outcome, written.reason, written.cause, written)

    def _end(self, outcome: Outcome, reason: str, cause: str, written: Written = _NOT_SENT) -> None:
        granted = self._accepted if outcome is Outcome.CLAIMED else None
        lost = [*self._lost] if granted or self._accepted is None else [*self._lost, self._accepted]
        self._history.add(outcome.end, cause, written.status)
        made = granted or (lost[-1] if lost else None)
        self.result = ClaimResult(
            outcome,
            reason,
            refused_class=written.resource_class,
            refused_provider=written.provider,
            made=made.made if made else None,
            previous=made.previous if made else None,
            unsure=bool(lost),
            overlapped=self._overlaps,
            lost=tuple(lost),
            adopted=self.adopts,
            held=self._held,
            events=tuple(self._history.events),
        )


def claim_all(claims: Sequence[Claim], parts: ClaimParts, refusal: Refuses, until: float) -> Results:
    """Write claims for different instances until each has a result; those of one round in one POST.

    The caller holds the locks of the instances, and has recorded the plain claims in the journal. Never
    raises for a failure of Placement.

    Args:
        claims: The claims.
        parts: What they work with.
        refusal: Returns why nothing more may be sent; None while it may.
        until: When to give up.
    """
    while left := {one.request.uuid: one for one in claims if one.result is None}:
        if why := refusal():
            for one in left.values():
                one.refuse(why)
            break
        first = next(iter(left.values())).request
        writes = {uuid: one.write for uuid, one in left.items()}
        own = {uuid: one.own for uuid, one in left.items() if not one.adopts}
        known = {uuid: one.request.plain for uuid, one in left.items()}
        with RecordedWrites(parts.journal, own, known, first.message_id) as recorded:
            written = recorded.settle(
                parts.writer.write(
                    writes,
                    until=until,
                    refusal=lambda: reason_of(refusal()),
                    on_lost=recorded.note_lost,
                    context=first.context,
                )
            )
        for uuid, each in written.items():
            left[uuid].take(each, refusal())
    return {one.request.uuid: one.result for one in claims if one.result is not None}
