"""Claims, fences and releases of a process: policies over the one writer.

(spec: placement-and-workflow 4.3-4.6, 6.1). Nobody owns an instance: another request, here or elsewhere, may
write for it at any time, and Placement's generation decides.

Most consumers are new, so their write says that there is none, and nothing is read before it. What an
evacuated instance holds is read first: it is kept on the hosts that the instance leaves, and written together
with the claim (KEEPING_SOURCE). Without an answer to that nothing is written::

    the instance holds                      the write is        what follows
    nothing, or only what it keeps          DONE                GRANTED
                                            CHANGED             GIVEN_UP; another run or request was first
                                            REFUSED, GONE       by a provider of what the instance keeps:
                                                                GIVEN_UP; other hosts would be refused too
                                                                else: NEXT_HOST
                                            CONTENDED           NEXT_HOST
                                            any other           GIVEN_UP
    allocations of another run or request   not sent            GIVEN_UP, as CHANGED

The states of single tries are the writer's (``placement.allocation_writer``).
"""

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
import math
import threading
from typing import Any, Protocol

from oslo_log import log

from scheduler.claims.checks import Check
from scheduler.claims.doubts import NOTHING_KEPT, ComeTo, Doubts, Kept, NodesOfHosts
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import (
    NOTHING,
    AllocationReader,
    ConsumerAllocations,
    Owner,
)
from scheduler.placement.answer import AllocationCandidate, Resources
from scheduler.placement.claim_events import ClaimHistory, ClaimState
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.outcomes import ANOTHER_HOST, Outcome, Refusal
from scheduler.placement.writes import Write, Written
from scheduler.request.instance_state import ReadStates, all_waiting
from scheduler.request.scheduling_request import SchedulingRequest

LOG = log.getLogger(f"nova.{__name__}")

STOPPING = "the scheduler is stopping"
TOO_LATE = "its caller has given up by now"
ANOTHER = "the instance holds allocations of another request"
KEPT_IS_REFUSED = "what the instance keeps on this host is refused, so every other host would be too: "

#: Seconds of a whole claim; no further write is sent after it. Two minutes are longer than all delays of a
#: write together, and far shorter than a caller waits.
CLAIM_TIMEOUT = 120.0

#: Instances in one write. The work of Placement grows with their number, and other writers wait until its
#: transaction ends (spec: placement-and-workflow 4.9 step 2). A request that needs several writes is fenced,
#: which costs as much again: so most requests for several instances need only one.
BATCH_SIZE = 100

#: Seconds for which a caller waits for the release of claims, from whose error it sees nothing.
RELEASE_TIMEOUT = 5.0

Results = dict[str, Written]
"""Instance UUID -> what became of its claim."""


Winners = Callable[[Collection[str]], Mapping[str, str]]
"""Compute node UUIDs -> why those may not be claimed that may not. It raises ``PlacementError``."""


def all_win(_nodes: Collection[str]) -> Mapping[str, str]:
    """Let every host be claimed: the query to Placement was sent after the request came."""
    return {}


@dataclass(frozen=True, slots=True)
class Pass:
    """What the claims of one pass over hosts go by, the same for all instances of a request.

    Attributes:
        owner: Whose quota their claims count against.
        context: The context of the request, for Placement's log.
        kept: Compute nodes whose allocations an instance keeps besides: the hosts that the request ignores.
        nodes: UUIDs of all compute nodes; other providers are below them, or shared.
        host_name: Returns the name of the host of a compute node, by its UUID, for the log; if that is not
            known, the UUID.
        winners: Checks the chosen hosts before they are claimed.
        capacity: Looks after what was granted. None: nothing does.
        group: The same for members of a server group, also after a fence.
    """

    owner: Owner
    context: Any = None
    kept: Kept = NOTHING_KEPT
    nodes: Container[str] = ()
    host_name: Callable[[str], str] = str
    winners: Winners = all_win
    capacity: Check | None = None
    group: Check | None = None

    def host_of(self, allocations: Resources) -> str:
        """Return the host of what an instance holds besides what it keeps; "" if it is not known."""
        taken = [one for one in allocations if one in self.nodes and one not in self.kept.providers]
        return self.host_name(taken[0]) if taken else ""


def owner_of(request: SchedulingRequest) -> Owner:
    """Return whose the claims of a request are. Without a user in its spec, that of its context counts."""
    return Owner(request.spec.project_id, request.spec.user_id or request.context.user_id)


class Listener(Protocol):
    """Receives the claims of a process once their outcome is known; must not wait."""

    def claimed(self, instance: str, allocations: Resources) -> None:
        """Note what a claim gave an instance, by provider."""

    def released(self, instance: str, allocations: Resources) -> None:
        """Note that a claim is released."""

    def refused(self, provider: str, resource_class: str) -> None:
        """Note that a claim was refused, and another host may do; "" for what is not named."""


class Claims:
    """Claims and releases of a process; any thread may use it.

    Attributes:
        writer: Writes and reads allocations.
        states_of: Returns what nova says of instances.
        doubts: What could not be settled yet.
        listeners: Receive the claims.
        on_event: Called at each event of a claim; must not wait.
    """

    def __init__(
        self,
        writer: AllocationWriter,
        states_of: ReadStates = all_waiting,
        batch_size: int = BATCH_SIZE,
        nodes_of_hosts: NodesOfHosts = lambda _hosts: (),
        come_to: ComeTo = lambda _hosts: (),
        listeners: Sequence[Listener] = (),
    ) -> None:
        """Begin without claims.

        Args:
            batch_size: Instances in one write.
            nodes_of_hosts: Returns the compute nodes of the hosts that instances leave.
            come_to: Returns those instances that nova has on a host, or on their way there.
        """
        self.writer = writer
        self.states_of = states_of
        self.doubts = Doubts(writer, states_of, nodes_of_hosts, come_to)
        self.batch_size = batch_size
        self.listeners = listeners
        self.on_event: Callable[[], None] = lambda: None
        self._timing = writer.timing
        self._stopping = threading.Event()

    def stop_claiming(self) -> None:
        """Send no further claim.

        Later claims are refused, as are those in flight that have not been granted. What was claimed can
        still be released.
        """
        self._stopping.set()

    def claim(
        self,
        candidates: Mapping[str, AllocationCandidate],
        of: Pass,
        deadline: float = math.inf,
    ) -> Results:
        """Give each instance what its candidate says, some in one write.

        Never raises for a failure of Placement.

        What an instance holds on the nodes of ``of.kept`` it keeps besides. Instances with
        ``try_next`` want another candidate. After one with ``hopeless`` the rest may not have been tried, and
        has the same outcome.

        Args:
            candidates: What each instance shall hold, by its UUID.
        """
        # Neighbours on a host go together: the fewer providers in a transaction, the fewer conflicts.
        ordered = sorted(candidates, key=lambda uuid: candidates[uuid].root)
        histories: dict[str, ClaimHistory] = {}
        for uuid in ordered:
            LOG.debug("Attempting to claim resources in the placement API for instance %s", uuid)
            host = of.host_name(candidates[uuid].root)
            histories[uuid] = ClaimHistory(uuid, host, on_event=self.on_event)
        if why := self._refusal(deadline):
            return {uuid: ended(unsent(*why), history) for uuid, history in histories.items()}
        results: Results = {}
        sources: dict[str, ConsumerAllocations] = {}
        for uuid in ordered:
            try:
                held, is_source = _read_source(uuid, of, self.writer.reader)
            except PlacementSilent as error:
                results[uuid] = ended(unsent(Outcome.UNSENT, str(error)), histories[uuid])
                continue
            if is_source:
                sources[uuid] = held
            else:
                results[uuid] = ended(Written(Outcome.CHANGED, held), histories[uuid])
        write, left = self._writing(of, deadline), list(sources)
        while left and not any(one.hopeless for one in results.values()):
            piece, left = left[: self.batch_size], left[self.batch_size :]
            writes = {
                uuid: _write_of(sources[uuid], candidates[uuid], of.owner, histories[uuid]) for uuid in piece
            }
            for uuid, one in write(writes).items():
                results[uuid] = ended(one, histories[uuid], sources[uuid], of.host_name)
        last = next((one for one in results.values() if one.hopeless), None)
        return results | {uuid: Written(last.outcome, reason=last.reason) for uuid in left if last}

    def fence(self, held: Mapping[str, ConsumerAllocations], of: Pass, deadline: float = math.inf) -> Results:
        """Write what instances hold once more, for all or for none, in one request to Placement.

        A release by another run of the request that has read it before fails from then on.

        Args:
            held: What each instance holds, with the generation that was read.

        Returns:
            Instance UUID -> result. CHANGED: another run or request was first.
        """
        if why := self._refusal(deadline):
            return dict.fromkeys(held, unsent(*why))
        histories = {
            uuid: ClaimHistory(uuid, of.host_of(one.allocations), on_event=self.on_event)
            for uuid, one in held.items()
        }
        writes = {
            uuid: Write(one.allocations, of.owner, one.generation, history=histories[uuid])
            for uuid, one in held.items()
        }
        written = self._writing(of, deadline)(writes, all_or_none=True)
        return {uuid: ended(one, histories[uuid]) for uuid, one in written.items()}

    def _writing(self, of: Pass, deadline: float) -> Callable[..., Mapping[str, Written]]:
        """Return what writes for a claim that begins now."""
        return partial(
            self.writer.write,
            until=min(deadline, self._timing.monotonic() + CLAIM_TIMEOUT),
            refusal=partial(self._refusal, deadline),
            context=of.context,
        )

    def release(
        self,
        held: Mapping[str, ConsumerAllocations],
        left: Mapping[str, Resources],
        kept: Kept,
        context: Any = None,
    ) -> set[str]:
        """Release what instances hold, each by the generation that it had. Never raises.

        What cannot be released in ``RELEASE_TIMEOUT`` seconds goes to the doubts.

        Args:
            held: What each instance holds.
            left: What it shall hold afterwards, if anything.

        Returns:
            The instances that another writer has changed since.
        """
        if not held:
            return set()
        writes = {uuid: Write(left.get(uuid, {}), one.owner, one.generation) for uuid, one in held.items()}
        until = self._timing.monotonic() + RELEASE_TIMEOUT
        changed: set[str] = set()
        for uuid, one in self.writer.write(writes, until=until, context=context).items():
            if one.done:
                LOG.info("Deleted allocations for instance %s", uuid)
                continue
            if one.outcome is Outcome.CHANGED:
                changed.add(uuid)
            else:
                LOG.info(
                    "Cannot release the allocations of instance %s now (%s); trying again later",
                    uuid,
                    one.reason,
                )
            # Overlapping first writes can hide what is held.
            self.doubts.note_unknown([uuid], held[uuid].owner, kept)
        return changed

    def read(self, instance_uuids: Sequence[str], context: Any = None) -> Mapping[str, ConsumerAllocations]:
        """Return what instances hold now, by UUID.

        Raises:
            PlacementSilent: Placement gives no usable answer for one of them.
        """
        return self.writer.reader.read_many(instance_uuids, context)

    def note_refusal(self, result: Written) -> None:
        """Notify the listeners of a refused claim; another host may be granted."""
        for listener in self.listeners:
            listener.refused(result.provider, result.resource_class)

    def _refusal(self, deadline: float) -> Refusal | None:
        """Return why nothing may be claimed any more; None while it may."""
        if self._stopping.is_set():
            return Refusal(Outcome.STOPPING, STOPPING)
        return Refusal(Outcome.UNSENT, TOO_LATE) if self._timing.monotonic() > deadline else None


def _read_source(uuid: str, of: Pass, reader: AllocationReader) -> tuple[ConsumerAllocations, bool]:
    """Return what an instance holds, NOTHING for most; and whether on hosts that it leaves alone.

    What these share with others counts as theirs.

    Raises:
        PlacementSilent: It is not known.
    """
    leaves = of.kept.providers
    held = reader.read(uuid, of.context) if leaves else NOTHING
    if not held.allocations:
        return held, True
    return held, reader.kept(held.allocations, leaves, of.context) == held.allocations


def _write_of(
    source: ConsumerAllocations, candidate: AllocationCandidate, owner: Owner, history: ClaimHistory
) -> Write:
    """Return what is to be written.

    A provider in both keeps its old amounts: source and destination share it.
    """
    if not source.allocations:
        return replace(Write.of(candidate, owner), history=history)
    history.add(ClaimState.KEEPING_SOURCE, "the instance holds allocations of an evacuated host")
    allocations = {**candidate.allocations, **source.allocations}
    return Write(allocations, owner, source.generation, history=history)


def unsent(outcome: Outcome, reason: str) -> Written:
    """Return the result of a claim that failed before anything was sent."""
    return Written(outcome, cause=reason, reason=reason)


def ended(
    written: Written,
    history: ClaimHistory,
    source: ConsumerAllocations = NOTHING,
    host_name: Callable[[str], str] = str,
) -> Written:
    """Return how a claim ended, and note that in its history."""
    outcome, cause = written.outcome, written.cause
    changed = outcome is Outcome.CHANGED
    final = outcome in {Outcome.REFUSED, Outcome.GONE} and written.provider in source.allocations
    if outcome is Outcome.CONTENDED:
        LOG.error("Failed scheduler client operation claim_resources: out of retries: %s", cause)
    if final:
        host = host_name(written.provider)
        history.add(ClaimState.GIVEN_UP, KEPT_IS_REFUSED + cause, written.status, host)
    else:
        cause = "; ".join(filter(None, [cause, ANOTHER])) if changed else cause
        another_host = ClaimState.NEXT_HOST if outcome in ANOTHER_HOST else ClaimState.GIVEN_UP
        history.add(ClaimState.GRANTED if written.done else another_host, cause, written.status)
    reason = ANOTHER if changed else written.reason
    return replace(written, reason=reason, kept=source, final=final, events=tuple(history.events))
