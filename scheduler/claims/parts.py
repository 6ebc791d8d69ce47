"""What all claims of a process work with."""

from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler.claims.journal import ClaimJournal
from scheduler.claims.policy import ClaimPolicy
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.write_policy import Timing


@dataclass(frozen=True, slots=True)
class ClaimParts:
    """What all claims of a process work with; any thread may use it.

    Attributes:
        writer: Writes and reads allocations.
        policy: The bounds of claims and cleanups.
        journal: Records what is claimed.
        on_event: Called at each event of a claim; must not wait.
    """

    writer: AllocationWriter
    policy: ClaimPolicy
    journal: ClaimJournal = field(default_factory=ClaimJournal)
    on_event: Callable[[], None] = lambda: None

    @property
    def timing(self) -> Timing:
        """Clock, sleep and randomness."""
        return self.writer.timing
