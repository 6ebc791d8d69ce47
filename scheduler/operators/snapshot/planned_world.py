"""What decisions of plans read: a snapshot, with what the plan has charged to it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from scheduler.hosts.coordinates import TableRows
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.request_instances import HostKey, InstanceSource
from scheduler.hosts.view import CandidateLists, HostView
from scheduler.operators.snapshot.snapshot import Snapshot
from scheduler.placement.answer import AllocationCandidate, Candidates, Usage
from scheduler.placement.candidates import CandidateSource
from scheduler.placement.mirror import Allocations
from scheduler.request.query import Query, without_limit
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.driver import FilterDriver
from scheduler.selection.mirrored_hosts import MirroredHosts
from scheduler.selection.server_groups import ServerGroups
from scheduler.workflow.decide import Offer


class Places(InstanceSource):
    """Where instances are in the plan, for rules and for server groups."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.rows = snapshot.instances.rows.copy()

    def locate(self, uuids: Iterable[str]) -> Mapping[str, Sequence[HostKey]]:
        known = self._snapshot.instances.index_of
        found = ((uuid, known[uuid]) for uuid in uuids if uuid in known)
        return {uuid: [self._snapshot.place(self.rows[at])] for uuid, at in found if self.rows[at] >= 0}

    def on_host(self, cell_uuid: str, host: str) -> Mapping[str, Any]:
        """As the databases have them, for classes of operators."""
        return self._snapshot.hosts.instances.on_host(cell_uuid, host)

    def image_properties(self, places: Iterable[HostKey]) -> Mapping[HostKey, Sequence[Mapping[str, str]]]:
        return self._snapshot.hosts.instances.image_properties(places)

    def members_of(self, group_uuid: str) -> Sequence[str]:
        group = self._snapshot.groups.get(group_uuid)
        return () if group is None else group.members

    def hosts_of_instances(self, instance_uuids: Sequence[str]) -> tuple[set[str], bool]:
        """Return the service hosts of instances that users still see."""
        instances, rows = self._snapshot.instances, self._snapshot.table.rows
        known = (instances.index_of.get(uuid, -1) for uuid in instance_uuids)
        seen = [at for at in known if at >= 0 and instances.visible[at] and self.rows[at] >= 0]
        return {rows[self.rows[at]].host for at in seen}, True


class Offers:
    """Placement's answers to queries that the mirror cannot answer, less what the plan takes."""

    def __init__(self, source: CandidateSource) -> None:
        self._source = source
        self._found: dict[tuple[Query, ...], Candidates] = {}
        self._taken: Counter[tuple[str, str]] = Counter()

    def take(self, allocations: Allocations, sign: int) -> None:
        for provider, entry in allocations.items():
            for resource, amount in entry["resources"].items():
                self._taken[provider, resource] += sign * amount

    def find(self, queries: Sequence[Query]) -> Candidates:
        """Return the answer, which is the same for equal queries."""
        key = tuple(map(without_limit, queries))
        if key not in self._found:
            self._found[key] = self._source.fetch(key, None)
        return self._found[key]

    def usage(self, offer: Candidates, provider: str) -> Mapping[str, Usage]:
        """Return capacity and usage of a provider in an answer, with what the plan takes."""
        return {
            name: Usage(one.capacity, one.used + self._taken[provider, name])
            for name, one in offer.usage(provider).items()
        }

    def fitting(self, offer: Candidates) -> Mapping[str, Sequence[AllocationCandidate]]:
        """Return the candidates of each root that still fit."""
        touched = {provider for provider, _ in self._taken}
        return {
            root: [each for each in some if touched.isdisjoint(each.stored) or self._fits(offer, each)]
            for root, some in offer.by_root.items()
        }

    def _fits(self, offer: Candidates, candidate: AllocationCandidate) -> bool:
        usages = {provider: self.usage(offer, provider) for provider in candidate.allocations}
        return all(
            usages[provider][name].used + amount <= usages[provider][name].capacity
            for provider, entry in candidate.allocations.items()
            for name, amount in entry["resources"].items()
            if name in usages[provider]
        )


class PlannedWorld:
    """A ``decide.World``: nothing in it is late, and no other request changes it.

    Attributes:
        closed: Hosts that are not considered; bool, shape (hosts,).
        places: Where instances are by now.
        instances: The same, or the databases if the snapshot has only one host.
        offers: Placement's answers.
        pending: What the current decision reserves.
    """

    def __init__(self, snapshot: Snapshot, driver: FilterDriver) -> None:
        """Begin with the snapshot as it is."""
        self._snapshot = snapshot
        self.driver = driver
        self.closed = np.zeros(len(snapshot.table), bool)
        self.places = Places(snapshot)
        self.instances: InstanceSource = self.places if snapshot.is_whole else snapshot.hosts.instances
        self.offers = Offers(snapshot.candidates)
        self.pending = PendingPlacements(snapshot.mirror.known.clock)
        self._mirrored = MirroredHosts(snapshot.mirror, self.instances, self.pending)
        self._mapped = np.array([snapshot.hosts.mapped(row.host) for row in snapshot.table.rows], bool)
        self._groups = ServerGroups()

    def queries(self, request: SchedulingRequest) -> tuple[Query, ...]:
        return self._snapshot.candidate_hosts.queries(request)

    def mirrored(self, request: SchedulingRequest) -> Offer | None:
        table = self._snapshot.table
        found = self._mirrored.find(request.queries, lambda: table, request.cell_uuid)
        return None if found is None else Offer(self._open(found[0]), found[1].usage)

    def ask_placement(self, request: SchedulingRequest) -> Candidates:
        return self.offers.find(request.queries)

    def offered(self, found: Candidates, request: SchedulingRequest, *, late: bool) -> Offer:
        table = self._snapshot.table
        fitting = self.offers.fitting(found)
        rows = table.find(found.by_root, request.cell_uuid)
        rows = TableRows(np.array([row for row in rows.tolist() if fitting[table.rows[row].uuid]], np.int64))
        candidates = CandidateLists(lambda position: fitting[table.rows[int(rows[position])].uuid])
        view = HostView.of(table, rows, candidates, self.instances, self.pending)
        return Offer(self._open(view), partial(self.offers.usage, found))

    def to_check(self, request: SchedulingRequest) -> HostView:
        table = self._snapshot.table
        rows = table.in_cell(TableRows(np.arange(len(table))), request.cell_uuid)
        return self._open(HostView.of(table, rows, None, self.instances, self.pending))

    def turn(self, request: SchedulingRequest) -> AbstractContextManager[SchedulingRequest]:
        source = self.places if self._snapshot.is_whole else self._snapshot.hosts
        return self._groups.serialized(request, source)

    def now(self) -> float:
        return self.pending.now()

    def _open(self, hosts: HostView) -> HostView:
        if not len(hosts):
            return hosts
        return hosts.where(self._mapped[hosts.table_rows] & ~self.closed[hosts.table_rows])
