"""Claiming, fencing and releasing: policies over the one writer (spec: placement-and-workflow 4, 6.1).

Nobody owns an instance: another request, here or elsewhere, may write for it at any time, and Placement's
generation decides.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
import math
import threading
from typing import Any

from oslo_log import log

from scheduler.claims.claim import Claimant, Results, claim_all, result_of
from scheduler.claims.doubts import ComeTo, Doubts, Kept, NodesOfHosts, no_nodes, none_come
from scheduler.claims.result import ClaimResult
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import NOTHING, ConsumerAllocations
from scheduler.placement.answer import AllocationCandidate, Resources
from scheduler.placement.claim_events import ClaimHistory
from scheduler.placement.outcomes import Outcome, Refusal
from scheduler.placement.writes import Write
from scheduler.request.instance_state import ReadStates, all_waiting

LOG = log.getLogger(f"nova.{__name__}")

STOPPING = "the scheduler is stopping"
TOO_LATE = "its caller has given up by now"

#: Seconds of a whole claim; no further write is sent after it. Two minutes are longer than all delays of a
#: write together, and far shorter than a caller waits.
CLAIM_TIMEOUT = 120.0

#: Instances in one write. The work of Placement grows with their number, and other writers wait until its
#: transaction ends (spec: placement-and-workflow 4.9 step 2). A request that needs several writes is fenced,
#: which costs as much again: so most requests for several instances need only one.
BATCH_SIZE = 100

#: Seconds for which a caller waits for the release of claims, from whose error it sees nothing.
RELEASE_TIMEOUT = 5.0


class Claimer:
    """Claims and releases of a process; any thread may use it.

    Attributes:
        writer: Writes and reads allocations.
        states_of: Returns what nova says of instances.
        doubts: What could not be settled yet.
        on_event: Called at each event of a claim; must not wait.
    """

    def __init__(
        self,
        writer: AllocationWriter,
        states_of: ReadStates = all_waiting,
        batch_size: int = BATCH_SIZE,
        nodes_of_hosts: NodesOfHosts = no_nodes,
        come_to: ComeTo = none_come,
    ) -> None:
        """Begin without claims.

        Args:
            states_of: Returns what nova says of instances.
            batch_size: Instances in one write.
            nodes_of_hosts: Returns the compute nodes of the hosts that instances leave.
            come_to: Returns those instances that nova has on a host, or on their way there.
        """
        self.writer = writer
        self.states_of = states_of
        self.doubts = Doubts(writer, states_of, nodes_of_hosts, come_to)
        self.batch_size = batch_size
        self.on_event: Callable[[], None] = lambda: None
        self._timing = writer.timing
        self._stopping = threading.Event()

    def stop_claiming(self) -> None:
        """Send no further claim.

        Later claims are refused, as are those in flight that have not been
        granted. What was claimed can still be released.
        """
        self._stopping.set()

    def claim(
        self,
        candidates: Mapping[str, AllocationCandidate],
        claimant: Claimant,
        deadline: float = math.inf,
    ) -> Results:
        """Give each instance what its candidate says, some in one write.

        Never raises for a failure of Placement.

        What an instance holds on the nodes of ``claimant.kept`` it keeps besides. Instances with
        ``try_next`` want another candidate. After one with ``hopeless`` the rest may not have been tried, and
        has the same outcome.

        Args:
            candidates: What each instance shall hold, by its UUID.

        Returns:
            Instance UUID -> result.
        """
        # Neighbours on a host go together: the fewer providers in a transaction, the fewer conflicts.
        ordered = sorted(candidates, key=lambda uuid: candidates[uuid].root)
        for uuid in ordered:
            LOG.debug("Attempting to claim resources in the placement API for instance %s", uuid)
        results: Results = {}
        until = min(deadline, self._timing.monotonic() + CLAIM_TIMEOUT)
        for start in range(0, len(ordered), self.batch_size):
            piece = {uuid: candidates[uuid] for uuid in ordered[start : start + self.batch_size]}
            refusal = partial(self._refusal, deadline)
            results |= claim_all(piece, claimant, self.writer, refusal, until, self.on_event)
            last = next((result for result in results.values() if result.hopeless), None)
            if last:
                rest = ClaimResult(last.outcome, last.reason)
                return dict.fromkeys(ordered, rest) | results
        return results

    def fence(
        self, held: Mapping[str, ConsumerAllocations], claimant: Claimant, deadline: float = math.inf
    ) -> Results:
        """Write what instances hold once more, for all or for none, in one request to Placement.

        A release by another run of the request that has read it before fails from then on.

        Args:
            held: What each instance holds, with the generation that was read.

        Returns:
            Instance UUID -> result. CHANGED: another run or request was first.
        """
        if refusal := self._refusal(deadline):
            return {uuid: ClaimResult(*refusal) for uuid in held}
        histories = {
            uuid: ClaimHistory(uuid, claimant.host_of(one.allocations), on_event=self.on_event)
            for uuid, one in held.items()
        }
        writes = {
            uuid: Write(one.allocations, claimant.owner, one.generation, history=histories[uuid])
            for uuid, one in held.items()
        }
        written = self.writer.write(
            writes,
            all_or_none=True,
            until=min(deadline, self._timing.monotonic() + CLAIM_TIMEOUT),
            refusal=partial(self._refusal, deadline),
            context=claimant.context,
        )
        return {
            uuid: result_of(one, NOTHING, histories[uuid], claimant.host_name)
            for uuid, one in written.items()
        }

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
            if one.outcome is Outcome.DONE:
                LOG.info("Deleted allocations for instance %s", uuid)
            elif one.outcome is Outcome.CHANGED:
                # Overlapping first writes can hide what is held.
                changed.add(uuid)
                self.doubts.note_lost([uuid], held[uuid].owner, kept)
            else:
                LOG.info(
                    "Cannot release the allocations of instance %s now (%s); trying again later",
                    uuid,
                    one.reason,
                )
                self.doubts.note_unreleased(uuid, held[uuid], kept)
        return changed

    def get_held_many(
        self, instance_uuids: Sequence[str], context: Any = None
    ) -> Mapping[str, ConsumerAllocations]:
        """Return what instances hold now, by UUID.

        Raises:
            PlacementSilent: Placement gives no usable answer for one of them.
        """
        return self.writer.reader.read_many(instance_uuids, context)

    def _refusal(self, deadline: float) -> Refusal | None:
        """Return why nothing may be claimed any more; None while it may."""
        if self._stopping.is_set():
            return Refusal(Outcome.STOPPING, STOPPING)
        return Refusal(Outcome.UNSENT, TOO_LATE) if self._timing.monotonic() > deadline else None
