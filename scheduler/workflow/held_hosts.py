"""The hosts that the instances of a request hold already in Placement."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from scheduler.claims.claimer import Claimer
from scheduler.claims.held import held_candidate
from scheduler.errors import PlacementUnavailable
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.nova_db.inventory import Inventory
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.errors import PlacementSilent, unavailable
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.workflow.candidate_hosts import CandidateHosts


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


class HeldHosts:
    """Reads what instances hold. Any thread may use it."""

    def __init__(self, hosts: Inventory, claimer: Claimer, candidate_hosts: CandidateHosts) -> None:
        self._hosts = hosts
        self._claimer = claimer
        self._candidate_hosts = candidate_hosts

    def of_each(self, request: SchedulingRequest) -> dict[str, HeldHost]:
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
        outside = self._hosts.outside(providers - table.row_of_uuid.keys())
        nodes = table.row_of_uuid.keys() | outside.row_of_uuid.keys()
        ignored = self._candidate_hosts.ignored_nodes(table, request) | request.kept_providers
        found: dict[str, HeldHost] = {}
        for uuid, each in held.items():
            candidate = held_candidate(each.allocations, nodes, ignored, request.queries)
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
        rows = table.find([candidate.root], cell_uuid)
        # What is pending is counted for the hosts of the partition alone.
        pending = self._hosts.pending if is_own else None
        return HostView.of(table, rows, [[candidate]] * len(rows), self._hosts.instances, pending)

    def is_any_held(self, request: SchedulingRequest) -> bool:
        """Return whether an instance is known to hold something besides what it keeps."""
        try:
            held = self._read(request)
        except PlacementUnavailable:
            return False
        kept = self._candidate_hosts.kept(request).providers
        return any(each.allocations.keys() - kept for each in held.values())

    def _read(self, request: SchedulingRequest) -> Mapping[str, ConsumerAllocations]:
        try:
            return self._claimer.get_held_many(request.instance_uuids, request.context)
        except PlacementSilent as error:
            raise unavailable(error, "Placement gives no answer on the allocations of an instance") from error
