"""Placements that were decided, here or by another scheduler, and that no database shows yet.

Between a decision and the report of the compute the host's row looks as free as before for some seconds.
Until then the decision is laid over it, so that a burst of requests does not choose one host: preferences see
the amounts that Placement guards, everything sees the counters, the NUMA cells and the PCI devices
(``demands``), and the instance counts as being on the host.
``reservations`` is how one request sees and adds placements (spec: host-state-and-cells 8 (2, 3)).

A request keeps its table. So a placement that a compute has reported goes on to count for the tables that
were read before: at each moment a table and what is pending on it have each instance once.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
import math
from operator import itemgetter
import random
import threading
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.bounds.locks import KeyedLocks
from scheduler.hosts.coordinates import TableRow, TableRows, ViewPosition
from scheduler.hosts.demands import Demands, PendingDemands
from scheduler.hosts.recent_builds import RecentBuilds
from scheduler.hosts.table import HostTable
from scheduler.numa.fit import Fitter
from scheduler.numa.usage import InstanceDemand

# What an instance takes of a host, in the order of all arrays of amounts here.
GUARDED = ("free_ram_mb", "free_disk_mb", "vcpus_used")
COUNTERS = ("num_instances", "num_io_ops")
AMOUNTS = GUARDED + COUNTERS

# Seconds after which a placement that no compute has reported is given up.
LIFETIME = 180.0

# Placements of other schedulers that are kept at most; further ones are left out. Two hundred a second that
# no compute reports within ``LIFETIME`` are 36,000; anyone on the bus can announce more.
MOST_SHARED = 50_000

# Those of them whose NUMA cells and devices are counted at most: each may be some KiB.
MOST_SHARED_DEMANDS = 5_000

# Placements of other schedulers that are looked for in the databases at once, taken at random.
MOST_LOOKED_FOR = 2_000

# Reported placements that are kept for the requests whose table is older.
MOST_SETTLED = 2_000

Amounts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PendingPlacement:
    """An instance that is to be on a node.

    Attributes:
        instance: The uuid of the instance.
        node: The uuid of the compute node.
        amounts: int64 in the order of ``AMOUNTS``.
        updated: The stamp of the node's row when the decision was made.
        expires_at: When the placement is given up, by the clock of ``PendingPlacements``.
        shared: Whether another scheduler has decided it.
        demand: What it needs of NUMA cells and PCI devices; None for nothing.
    """

    instance: str
    node: str
    amounts: Amounts
    updated: datetime | None
    expires_at: float
    shared: bool = False
    demand: InstanceDemand | None = None


class RecentClaims:
    """Claims that Placement may not have counted in an answer, by the uuid of the node. For any thread."""

    def __init__(self, lock: threading.RLock, clock: Callable[[], float]) -> None:
        """Begin without a claim; ``lock`` is that of the placements."""
        self._lock = lock
        self._clock = clock
        # The instances whose claim is not known to be granted, when a claim was last granted, and the latest
        # refusal with its amounts.
        self._claiming: dict[str, set[str]] = {}
        self._granted_at: dict[str, float] = {}
        self._refusals: dict[str, tuple[float, Amounts]] = {}

    def begin(self, node: str, instance: str) -> None:
        """Note that an instance is to be claimed."""
        with self._lock:
            self._claiming.setdefault(node, set()).add(instance)

    def end(self, node: str, instance: str, *, granted: bool = False) -> None:
        """Note that an instance is not being claimed any more."""
        with self._lock:
            claiming = self._claiming.get(node, set())
            claiming.discard(instance)
            if not claiming:
                self._claiming.pop(node, None)
            if granted:
                self._granted_at[node] = self._clock()

    def has_newer(self, node: str, moment: float, apart_from: Collection[str] = ()) -> bool:
        """Return whether anything takes of a node that Placement may not have counted at a moment.

        Args:
            node: The uuid of the compute node.
            moment: When Placement was asked, in seconds of the clock.
            apart_from: Instances that do not matter while they are being claimed.
        """
        with self._lock:
            if self._granted_at.get(node, -math.inf) > moment:
                return True
            return any(instance not in apart_from for instance in self._claiming.get(node, ()))

    def refuse(self, node: str, amounts: Amounts) -> None:
        """Note that Placement has refused a claim for these amounts, in the order of ``AMOUNTS``."""
        with self._lock:
            self._refusals[node] = self._clock(), amounts

    def was_refused(self, node: str, amounts: Amounts, moment: float) -> bool:
        """Return whether Placement has refused these amounts, or less, after a moment."""
        refused_at, refused = self._refusals.get(node, (-math.inf, amounts))
        return refused_at > moment and bool((abs(amounts) >= abs(refused)).all())

    def keep_only(self, nodes: AbstractSet[str]) -> None:
        """Forget what is known of other nodes."""
        with self._lock:
            self._granted_at = {node: self._granted_at[node] for node in self._granted_at.keys() & nodes}
            self._refusals = {node: self._refusals[node] for node in self._refusals.keys() & nodes}


class PendingPlacements:
    """The pending placements of one process, at most one for an instance. Any thread may use it.

    Attributes:
        now: Returns the time, in seconds of the clock that all moments here are of.
        turns: Held by requests that choose and reserve a host.
        changes: How many placements were added and removed so far.
        listener: Its ``reserved`` receives the placements that this scheduler decides, on the thread that
            decides, and ``unreserved`` those that are withdrawn; both must not wait. None: nothing does.
        claims: What Placement may not have counted of them.
        demands: What they need of NUMA cells and PCI devices.
        builds: For which projects hosts have failed to build what was sent to them.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        fitter: Fitter | None = None,
    ) -> None:
        """Begin without a placement.

        Args:
            fitter: Fits the NUMA topologies of placements that are laid over hosts; None: a new one.
        """
        self.listener: Any = None
        self._clock = self.now = clock
        self.turns = KeyedLocks()
        self.changes = 0
        self._lock = threading.RLock()
        self.claims = RecentClaims(self._lock, clock)
        self.demands = PendingDemands(self._lock, fitter or Fitter())
        self.builds = RecentBuilds(clock)
        self._placements: dict[str, PendingPlacement] = {}
        self._settled: list[tuple[float, PendingPlacement]] = []  # by when a table was read that has it
        self._row_of_uuid: Mapping[str, TableRow] = {}
        self._sums: Amounts = np.zeros((len(AMOUNTS), 0), np.int64)

    def __len__(self) -> int:
        return len(self._placements)

    def node_of(self, instance: str) -> str | None:
        """Return the uuid of the node that an instance is to be on; None if nothing is pending for it."""
        placement = self._placements.get(instance)
        return placement.node if placement else None

    def get(self, instance: str) -> PendingPlacement | None:
        """Return what is pending for an instance; None if nothing is."""
        return self._placements.get(instance)

    def row_of(self, instance: str, table: HostTable) -> TableRow | None:
        """Return the row of the node that an instance is to be on; None if there is none in the table."""
        node = self.node_of(instance)
        if node is None:
            nodes = (each.node for each in self._settled_after(table) if each.instance == instance)
            node = next(nodes, None)
        return None if node is None else table.row_of_uuid.get(node)

    def demands_on(self, table: HostTable, rows: TableRows) -> dict[ViewPosition, Demands]:
        """Return what is needed of NUMA cells and PCI devices on some rows, by position in ``rows``."""
        with self._lock:
            settled = self._settled_after(table)
            earlier = [(each.node, each.instance, each.demand) for each in settled if each.demand is not None]
            return self.demands.on(table, rows, earlier)

    def overlay(self, table: HostTable, rows: TableRows) -> Amounts:
        """Return what is pending on these rows of a table: int64, shape (amounts, rows)."""
        # Few hosts of many have any: gathering the sums of all rows would take most of the time of a view.
        overlaid = np.zeros((len(AMOUNTS), len(rows)), np.int64)
        with self._lock:
            sums = self._sums_of(table)
            busy = np.flatnonzero(sums.any(axis=0))
            amounts = sums[:, busy]
        if len(busy):
            places = np.full(len(table), -1)
            places[rows] = np.arange(len(rows))
            at = places[busy]
            overlaid[:, at[at >= 0]] = amounts[:, at >= 0]
        return overlaid

    def add(
        self,
        instance: str,
        table: HostTable,
        row: TableRow,
        amounts: Amounts,
        demand: InstanceDemand | None = None,
    ) -> tuple[PendingPlacement, int]:
        """Add a placement of an instance, in place of the one that it may have.

        Args:
            instance: The uuid of the instance.
            table: The table that the request looks at.
            row: The row of the chosen node.
            amounts: What the instance takes, in the order of ``AMOUNTS``.
            demand: What it needs of NUMA cells and PCI devices; None for nothing.

        Returns:
            The placement, and how many changes this was.
        """
        node = table.rows[row]
        expires_at = self._clock() + LIFETIME
        placement = PendingPlacement(instance, node.uuid, amounts, node.updated, expires_at, demand=demand)
        made = self._put(placement)
        if self.listener is not None:
            self.listener.reserved(placement)
        return placement, made

    def grant(self, instance: str) -> None:
        """Note that Placement has granted the claim for the pending placement of an instance."""
        with self._lock:
            placement = self._placements.get(instance)
            if placement is not None:
                self.claims.end(placement.node, instance, granted=True)

    def share(
        self,
        instance: str,
        node: str,
        amounts: Amounts,
        updated: datetime | None,
        age: float = 0.0,
        *,
        granted: bool = False,
        demand: InstanceDemand | None = None,
    ) -> bool:
        """Add a placement that another scheduler has decided, in place of the one that the instance may have.

        Args:
            instance: The uuid of the instance.
            node: The uuid of the compute node.
            amounts: What the instance takes, in the order of ``AMOUNTS``.
            updated: The stamp of the node's row when the decision was made.
            age: Seconds since then.
            granted: Whether Placement has granted the claim.
            demand: What it needs of NUMA cells and PCI devices; None for nothing.

        Returns:
            False, and nothing is added, if it is past its lifetime, or if too many placements are pending.
        """
        if age >= LIFETIME or (len(self) >= MOST_SHARED and instance not in self._placements):
            return False
        if len(self.demands) >= MOST_SHARED_DEMANDS:
            demand = None
        placement = PendingPlacement(
            instance, node, amounts, updated, self._clock() + LIFETIME - age, shared=True, demand=demand
        )
        self._put(placement)
        if granted:
            self.grant(instance)
        return True

    def unshare(self, instance: str, node: str) -> None:
        """Remove the placement of an instance on a node, if there is one; another scheduler says so."""
        placement = self._placements.get(instance)
        if placement is not None and placement.node == node:
            with self._lock:
                if self._placements.get(instance) is placement:
                    self._remove([instance])

    def remove(self, instances: Iterable[str]) -> int:
        """Remove the placements of these instances; return how many had one."""
        with self._lock:
            removed = self._remove(instances)
        for placement in removed:
            if self.listener is not None and not placement.shared:
                self.listener.unreserved(placement)
        return len(removed)

    def on_changed_rows(self, table: HostTable) -> list[PendingPlacement]:
        """Return the placements on nodes whose row has changed since: the compute may have reported them.

        Of those that other schedulers have decided at most ``MOST_LOOKED_FOR`` are returned.
        """
        return _to_look_for(each for each in list(self._placements.values()) if _row_changed(each, table))

    def older_than(self, seconds: float) -> list[PendingPlacement]:
        """Return the placements that were decided so many seconds ago, or earlier.

        Of those that other schedulers have decided at most ``MOST_LOOKED_FOR`` are returned.
        """
        latest = self._clock() + LIFETIME - seconds
        return _to_look_for(one for one in list(self._placements.values()) if one.expires_at <= latest)

    def settle(self, reported: Iterable[PendingPlacement] = (), read_at: float = -math.inf) -> None:
        """Remove the placements that computes have reported, and those that are past their lifetime.

        A placement that was added for the same instance in the meantime stays.

        Args:
            read_at: When the first table was read that shows those that are reported. They go on to count for
                tables that were read before.
        """
        now = self._clock()
        expired = [placement for placement in list(self._placements.values()) if placement.expires_at < now]
        with self._lock:
            reported = [each for each in reported if self._placements.get(each.instance) is each]
            settled = [*self._settled, *((read_at, each) for each in reported)]
            self._settled = sorted(settled, key=_read_at)[-MOST_SETTLED:]
            current = [each for each in expired if self._placements.get(each.instance) is each]
            self._remove(each.instance for each in [*reported, *current])

    def _settled_after(self, table: HostTable) -> list[PendingPlacement]:
        """Return the placements that computes have reported, but not in this table yet."""
        settled = self._settled
        return [each for _, each in settled[bisect_right(settled, table.read_at, key=_read_at) :]]

    def _sums_of(self, table: HostTable) -> Amounts:
        """Return the sums by row of a table; tables that share their order of hosts share them."""
        if self._row_of_uuid is not table.row_of_uuid:
            self._row_of_uuid = table.row_of_uuid
            self._sums = np.zeros((len(AMOUNTS), len(table)), np.int64)
            for placement in self._placements.values():
                self._add_to(self._sums, placement)
            self.claims.keep_only(table.row_of_uuid.keys())
        sums, settled = self._sums, self._settled_after(table)
        if settled:
            sums = sums.copy()
            for placement in settled:
                self._add_to(sums, placement)
        return sums

    def _put(self, placement: PendingPlacement) -> int:
        """Add a placement in place of the one of its instance; return how many changes this was."""
        with self._lock:
            changes = 1 + len(self._remove([placement.instance]))
            self.changes += 1
            self._placements[placement.instance] = placement
            self.claims.begin(placement.node, placement.instance)
            self.demands.put(placement.node, placement.instance, placement.demand)
            self._add_to(self._sums, placement)
        return changes

    def _remove(self, instances: Iterable[str]) -> list[PendingPlacement]:
        removed = [
            placement
            for instance in instances
            if (placement := self._placements.pop(instance, None)) is not None
        ]
        self.changes += len(removed)
        for placement in removed:
            self._add_to(self._sums, placement, -1)
            self.claims.end(placement.node, placement.instance)
            self.demands.remove(placement.node, placement.instance)
        return removed

    def _add_to(self, sums: Amounts, placement: PendingPlacement, sign: int = 1) -> None:
        row = self._row_of_uuid.get(placement.node)
        if row is not None:
            sums[:, row] += sign * placement.amounts


_read_at = itemgetter(0)


def _row_changed(placement: PendingPlacement, table: HostTable) -> bool:
    row = table.row_of_uuid.get(placement.node)
    return row is not None and table.rows[row].updated != placement.updated


def _to_look_for(placements: Iterable[PendingPlacement]) -> list[PendingPlacement]:
    candidates = list(placements)
    shared = [each for each in candidates if each.shared]
    if len(shared) <= MOST_LOOKED_FOR:
        return candidates
    return [*(each for each in candidates if not each.shared), *random.sample(shared, MOST_LOOKED_FOR)]
