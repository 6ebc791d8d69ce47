"""The hosts that the instances of a request hold already in Placement."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from scheduler.claims.claimer import Claimer
from scheduler.claims.held import held_candidate
from scheduler.errors import NoValidHost
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.nova_db.inventory import Inventory
from scheduler.placement.answer import Resources
from scheduler.placement.errors import PlacementSilent
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.workflow.candidate_hosts import CandidateHosts

HeldHost = tuple[HostView, SchedulingRequest]
"""The one host that an instance holds, and a request for this instance alone."""


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
        held = {}
        for uuid in request.instance_uuids:
            held[uuid] = self._read(uuid, request.context)
            if not held[uuid]:
                return None
        table = self._table_with(held.values(), request)
        ignored = self._candidate_hosts.ignored_nodes(table, request)
        found: list[HeldHost] = []
        for uuid, allocations in held.items():
            candidate = held_candidate(allocations, table.row_of_uuid, ignored, queries)
            if candidate is None:
                return None
            rows = table.find([candidate.root], request.cell_uuid)
            lists = [[candidate]] * len(rows)
            view = HostView.of(table, rows, lists, self._hosts.instances, self._hosts.pending)
            found.append((view, replace(request, instance_uuids=(uuid,), with_alternates=False)))
        return found or None

    def _table_with(self, held: Collection[Resources], request: SchedulingRequest) -> HostTable:
        """Return a table that has the hosts of these allocations.

        They may be of another partition, of which no scheduler is alive: this one answers then.
        """
        providers = {provider for each in held for provider in each}
        table = self._candidate_hosts.table_with(providers, request)
        if self._hosts.partition.name and not all(each.keys() & table.row_of_uuid.keys() for each in held):
            return self._hosts.table_of_nodes(providers)
        return table

    def _read(self, uuid: str, context: Any) -> Resources:
        """Return what an instance holds.

        Raises:
            NoValidHost: Placement does not tell; so it is not known whether a host may be chosen.
        """
        try:
            return self._claimer.get_held(uuid, context).allocations
        except PlacementSilent as error:
            text = f"Placement does not tell what an instance holds: {error}"
            raise NoValidHost(text, final=True) from error
