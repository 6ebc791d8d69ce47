"""What instances hold already: reading it, and as a candidate to claim again.

The broker delivers a request again if it does not know that the request was answered. The first delivery may
have been answered with the hosts that its instances hold now, so these are to be the answer once more.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
import contextvars
from dataclasses import dataclass, field
import threading

from scheduler import deadline
from scheduler.claims.allocations_api import ConsumerAllocations
from scheduler.claims.result import ClaimResult, Outcome
from scheduler.placement.answer import AllocationCandidate, Resources
from scheduler.placement.errors import PlacementUnreachable
from scheduler.request.query import Query

Read = Callable[[str], ConsumerAllocations]
"""Returns what an instance holds; raises ``PlacementSilent`` if Placement does not tell."""


def read_each(read: Read, uuids: Sequence[str], at_once: int) -> dict[str, ConsumerAllocations]:
    """Read what instances hold, some at a time.

    The first that holds nothing ends it: then no use is made of the others.

    Args:
        read: Reads one. It bounds its own time.
        uuids: The instances.
        at_once: How many are read at the same time at most; fewer if the system has no thread left.

    Returns:
        What was read, by instance UUID in the given order: of all, or of some, one of which holds nothing.

    Raises:
        PlacementSilent: Placement does not tell what one of them holds, or the deadline has passed.
    """
    reading = _Reading(read, iter(uuids))
    threads = []
    for _ in range(min(at_once, len(uuids)) - 1):
        run = contextvars.copy_context().run  # the deadline of the request is the thread's too
        thread = threading.Thread(target=run, args=(reading.work,), name="held", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            break
        threads.append(thread)
    reading.work()
    for thread in threads:
        thread.join()
    if reading.error is not None:
        raise reading.error
    return {uuid: reading.found[uuid] for uuid in uuids if uuid in reading.found}


@dataclass(slots=True)
class _Reading:
    """What several threads read together, each the next instance that is left."""

    read: Read
    left: Iterator[str]
    found: dict[str, ConsumerAllocations] = field(default_factory=dict)
    error: BaseException | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def work(self) -> None:
        try:
            while (uuid := self._next()) is not None:
                if deadline.current().expired:
                    raise PlacementUnreachable("the caller no longer waits for an answer")
                held = self.found[uuid] = self.read(uuid)
                if not held.allocations:
                    self._end()
        except BaseException as error:  # noqa: BLE001 - the thread of the request raises it
            self.error = error
            self._end()

    def _next(self) -> str | None:
        with self.lock:
            return next(self.left, None)

    def _end(self) -> None:
        with self.lock:
            self.left = iter(())


class AlreadyHeld:
    """Takes the place of claims where hosts are chosen that instances hold already: nothing is sent."""

    def claim(self, _instance_uuid: str, _candidate: AllocationCandidate) -> ClaimResult:
        """Return that the instance has its allocations."""
        return ClaimResult(Outcome.CLAIMED)

    def claim_many(self, candidates: Mapping[str, AllocationCandidate]) -> Mapping[str, ClaimResult]:
        """Return that each instance has its allocations."""
        return {uuid: self.claim(uuid, candidate) for uuid, candidate in candidates.items()}


def held_candidate(
    held: Resources, nodes: Collection[str], ignored: Collection[str], queries: Iterable[Query]
) -> AllocationCandidate | None:
    """Return what an instance holds as a candidate, if it is what a request wants.

    Args:
        held: The allocations of the instance.
        nodes: UUIDs of the compute nodes among the providers.
        ignored: UUIDs of the compute nodes of hosts that the request ignores: what an evacuated instance
            holds there is not from this request.
        queries: What the request asks Placement for.

    Returns:
        The candidate; None if the instance holds nothing, something else, or something of several nodes.
    """
    ours = {provider: entry for provider, entry in held.items() if provider not in ignored}
    roots = [provider for provider in ours if provider in nodes]
    if len(roots) != 1 or _total(ours) not in [_wanted(query) for query in queries]:
        return None
    return AllocationCandidate.of(roots[0], (roots[0],), ours, {})


def _total(allocations: Resources) -> Counter[str]:
    total: Counter[str] = Counter()
    for entry in allocations.values():
        total.update(entry["resources"])
    return total


def _wanted(query: Query) -> Counter[str]:
    """Return the amounts that a query asks for in all its groups, by resource class."""
    wanted: Counter[str] = Counter()
    for name, value in query.params:
        if name.startswith("resources"):
            for text in value.split(","):
                resource_class, _, amount = text.partition(":")
                wanted[resource_class] += int(amount)
    return wanted
