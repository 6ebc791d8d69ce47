"""What the caller of a claim is told."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.claim_events import ClaimEvent, ClaimHistory, ClaimState


class Outcome(Enum):
    """How a claim ended.

    Attributes:
        CLAIMED: The instance has its allocations.
        REFUSED: This host has no capacity; another may have.
        GONE: The provider of this host does not exist any more; another may.
        CONTENDED: Too many claims use this host at once; another may be free.
        CONFLICT: Another writer changes the allocations of this instance: nova's ``AllocationUpdateFailed``.
        INVALID: The request is malformed (no project, no valid UUID); no host will do.
        UNAVAILABLE: Placement does not answer, or refuses all requests; no host will do.
        STOPPING: The process stops; another scheduler can serve the request.
    """

    CLAIMED = auto()
    REFUSED = auto()
    GONE = auto()
    CONTENDED = auto()
    CONFLICT = auto()
    INVALID = auto()
    UNAVAILABLE = auto()
    STOPPING = auto()

    @property
    def end(self) -> ClaimState:
        """The state in which a claim with this outcome ends."""
        if self is Outcome.CLAIMED:
            return ClaimState.GRANTED
        return ClaimState.NEXT_HOST if self in _ANOTHER_HOST else ClaimState.GIVEN_UP


class Refusal(NamedTuple):
    """Why nothing may be claimed any more, whatever Placement would say."""

    outcome: Outcome
    reason: str


_ANOTHER_HOST = frozenset({Outcome.REFUSED, Outcome.GONE, Outcome.CONTENDED})


@dataclass(frozen=True, slots=True)
class OwnWrite:
    """A write of ours that is in effect, or may come to be once.

    Attributes:
        made: What the consumer holds after it. Its generation, if it is known, proves that it is ours.
        previous: What the consumer held before and shall hold again; None for nothing.
    """

    made: ConsumerAllocations
    previous: ConsumerAllocations | None = None

    def is_in(self, current: ConsumerAllocations) -> bool:
        """Return whether what a consumer holds is from this write."""
        generation = self.made.generation
        same = generation is None or current.generation == generation
        return same and current.allocations == self.made.allocations


def own_write_in(writes: Sequence[OwnWrite], current: ConsumerAllocations) -> OwnWrite | None:
    """Return the write by which a consumer holds what it holds; None if another writer wrote that.

    Each write for a new consumer that overlaps with another one can add one to the generation, although all
    of them expect that there is no consumer. So with several of these the generation proves only that all
    were ours. Of writes that expect the same generation, one is carried out.

    Args:
        writes: Our writes for the consumer that are in effect, or may come to be.
        current: What the consumer holds.
    """
    for one in writes:
        if one.is_in(current):
            return one
    new = sum(one.made.generation == 1 for one in writes)
    later = {one.made.generation for one in writes} - {None, 1}
    most = new + len(later) if new else 0
    for one in writes:
        first = one.made.generation
        if first is None or current.generation is None or one.made.allocations != current.allocations:
            continue
        if first < current.generation <= most:
            return one
    return None


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """How a claim ended, and what it takes to give it back.

    Attributes:
        outcome: How it ended.
        reason: The reason for people; "" for a claim that succeeded.
        refused_class: The resource class that a refusal names, or "".
        refused_provider: The provider that a refusal names, or "".
        made: What the instance holds because of this claim, with the generation that proves it; what it may
            come to hold, if ``unsure``.
        previous: What it held before and keeps besides (an evacuation). A release puts it back.
        unsure: The response to a write was lost, so that a release has to look twice.
        overlapped: Another write was sent when the first may still have been running.
        lost: Writes of this claim and of earlier ones that may yet take effect, once each.
        adopted: The instance held exactly this already, because of another request which may have been
            answered with it. So it is not given back.
        held: What the instance holds because of another request; the claim was refused for it.
        events: What happened, in order.
    """

    outcome: Outcome
    reason: str = ""
    refused_class: str = ""
    refused_provider: str = ""
    made: ConsumerAllocations | None = None
    previous: ConsumerAllocations | None = None
    unsure: bool = False
    overlapped: bool = False
    lost: tuple[OwnWrite, ...] = ()
    adopted: bool = False
    held: ConsumerAllocations | None = None
    events: tuple[ClaimEvent, ...] = ()

    @property
    def claimed(self) -> bool:
        """Whether the instance has its allocations."""
        return self.outcome is Outcome.CLAIMED

    @property
    def own_writes(self) -> tuple[OwnWrite, ...]:
        """The writes that are to be given back."""
        if not self.claimed or self.adopted or self.made is None:
            return self.lost
        return (OwnWrite(self.made, self.previous), *self.lost)

    @property
    def try_next(self) -> bool:
        """Whether it is worth trying another candidate or host."""
        return self.outcome in _ANOTHER_HOST

    @property
    def hopeless(self) -> bool:
        """Whether no candidate would do now."""
        return not (self.claimed or self.try_next)


def unsent_claim(instance_uuid: str, host: str, outcome: Outcome, reason: str) -> ClaimResult:
    """Return the result of a claim that failed before anything was sent, and log it."""
    history = ClaimHistory(instance_uuid, host)
    history.add(outcome.end, reason)
    return ClaimResult(outcome, reason, events=tuple(history.events))
