"""What the caller of a claim is told."""

from dataclasses import dataclass
from enum import Enum, auto

from scheduler.claims.allocations_api import ConsumerAllocations


class Outcome(Enum):
    """How a claim ended."""

    CLAIMED = auto()
    REFUSED = auto()  # this host cannot; another may
    GONE = auto()  # this host's provider does not exist any more; another may
    CONTENDED = auto()  # too many claim from this host at once; another may
    CONFLICT = auto()  # somebody else writes this instance's allocations: nova's AllocationUpdateFailed
    INVALID = auto()  # the request is malformed (no project, no valid UUID); no host will do
    UNAVAILABLE = auto()  # Placement is away or lets nobody in; no host will do


_ANOTHER_HOST = {Outcome.REFUSED, Outcome.GONE, Outcome.CONTENDED}


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """How a claim ended, and what it takes to undo it.

    :ivar reason: for humans; "" for a claim that succeeded.
    :ivar refused_class: the resource class that a refusal names, or "".
    :ivar refused_provider: the provider that it names, or "".
    :ivar made: what the instance holds because of this claim; what it may come to hold, if unsure.
    :ivar previous: what it held before and keeps besides (an evacuation); to be put back by a release.
    :ivar unsure: the answer to some write was lost, so that undoing it takes a second look.
    :ivar overlapped: and another write was sent when the first may still have been running.
    :ivar earlier: what lost writes of earlier claims may give it as soon as this one is undone.
    """

    outcome: Outcome
    reason: str = ""
    refused_class: str = ""
    refused_provider: str = ""
    made: ConsumerAllocations | None = None
    previous: ConsumerAllocations | None = None
    unsure: bool = False
    overlapped: bool = False
    earlier: tuple[ConsumerAllocations, ...] = ()

    @property
    def claimed(self) -> bool:
        """The instance has its allocations."""
        return self.outcome is Outcome.CLAIMED

    @property
    def try_next(self) -> bool:
        """It is worth trying another candidate or host."""
        return self.outcome in _ANOTHER_HOST

    @property
    def hopeless(self) -> bool:
        """No candidate would do now."""
        return not (self.claimed or self.try_next)
