"""How one request sees the placements of others, and adds its own (spec: host-state-and-cells 8 (2, 3))."""

from collections.abc import Callable, Iterable, Mapping
import math

import numpy as np

from scheduler.hosts.coordinates import TableRow, TableRows, ViewPosition, ViewPositions
from scheduler.hosts.demands import Demands, Topology
from scheduler.hosts.free_amounts import free_memory, free_vcpus
from scheduler.hosts.pending import AMOUNTS, GUARDED, Amounts, PendingPlacement, PendingPlacements
from scheduler.hosts.table import HostTable
from scheduler.numa.usage import InstanceDemand


class Reservations:
    """What is pending on the hosts of one request: its own placements, and those of others.

    Attributes:
        pending: Where all requests of the process add their placements.
        others: What other requests had pending at the last ``catch_up``: int64, shape (amounts, hosts).
        demands: What they needed of NUMA cells and PCI devices then, by position; hosts without are left out.
    """

    def __init__(
        self, pending: PendingPlacements, table: HostTable, rows: TableRows, asked_at: float = math.inf
    ) -> None:
        """Reserve on some rows of a table; hosts are then named by their position in ``rows``.

        Args:
            pending: Where all requests of the process add their placements.
            table: The table that the request looks at.
            asked_at: When the query for the hosts was sent, by the clock of ``pending``; infinity if what
                was granted or refused meanwhile does not matter.
        """
        self.pending = pending
        self._asked_at = asked_at
        self._table = table
        self._rows = rows
        self.others: Amounts = np.zeros((len(AMOUNTS), len(rows)), np.int64)
        self.demands: Mapping[ViewPosition, Demands] = {}
        self._reserved: dict[str, tuple[ViewPosition, PendingPlacement]] = {}
        self._seen = -1  # the number of changes of ``pending``, its own ones counted

    def catch_up(self) -> tuple[ViewPositions, Amounts]:
        """Look again at what others have pending.

        Returns:
            The positions at which it is not what it was, and by how much it is more there than before: int64,
            shape (amounts, positions).
        """
        changes = self.pending.changes + self.pending.demands.forgotten
        if self._seen == changes:
            return ViewPositions(np.arange(0)), np.zeros((len(AMOUNTS), 0), np.int64)
        self._seen = changes
        for instance, (_, placement) in list(self._reserved.items()):
            if self.pending.get(instance) is not placement:  # another scheduler decides for it now
                del self._reserved[instance]
        before, self.others = self.others, self.pending.overlay(self._table, self._rows)
        for position, placement in self._reserved.values():
            self.others[:, position] -= placement.amounts
        changed = (self.others != before).any(axis=0)
        needed, self.demands = self.demands, self._demands_of_others()
        for position in needed.keys() | self.demands.keys():
            changed[position] |= needed.get(position) != self.demands.get(position)
        positions = ViewPositions(np.flatnonzero(changed))
        return positions, self.others[:, positions] - before[:, positions]

    def _demands_of_others(self) -> dict[ViewPosition, Demands]:
        of_others = {
            position: {uuid: demand for uuid, demand in demands.items() if uuid not in self._reserved}
            for position, demands in self.pending.demands_on(self._table, self._rows).items()
        }
        return {position: demands for position, demands in of_others.items() if demands}

    def topology(self, position: ViewPosition, own: Iterable[InstanceDemand] = ()) -> Topology:
        """Return the NUMA topology and PCI pools of a host as they will be, with what others have pending.

        Args:
            own: What the request itself has consumed there.
        """
        demands = [*self.demands.get(position, {}).values(), *own]
        return self.pending.demands.apply(self._table, TableRow(int(self._rows[position])), demands)

    def reserve(
        self,
        position: ViewPosition,
        instance_uuid: str,
        amounts: Mapping[str, int],
        demand: InstanceDemand | None = None,
    ) -> None:
        """Add a placement of an instance on a host.

        Args:
            amounts: What it takes, by the names in ``AMOUNTS``.
            demand: What it needs of NUMA cells and PCI devices; None for nothing.
        """
        row = TableRow(int(self._rows[position]))
        placement, changes = self.pending.add(instance_uuid, self._table, row, _as_array(amounts), demand)
        self._seen += changes
        self._reserved[instance_uuid] = position, placement

    def refuse(self, position: ViewPosition, amounts: Mapping[str, int]) -> None:
        """Note that Placement has refused a claim for these amounts, by the names in ``AMOUNTS``."""
        self.pending.claims.refuse(self._node(position), _as_array(amounts))

    def seems_full(
        self, position: ViewPosition, amounts: Mapping[str, int], number: Callable[[str], float]
    ) -> bool:
        """Return whether a host that Placement offers has probably been filled since it was asked.

        Which is so if Placement has refused as much to another request since then; or if others (requests of
        this process, and schedulers that share their decisions) have taken all that the compute has reported
        to be left. Disk does not count in that: what computes report of it differs much from what Placement
        allocates.

        Args:
            amounts: What an instance consumes, by column.
            number: Returns what the host has in a column.
        """
        node, claims = self._node(position), self.pending.claims
        if claims.was_refused(node, _as_array(amounts), self._asked_at):
            return True
        if not claims.has_newer(node, self._asked_at, self._reserved):
            return False
        taken = {
            name: float(self.others[AMOUNTS.index(name), position]) + amounts.get(name, 0) for name in GUARDED
        }
        return free_memory(number) + taken["free_ram_mb"] < 0 or free_vcpus(number) - taken["vcpus_used"] < 0

    def grant(self, instance_uuid: str, project: str | None) -> None:
        """Note that Placement has granted the claim for a placement that this request has added.

        Args:
            project: The project of the instance, which is sent to the host now.
        """
        if instance_uuid in self._reserved:
            self.pending.grant(instance_uuid)
            self.pending.builds.note(self._reserved[instance_uuid][1].node, project)

    def failed_for(self, project: str | None) -> np.ndarray:
        """Return when each host failed last to build for a project: seconds since the epoch, by position."""
        return self.pending.builds.failed_for(project, self._table)[self._rows]

    def unreserve(self, instance_uuid: str) -> None:
        """Remove a placement that this request has added; without one nothing happens."""
        if instance_uuid in self._reserved:
            _, placement = self._reserved.pop(instance_uuid)
            if self.pending.get(instance_uuid) is placement:
                self._seen += self.pending.remove([instance_uuid])

    def _node(self, position: ViewPosition) -> str:
        return self._table.rows[self._rows[position]].uuid


def _as_array(amounts: Mapping[str, int]) -> Amounts:
    return np.array([amounts.get(name, 0) for name in AMOUNTS], np.int64)
