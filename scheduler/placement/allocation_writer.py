"""Writing allocations: the only place that sends a write to Placement (spec: placement-and-workflow 4.1-4.9).

``AllocationWriter.write`` takes what consumers shall hold, and the generation that each must have before. It
returns what became of each once that is known. Claims, the fence, and releases are policies over it: each
says what to write, and what its caller is told.

::

    outcome     what it means for the consumer                         a claim          a release, a fence
    DONE        it holds what was written                              is granted       is over
    CHANGED     another writer was first; ``held`` is what it found    looks at held    is over: another one's
    REFUSED     nothing: no room on ``provider``, or not that class    next host        -
    GONE        nothing: ``provider`` does not exist                   next host        -
    CONTENDED   nothing: too many concurrent updates                   next host        tries again later
    INVALID     nothing: no host would do                              is given up      is given up
    DENIED      nothing: Placement refuses the credentials             is given up      tries again later
    UNSENT      nothing: it was certainly not carried out              is given up      tries again later
    UNKNOWN     it may have been carried out, or may yet be            is held and      tries again later
                                                                       released later
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from scheduler.claims.allocations_api import NOTHING, ConsumerAllocations, Owner  # moves to this package
from scheduler.claims.events import ClaimHistory  # moves to this package
from scheduler.placement.answer import Resources


class WriteResult(Enum):
    """What became of a write; the table above says what follows."""

    DONE = auto()
    CHANGED = auto()
    REFUSED = auto()
    GONE = auto()
    CONTENDED = auto()
    INVALID = auto()
    DENIED = auto()
    UNSENT = auto()
    UNKNOWN = auto()


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


@dataclass(frozen=True, slots=True)
class Written:
    """What became of the write for one consumer.

    Attributes:
        result: What became of it.
        held: After DONE what the consumer holds, with the generation that proves it; after CHANGED what it
            was found to hold.
        lost: How many tries had no response and may yet take effect, once each. After DONE of a write with a
            generation it is 0. After DONE of one without (a new consumer) they may come when the consumer's
            record is removed; as long as it holds something they are harmless.
        status: The HTTP status of the last response; None without one.
        reason: What happened last, for people.
        resource_class: The class that a refusal names, or "".
        provider: The provider that a refusal names, or "".
    """

    result: WriteResult
    held: ConsumerAllocations = NOTHING
    lost: int = 0
    status: int | None = None
    reason: str = ""
    resource_class: str = ""
    provider: str = ""


class AllocationWriter:
    """Writes allocations; shared by all threads of a process.

    Attributes:
        before_try: Called with the consumers right before a try is sent.
        written: Called after each try with the bodies, when it was begun, and whether it was carried out.
        on_lost: Called with the consumers right after a try that had no response: the place for the spool.
    """

    before_try: Callable[[Collection[str]], None]
    on_lost: Callable[[Collection[str]], None]

    def write(
        self,
        writes: Mapping[str, Write],
        *,
        all_or_none: bool = False,
        until: float,
        refusal: Callable[[], str] = lambda: "",
        context: Any = None,
    ) -> Mapping[str, Written]:
        """Write what consumers shall hold. Never raises for a failure of Placement.

        Writes of concurrent calls go together, at most one write at a time for half of the consumers and for
        a provider. A write without a response is sent again as it is until its outcome is known.

        Args:
            writes: By consumer UUID. Without ``all_or_none`` each has its own outcome, though they are sent
                in one POST where that can be; the one that a refusal is about is found, and left out.
            all_or_none: All are carried out or none, in one POST, with one outcome for all. After CHANGED
                ``held`` is what each of them holds.
            until: When to give up; seconds of the clock.
            refusal: Returns why nothing more is to be sent (the process stops); "" while it may.
            context: The context of the request, for Placement's log.

        Returns:
            By consumer UUID what became of its write.
        """
        raise NotImplementedError

    def read(self, uuid: str, context: Any = None) -> ConsumerAllocations:
        """Return what a consumer holds now.

        Raises:
            PlacementSilent: No response, or one that does not tell.
        """
        raise NotImplementedError
