"""What consumers shall hold, and what became of that."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
import math
from typing import Any

from scheduler.placement.allocations import NOTHING, ConsumerAllocations, Owner, allocations_body
from scheduler.placement.answer import AllocationCandidate, Resources
from scheduler.placement.claim_events import ClaimEvent, ClaimHistory, ClaimState
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.outcomes import ANOTHER_HOST, UNAVAILABLE, Outcome, Refuses
from scheduler.placement.reply import Reply


@dataclass(frozen=True, slots=True)
class Write:
    """What a consumer shall hold instead of what it holds.

    Attributes:
        allocations: Provider UUID → ``{"resources": {class: amount}}``; empty: nothing (a release).
        owner: Whose they are.
        generation: The generation that the consumer must have; None: it must hold nothing. Whether Placement
            has a record of it without allocations is the writer's business.
        mappings: The groups of the request by their providers, for Placement.
        history: Gets an event for each try, also where a batch is split. Every write of one claim has the
            same history: that is the one list of what happened to it.
    """

    allocations: Resources
    owner: Owner
    generation: int | None = None
    mappings: Mapping[str, Collection[str]] = field(default_factory=dict)
    history: ClaimHistory | None = None

    @classmethod
    def of(cls, candidate: AllocationCandidate, owner: Owner, generation: int | None = None) -> "Write":
        """Return the write that gives a consumer what a candidate says, and nothing else."""
        return cls(candidate.allocations, owner, generation, candidate.mappings)

    def body(self, generation: int | None) -> dict[str, Any]:
        """Return the body for a consumer with this generation; None: one that must not exist yet."""
        body = allocations_body(self.allocations, self.owner, generation)
        # Placement refuses empty mappings, but not missing ones.
        return {**body, "mappings": self.mappings} if self.mappings else body

    def made(self, generation: int | None) -> ConsumerAllocations:
        """Return what the consumer holds after it, if it had this generation before."""
        if not self.allocations:
            return NOTHING
        return ConsumerAllocations(self.allocations, (generation or 0) + 1, self.owner)

    def finds(self, held: ConsumerAllocations) -> bool:
        """Return whether the consumer is as it must be before."""
        return held.generation == self.generation if self.generation else not held.allocations

    def explains(self, held: ConsumerAllocations, tries: int) -> bool:
        """Return whether a consumer may hold this because of some of so many tries.

        Each try for a new consumer that overlaps with another one can add one to the generation, although
        all of them expect that there is no consumer. Of tries that expect the same generation, one is
        carried out.
        """
        if held.allocations != self.allocations or not held.allocations:
            return held.allocations == self.allocations
        before = self.generation or 0
        return before < (held.generation or 0) <= before + (1 if before else tries)


@dataclass(frozen=True, slots=True)
class Written:
    """What became of the write for one consumer, and of the claim that it was sent for.

    Attributes:
        outcome: What became of it.
        held: After DONE what the consumer holds, with the generation that proves it; after CHANGED what it
            was found to hold.
        lost: How many tries had no response, and may yet take effect. After DONE there are such tries for new
            consumers only: they are harmless as long as the consumer holds something. If there are, another
            run may have written what it holds.
        status: The HTTP status of the last response; None without one.
        cause: What happened last, in one line.
        reason: The same with the status, for errors.
        resource_class: The class that a refusal names, or "".
        provider: The provider that a refusal names, or "".
        kept: What the consumer held before a claim and keeps besides (an evacuation). A release leaves it.
        final: Whether no other host would be granted, as what the consumer keeps is refused.
        events: What happened to a claim, in order.
    """

    outcome: Outcome
    held: ConsumerAllocations = NOTHING
    lost: int = 0
    status: int | None = None
    cause: str = ""
    reason: str = ""
    resource_class: str = ""
    provider: str = ""
    kept: ConsumerAllocations = NOTHING
    final: bool = False
    events: tuple[ClaimEvent, ...] = ()

    @property
    def done(self) -> bool:
        """Whether the consumer holds what was written."""
        return self.outcome is Outcome.DONE

    @property
    def try_next(self) -> bool:
        """Whether it is worth trying another candidate or host."""
        return self.outcome in ANOTHER_HOST and not self.final

    @property
    def unavailable(self) -> bool:
        """Whether Placement gave no usable answer."""
        return self.outcome in UNAVAILABLE

    @property
    def hopeless(self) -> bool:
        """Whether no candidate would do now."""
        return not (self.done or self.try_next)


@dataclass(eq=False, slots=True)
class Unit:
    """Writes that are carried out together or not at all, and how far they have come.

    Attributes:
        writes: By consumer.
        generations: By consumer, what is sent next.
        refusal: Returns why nothing more may be sent; None while it may.
        reply: The response to the last try.
        error: Why the last try had none.
        lost: Tries without a response that may yet take effect.
        late_until: Until then these may; seconds of the clock.
        delay: Seconds before the next try.
        concurrent_updates: Tries that ended so.
        conflicts: Tries after which the consumers were not as they must be.
        written: What became of each write, once that is known.
        cause: What happened last, in one line.
    """

    writes: Mapping[str, Write]
    refusal: Refuses = lambda: None
    generations: dict[str, int | None] = field(init=False)
    late_until: float = -math.inf
    reply: Reply | None = None
    error: PlacementSilent | None = None
    lost: int = 0
    delay: float = 0.0
    concurrent_updates: int = 0
    conflicts: int = 0
    written: Mapping[str, Written] | None = None
    cause: str = ""

    def __post_init__(self) -> None:
        self.generations = {uuid: write.generation for uuid, write in self.writes.items()}

    @property
    def is_new(self) -> bool:
        """Whether a consumer must hold nothing."""
        return any(write.generation is None for write in self.writes.values())

    @property
    def first(self) -> str:
        """One of the consumers."""
        return next(iter(self.writes))

    @property
    def providers(self) -> frozenset[str]:
        """The providers that something is taken from."""
        return frozenset(provider for write in self.writes.values() for provider in write.allocations)

    def taken_from(self, provider: str, resource_class: str) -> int:
        """Return how much of a resource class is taken from a provider; "" is any class."""
        entries = [write.allocations.get(provider, {"resources": {}}) for write in self.writes.values()]
        return sum(
            amount
            for entry in entries
            for name, amount in entry["resources"].items()
            if resource_class in {"", name}
        )

    def bodies(self) -> dict[str, dict[str, Any]]:
        """Return what is to be sent, by consumer."""
        return {uuid: write.body(self.generations[uuid]) for uuid, write in self.writes.items()}

    def made(self) -> dict[str, ConsumerAllocations]:
        """Return what the consumers hold once the last try was accepted."""
        return {uuid: write.made(self.generations[uuid]) for uuid, write in self.writes.items()}

    def begin_try(self) -> None:
        """Count a try that is about to be sent."""
        self.reply = self.error = None
        for write in self.writes.values():
            if write.history:
                write.history.begin_try()

    def note_records(self) -> None:
        """Note that Placement has a record without allocations of each new consumer now."""
        for uuid, generation in self.generations.items():
            if generation is None:
                self.generations[uuid] = 0

    def note(self, state: ClaimState, cause: str, status: int | None = None) -> None:
        """Append an event to the history of each consumer."""
        self.cause = cause
        for write in self.writes.values():
            if write.history:
                write.history.add(state, cause, status)
