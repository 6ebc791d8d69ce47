"""What the caller of a claim receives."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.claim_events import ClaimEvent, ClaimState


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
class ClaimResult:
    """How a claim ended.

    Attributes:
        outcome: How it ended.
        reason: The reason for people; "" for a claim that succeeded.
        refused_class: The resource class that a refusal names, or "".
        refused_provider: The provider that a refusal names, or "".
        made: What the instance holds because of this claim, with the generation that proves it.
        previous: What it held before and keeps besides (an evacuation). A release leaves it.
        lost: Whether a try had no response, and may yet take effect.
        held: What the instance holds because of another request or run; the claim was refused for it.
        events: What happened, in order.
    """

    outcome: Outcome
    reason: str = ""
    refused_class: str = ""
    refused_provider: str = ""
    made: ConsumerAllocations | None = None
    previous: ConsumerAllocations | None = None
    lost: bool = False
    held: ConsumerAllocations | None = None
    events: tuple[ClaimEvent, ...] = ()

    @property
    def claimed(self) -> bool:
        """Whether the instance has its allocations."""
        return self.outcome is Outcome.CLAIMED

    @property
    def try_next(self) -> bool:
        """Whether it is worth trying another candidate or host."""
        return self.outcome in _ANOTHER_HOST

    @property
    def hopeless(self) -> bool:
        """Whether no candidate would do now."""
        return not (self.claimed or self.try_next)
