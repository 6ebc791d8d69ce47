"""What a request has claimed, from its claims until the outcome of its reply: kept then, or released."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
import math
import time
from typing import Protocol

from scheduler.claims.claimer import Claimer
from scheduler.claims.observers import ClaimObserver
from scheduler.claims.result import ClaimResult
from scheduler.claims.spool import NOTHING_KEPT, Kept
from scheduler.placement.allocations import ConsumerAllocations, Owner
from scheduler.placement.answer import Resources
from scheduler.request.scheduling_request import SchedulingRequest

#: Seconds from the end of a session until the reply is confirmed, after which its caller may have left. Most
#: replies take milliseconds; so a good day writes nothing to the spool.
SOON = 5.0


class Reservations(Protocol):
    """Where hosts are reserved for instances."""

    def remove(self, instances: Iterable[str]) -> None:
        """Release what is reserved for these instances."""


@dataclass(slots=True)
class HeldClaims:
    """The claims and reservations of one request. ``keep``, ``leave`` or ``release`` ends them.

    Attributes:
        claimer: Releases the claims.
        reservations: Where hosts are reserved for the instances.
        request: Without a user in its spec, that of its context owns the claims.
        kept: What the instances keep.
        observer: Receives what is released; None: nothing does.
        clock: Returns the time in seconds.
        made: By instance what it holds, with the generation that proves it.
        overtaken: Whether a release found that another writer was first.
        released: Whether something was released. A try of it without a response may come late.
    """

    claimer: Claimer
    reservations: Reservations
    request: SchedulingRequest
    kept: Kept = NOTHING_KEPT
    observer: ClaimObserver | None = None
    clock: Callable[[], float] = time.monotonic
    made: dict[str, ConsumerAllocations] = field(default_factory=dict, init=False)
    overtaken: bool = field(default=False, init=False)
    released: bool = field(default=False, init=False)
    _left: dict[str, Resources] = field(default_factory=dict, init=False)
    _found: set[str] = field(default_factory=set, init=False)
    _lost: set[str] = field(default_factory=set, init=False)
    _closed_at: float = field(default=math.inf, init=False)

    @property
    def owner(self) -> Owner:
        """Whose the claims are."""
        spec = self.request.spec
        return Owner(spec.project_id, spec.user_id or self.request.context.user_id)

    def add(self, uuid: str, result: ClaimResult) -> None:
        """Note a claim that was granted; an evacuated instance is left what it held before."""
        if result.made is not None:
            self.made[uuid] = result.made
            self._left[uuid] = result.previous.allocations if result.previous else {}

    def hold(self, found: Mapping[str, ConsumerAllocations]) -> None:
        """Take what instances hold for claims of this request: another run of it has made them."""
        self.made |= found
        self._found |= found.keys()

    def note_lost(self, lost: Mapping[str, Resources]) -> None:
        """Note what writes without a response were to give instances, and may give them yet."""
        if lost:
            self._lost |= lost.keys()
            self.claimer.spool.note_lost(lost, self.owner, self.kept)

    def release_some(self, uuids: Collection[str]) -> None:
        """Release the claims for some instances."""
        self._release({uuid: self.made.pop(uuid) for uuid in uuids})

    # -- the end ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Note that nothing more is claimed: the reply follows."""
        self._closed_at = self.clock()

    def keep(self) -> None:
        """Keep the claims: the reply that names them was delivered."""
        if self.clock() > self._closed_at + SOON:
            # Its caller may have left before, as when the process was frozen: that is looked at later.
            self.claimer.spool.note_unknown(self.made, self.kept)
        self.claimer.spool.note_answered({uuid: one.allocations for uuid, one in self.made.items()})

    def leave(self) -> None:
        """Leave the claims, as another run was first. What no reply names is released later."""
        # The next round may find no host in what the instances hold: then nobody else would release it.
        self.claimer.spool.note_unknown(self.made, self.kept)

    def release(self) -> None:
        """Release claims and reservations: the request has failed, or its reply cannot be delivered."""
        held, self.made = self.made, {}
        # Another run of the message wrote it, or may have. That one may be answered with it, without a
        # fence if it does not know that it is not the only one. What nova says later decides.
        unclear = {uuid for uuid in held if uuid in self._found | self._lost}
        self.claimer.spool.note_unknown(unclear, self.kept)
        self._release({uuid: one for uuid, one in held.items() if uuid not in unclear})
        self.reservations.remove(self.request.instance_uuids)

    def _release(self, held: Mapping[str, ConsumerAllocations]) -> None:
        for uuid, one in held.items():
            left = self._left.get(uuid, {})
            rows = {provider: entry for provider, entry in one.allocations.items() if provider not in left}
            if self.observer is not None:
                self.observer.released(uuid, rows)
        self.released = self.released or bool(held)
        changed = self.claimer.release(held, self._left, self.kept, self.request.context)
        # After a lost write of this run it may have come from that one.
        self.overtaken = self.overtaken or bool(changed - self._lost)
