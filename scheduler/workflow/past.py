"""What comes before and after the decision on a request if others may write for the same instances.

These are earlier runs of it, and other requests. The broker delivers a request again if it does not know
that the request was answered. The first delivery may have been answered with the hosts that its instances
hold now, so these are to be the answer once more. And its caller may have left.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from oslo_log import log as logging

from scheduler.claims.claims import TOO_LATE, owner_of
from scheduler.claims.session import NothingSent
from scheduler.errors import AllocationUpdateFailed, CallerLeft, NoValidHost, PlacementUnavailable
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.answer import AllocationCandidate, Resources
from scheduler.placement.errors import PlacementSilent, unavailable
from scheduler.request.instance_state import OVER, InstanceState
from scheduler.request.past import Past
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.alternates import Selections
from scheduler.workflow.world import LiveWorld

LOG = logging.getLogger(f"nova.{__name__}")

#: Why a call is not served, by what nova says of its instances.
REASONS = {
    InstanceState.DELETED: "all instances of the request were deleted",
    InstanceState.GIVEN_UP: "all instances of the request were given up",
    InstanceState.PLACED: "all instances of the request have a host already",
}


class HeldHost(NamedTuple):
    """The one host that an instance holds.

    Attributes:
        host: The host.
        request: A request for this instance alone.
        held: All that it holds, as it was read.
    """

    host: HostView
    request: SchedulingRequest
    held: ConsumerAllocations


AllHeld = Mapping[str, HeldHost]
"""The host of each instance that holds one which would do."""


class Recovery:
    """Finds out whether callers wait, and what the instances of requests hold. Any thread may use it."""

    def __init__(self, world: LiveWorld) -> None:
        self._world = world
        self._claims = world.claims
        self._candidate_hosts = world.candidate_hosts

    # -- the caller ------------------------------------------------------------------------------------------

    def check_caller(self, request: SchedulingRequest, *, ask_nova: bool = True) -> None:
        """Check that a caller waits for one of the instances: by its deadline, and as far as nova knows.

        If none does, or nova gives no answer, the instances are checked later. The reply queue of the caller
        is checked before, by the server: a missing one is found without reading the request.

        Args:
            ask_nova: Whether the caller may have left before its deadline.

        Raises:
            NoValidHost: The deadline has passed.
            CallerLeft: Nobody waits.
        """
        if self._world.clock() > request.deadline:
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
        kept = self._candidate_hosts.kept(request)
        self._claims.doubts.note_unknown(request.instance_uuids, owner_of(request), kept)

    def _states_of(self, request: SchedulingRequest) -> set[InstanceState]:
        hosts = self._candidate_hosts.kept(request).hosts
        return set(self._claims.states_of(request.instance_uuids, hosts).values())

    # -- what is held ----------------------------------------------------------------------------------------

    def find(self, request: SchedulingRequest) -> AllHeld:
        """Return the host of each instance of a request with a past; {} unless all hold one.

        What only some hold is released: the request was never answered.

        Raises:
            CallerLeft: Nobody waits for the instances any more.
            DependencyUnavailable: It is not known what they hold.
        """
        # Nova is read first: a backlog whose callers have left costs no query to Placement.
        self.check_caller(request)
        held = self._held(request)
        if 0 < len(held) < len(request.instance_uuids):
            # They are read one by one, and another run may claim and fence them meanwhile. If it fenced
            # before the first reading, the second one finds all; if later, what is released by the
            # generations of the first one is not released.
            again = self._held(request)
            held = again if len(again) == len(request.instance_uuids) else held
        if len(held) == len(request.instance_uuids):
            return held
        if held:
            self._release(held, request)
        return {}

    def selections(self, held: AllHeld, request: SchedulingRequest) -> Selections:
        """Return the hosts that instances hold already as a reply, without alternates.

        An earlier run of the request, or another request for the same instances, may have been answered with
        them; so they are not filtered again.
        """
        LOG.info(
            "Answering a request with the hosts that its instances already hold: %s", request.instance_uuids
        )
        driver, chosen = self._world.driver.without_rules(), NothingSent()
        each = [held[uuid] for uuid in request.instance_uuids]
        return [row for one in each for row in driver.select(one.host, one.request.restarted(), chosen)]

    def further_hosts(self, error: AllocationUpdateFailed, request: SchedulingRequest) -> frozenset[str]:
        """Return what an evacuated instance holds, also on further hosts, after its claim met that.

        An earlier evacuation left it there: a host that is down releases its allocations when it returns.

        Returns:
            Nothing if another run or request was first.

        Raises:
            AllocationUpdateFailed: The instance holds what is of no use here.
        """
        if not error.held or self._held(request):
            return frozenset()
        table = self._candidate_hosts.table_with(error.held, request)
        ignored = self._candidate_hosts.ignored_nodes(table, request)
        if ignored & error.held:
            LOG.info(
                "Instance %s keeps its allocations on hosts that it cannot be evacuated to: %s",
                error.consumer_uuid,
                ", ".join(sorted(error.held - ignored)),
            )
            return error.held
        # Two runs at the same time can release everything, as each met the claims of the other one.
        if self.is_any_held(request) and not self._held(request):
            raise error
        return frozenset()

    def is_any_held(self, request: SchedulingRequest) -> bool:
        """Return whether an instance is known to hold something besides what it keeps."""
        try:
            held = self._read(request)
        except PlacementUnavailable:
            return False
        kept = self._candidate_hosts.kept(request).providers
        return any(each.allocations.keys() - kept for each in held.values())

    def _release(self, held: AllHeld, request: SchedulingRequest) -> None:
        """Release what some instances of a request hold, others nothing: it was never answered.

        But if nova says that one was deleted, or gives no answer, the call may have been answered, and the
        instance may have lost what it held since. What is held then stays, and is looked at later. The next
        claims meet it, and the request begins again.
        """
        if not self._states_of(request) <= {InstanceState.WAITING, InstanceState.MOVING}:
            self.note_unknown(request)
            return
        kept = self._candidate_hosts.kept(request)
        allocations = {uuid: one.held for uuid, one in held.items()}
        left = {
            uuid: {each: entry for each, entry in one.allocations.items() if each in kept.providers}
            for uuid, one in allocations.items()
        }
        self._claims.release(allocations, left, kept, request.context)

    def _held(self, request: SchedulingRequest) -> AllHeld:
        try:
            held = self._of_each(request)
        except PlacementUnavailable:
            # What an earlier run wrote for them is not known.
            self.note_unknown(request)
            raise
        if request.spec.ignore_hosts:
            # An earlier evacuation may have left something on a host that is down now.
            return {uuid: one for uuid, one in held.items() if self._passes(one)}
        return held

    def _passes(self, held: HeldHost) -> bool:
        try:
            self._world.driver.select(held.host, held.request.restarted(), NothingSent())
        except NoValidHost:
            return False
        finally:
            self._world.hosts.pending.remove(held.request.instance_uuids)
        return True

    def _of_each(self, request: SchedulingRequest) -> dict[str, HeldHost]:
        """Return the host of each instance that holds the requested amounts on one host.

        Raises:
            PlacementUnavailable: Placement gives no answer, so no host may be chosen.
        """
        held = self._read(request)
        providers = {provider for each in held.values() for provider in each.allocations}
        if not providers:
            return {}
        table = self._candidate_hosts.table_with(providers, request)
        # A run in another partition, whose scheduler went away, has claimed hosts that no table here has.
        outside = self._world.hosts.outside(providers - table.row_of_uuid.keys())
        nodes = table.row_of_uuid.keys() | outside.row_of_uuid.keys()
        ignored = self._candidate_hosts.ignored_nodes(table, request) | request.kept_providers
        found: dict[str, HeldHost] = {}
        for uuid, each in held.items():
            candidate = _held_candidate(each.allocations, nodes, ignored, request.queries)
            if candidate is None:
                continue
            alone = replace(request, instance_uuids=(uuid,), with_alternates=False)
            source = table if candidate.root in table.row_of_uuid else outside
            view = self._view(source, candidate, request.cell_uuid, is_own=source is table)
            found[uuid] = HeldHost(view, alone, each)
        return found

    def _view(
        self, table: HostTable, candidate: AllocationCandidate, cell_uuid: str | None, *, is_own: bool
    ) -> HostView:
        rows, hosts = table.find([candidate.root], cell_uuid), self._world.hosts
        # What is pending is counted for the hosts of the partition alone.
        pending = hosts.pending if is_own else None
        return HostView.of(table, rows, [[candidate]] * len(rows), hosts.instances, pending)

    def _read(self, request: SchedulingRequest) -> Mapping[str, ConsumerAllocations]:
        try:
            return self._claims.read(request.instance_uuids, request.context)
        except PlacementSilent as error:
            raise unavailable(error, "Placement gives no answer on the allocations of an instance") from error


def _held_candidate(
    held: Resources, nodes: Collection[str], ignored: Collection[str], queries: Iterable[Query]
) -> AllocationCandidate | None:
    """Return what an instance holds as a candidate, if it is what a request wants.

    Args:
        nodes: UUIDs of the compute nodes among the providers.
        ignored: UUIDs of the compute nodes of hosts that the request ignores: what an evacuated instance
            holds there is not from this request.

    Returns:
        The candidate; None if the instance holds nothing, something else, or something of several nodes.
    """
    ours = {provider: entry for provider, entry in held.items() if provider not in ignored}
    roots = [provider for provider in ours if provider in nodes]
    total = Counter[str]()
    for entry in ours.values():
        total.update(entry["resources"])
    if len(roots) != 1 or total not in [query.amounts() for query in queries]:
        return None
    return AllocationCandidate.of(roots[0], (roots[0],), ours, {})
