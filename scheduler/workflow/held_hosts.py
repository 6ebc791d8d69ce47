"""The hosts that the instances of a request hold already in Placement."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from scheduler.claims.claimer import Claimer
from scheduler.claims.held import held_candidate
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.nova_db.inventory import Inventory
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.answer import AllocationCandidate, Resources
from scheduler.placement.errors import PlacementSilent, unavailable
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.workflow.candidate_hosts import CandidateHosts


class HeldHost(NamedTuple):
    """The one host that an instance holds.

    Attributes:
        host: The host.
        request: A request for this instance alone.
        candidate: What the instance holds there, as a candidate.
        held: All that it holds, as it was read.
    """

    host: HostView
    request: SchedulingRequest
    candidate: AllocationCandidate
    held: ConsumerAllocations


class HeldHosts:
    """Reads what instances hold. Any thread may use it."""

    def __init__(self, hosts: Inventory, claimer: Claimer, candidate_hosts: CandidateHosts) -> None:
        self._hosts = hosts
        self._claimer = claimer
        self._candidate_hosts = candidate_hosts

    def name_of(self, request: SchedulingRequest) -> str | None:
        """Return the host that an earlier delivery claimed for a request, be it of whatever partition."""
        try:
            held = self._claimer.get_held(request.instance_uuids[0], request.context).allocations
        except (PlacementSilent, IndexError):
            return None
        ignored = {host.lower() for host in request.spec.ignore_hosts or ()}
        hosts = self._hosts.hosts_of_nodes(held) if held else set()
        return min((host for host in hosts if host.lower() not in ignored), default=None)

    def of_each(self, queries: Sequence[Query], request: SchedulingRequest) -> list[HeldHost] | None:
        """Return the host that each instance holds; None if one of them holds none that would do."""
        held = self._read(request)
        if not all(each.allocations for each in held.values()):
            return None
        table = self._table_with([each.allocations for each in held.values()], request)
        ignored = self._candidate_hosts.ignored_nodes(table, request)
        found: list[HeldHost] = []
        for uuid, each in held.items():
            candidate = held_candidate(each.allocations, table.row_of_uuid, ignored, queries)
            if candidate is None:
                return None
            rows = table.find([candidate.root], request.cell_uuid)
            lists = [[candidate]] * len(rows)
            view = HostView.of(table, rows, lists, self._hosts.instances, self._hosts.pending)
            alone = replace(request, instance_uuids=(uuid,), with_alternates=False)
            found.append(HeldHost(view, alone, candidate, each))
        return found or None

    def _table_with(self, held: Collection[Resources], request: SchedulingRequest) -> HostTable:
        """Return a table that has the hosts of these allocations.

        They may be of another partition, of which no scheduler is alive: this one answers then.
        """
        providers = {provider for each in held for provider in each}
        table = self._candidate_hosts.table_with(providers, request)
        if not self._hosts.partition.name:
            return table
        # An evacuated instance still holds its failed host, which may be the only one of this partition.
        ignored = self._candidate_hosts.ignored_nodes(table, request)
        if not all((each.keys() - ignored) & table.row_of_uuid.keys() for each in held):
            return self._hosts.table_of_nodes(providers)
        return table

    def _read(self, request: SchedulingRequest) -> Mapping[str, ConsumerAllocations]:
        """Return what the instances hold, up to one that holds nothing.

        Raises:
            PlacementUnavailable: Placement does not tell; so it is not known whether a host may be chosen.
        """
        try:
            return self._claimer.get_held_many(request.instance_uuids, request.context)
        except PlacementSilent as error:
            raise unavailable(error, "Placement does not tell what an instance holds") from error
