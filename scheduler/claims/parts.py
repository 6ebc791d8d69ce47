"""What all claims of a process work with."""

from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler.claims.allocations_api import AllocationsApi
from scheduler.claims.journal import ClaimJournal
from scheduler.claims.policy import ClaimPolicy, Timing
from scheduler.locks import KeyedLocks


@dataclass(frozen=True, slots=True)
class ClaimParts:
    """What all claims of a process work with; any thread may use it.

    Attributes:
        api: The requests to Placement.
        policy: The bounds of claims and cleanups.
        timing: Clock, sleep and randomness.
        journal: Records what is claimed.
        provider_locks: At most one claim on a provider is in flight from this process.
        on_event: Called at each event of a claim; must not wait.
    """

    api: AllocationsApi
    policy: ClaimPolicy
    timing: Timing
    journal: ClaimJournal = field(default_factory=ClaimJournal)
    provider_locks: KeyedLocks = field(default_factory=KeyedLocks)
    on_event: Callable[[], None] = lambda: None
