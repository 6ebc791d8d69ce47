"""What the caller of a claim receives."""

from dataclasses import dataclass

from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.claim_events import ClaimEvent, ClaimState
from scheduler.placement.outcomes import UNAVAILABLE, Outcome

_ANOTHER_HOST = frozenset({Outcome.REFUSED, Outcome.GONE, Outcome.CONTENDED})


def end_of(outcome: Outcome) -> ClaimState:
    """Return the state in which a claim with this outcome ends."""
    if outcome is Outcome.DONE:
        return ClaimState.GRANTED
    return ClaimState.NEXT_HOST if outcome in _ANOTHER_HOST else ClaimState.GIVEN_UP


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
        final: Whether no other host would be granted, as what the instance keeps is refused.
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
    final: bool = False

    @property
    def claimed(self) -> bool:
        """Whether the instance has its allocations."""
        return self.outcome is Outcome.DONE

    @property
    def try_next(self) -> bool:
        """Whether it is worth trying another candidate or host."""
        return self.outcome in _ANOTHER_HOST and not self.final

    @property
    def unavailable(self) -> bool:
        """Whether Placement gave no usable answer."""
        return self.outcome in UNAVAILABLE

    @property
    def hopeless(self) -> bool:
        """Whether no candidate would do now."""
        return not (self.claimed or self.try_next)
