"""Whether somebody still waits for a request, and the release of what instances hold for nobody."""

from collections.abc import Callable, Collection, Mapping
import time

from oslo_log import log as logging

from scheduler.claims.claim import owner_of
from scheduler.claims.claimer import TOO_LATE, Claimer
from scheduler.errors import CallerLeft, NoValidHost
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.answer import Resources
from scheduler.request.instance_state import OVER, InstanceState
from scheduler.request.past import Past
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.workflow.candidate_hosts import CandidateHosts
from scheduler.workflow.held_hosts import HeldHost

LOG = logging.getLogger(f"nova.{__name__}")

#: Why a call is not served, by what nova says of its instances.
REASONS = {
    InstanceState.DELETED: "all instances of the request were deleted",
    InstanceState.GIVEN_UP: "all instances of the request were given up",
    InstanceState.PLACED: "all instances of the request have a host already",
}


class Callers:
    """Finds out whether the caller of a request still waits. Any thread may use it.

    Its reply queue is checked before, by the server: a missing one is found without reading the request.
    """

    def __init__(
        self,
        claimer: Claimer,
        candidate_hosts: CandidateHosts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._claimer = claimer
        self._kept = candidate_hosts.kept
        self._clock = clock

    def check(self, request: SchedulingRequest, *, ask_nova: bool = True) -> None:
        """Check that a caller waits for one of the instances: by its deadline, and as far as nova knows.

        If none does, or nova gives no answer, the instances are checked later.

        Args:
            ask_nova: Whether the caller may have left before its deadline.

        Raises:
            NoValidHost: The deadline has passed.
            CallerLeft: Nobody waits.
        """
        if self._clock() > request.deadline:
            LOG.warning("Request expired (%s); releasing its claims", TOO_LATE)
            if request.past:
                self.note_unknown(request)
            raise NoValidHost(TOO_LATE, final=True)
        if not ask_nova:
            return
        states = self._states_of(request)
        if OVER.issuperset(states) or InstanceState.UNKNOWN in states:
            self.note_unknown(request)
        if OVER.issuperset(states):
            raise CallerLeft(", ".join(sorted(REASONS[state] for state in states)))

    def note_earlier_runs(self, request: SchedulingRequest) -> None:
        """Look later at what earlier runs of a request have written, however the run ends that begins now.

        That comes before all else, as a killed run notes nothing.
        """
        if request.claims and request.past is Past.REDELIVERED:
            self.note_unknown(request)

    def note_unknown(self, request: SchedulingRequest) -> None:
        """Look at the instances later: what they hold is not known."""
        self._claimer.doubts.note_unknown(request.instance_uuids, owner_of(request), self._kept(request))

    def release(self, held: Mapping[str, HeldHost], request: SchedulingRequest) -> None:
        """Release what some instances of a request hold, others nothing: it was never answered.

        But if nova says that one was deleted, or gives no answer, the call may have been answered, and the
        instance may have lost what it held since. What is held then stays, and is looked at later. The next
        claims meet it, and the request begins again.
        """
        if not self._states_of(request) <= {InstanceState.WAITING, InstanceState.MOVING}:
            self.note_unknown(request)
            return
        kept = self._kept(request)
        allocations = {uuid: one.held for uuid, one in held.items()}
        left = {uuid: _rows_on(one, kept.providers) for uuid, one in allocations.items()}
        self._claimer.release(allocations, left, kept, request.context)

    def _states_of(self, request: SchedulingRequest) -> set[InstanceState]:
        hosts = self._kept(request).hosts
        return set(self._claimer.states_of(request.instance_uuids, hosts).values())


def _rows_on(held: ConsumerAllocations, providers: Collection[str]) -> Resources:
    return {each: held.allocations[each] for each in held.allocations.keys() & providers}
