"""The NUMA cells and PCI devices that pending placements take of their hosts.

Placement counts neither, unless devices are inventories there, and a host's row shows them as free until its
compute reports. So what was decided is consumed again, on a copy of the row, by the functions that consume
within one request (spec: host-state-and-cells 8 (2)).
"""

from collections.abc import Iterable, Mapping
import threading
from typing import Any, NamedTuple

from cachetools import LRUCache
import numpy as np
from oslo_log import log as logging

from scheduler.hosts.coordinates import TableRow, TableRows, ViewPosition
from scheduler.hosts.table import HostTable
from scheduler.numa.fit import Fitter
from scheduler.numa.usage import InstanceDemand, consume_instance

LOG = logging.getLogger(f"nova.{__name__}")

TOPOLOGY = ("numa_topology", "pci_stats")
"""The columns that demands change, in the order of a ``Topology``."""

# Hosts whose state with their demands is kept, and distinct states of hosts.
MAX_CACHED = 4096

Topology = tuple[Any, Any]
"""A ``HostTopology`` and a ``PoolSet``; either may be None."""

Demands = Mapping[str, InstanceDemand]
"""The demands on one host by the uuid of the instance, the oldest first."""


class _Applied(NamedTuple):
    before: Topology
    demands: tuple[InstanceDemand, ...]
    after: Topology


class PendingDemands:
    """The demands of pending placements. Any thread may use it."""

    def __init__(self, lock: threading.RLock, fitter: Fitter) -> None:
        """Begin without a demand; ``lock`` is that of the placements."""
        self._lock = lock
        self._fitter = fitter
        self._of_node: dict[str, dict[str, InstanceDemand]] = {}
        self._count = 0
        self.forgotten = 0  # how many demands were forgotten so far, though their placements stay
        self._applied: LRUCache[str, _Applied] = LRUCache(MAX_CACHED)
        # Hosts in equal states have the same object, so that rules judge it once.
        self._distinct: LRUCache[Any, Any] = LRUCache(MAX_CACHED)

    def __len__(self) -> int:
        return self._count

    def put(self, node: str, instance: str, demand: InstanceDemand | None) -> None:
        """Note what an instance needs of a node; None: nothing."""
        if demand is not None:
            with self._lock:
                self._count += instance not in self._of_node.setdefault(node, {})
                self._of_node[node][instance] = demand

    def remove(self, node: str, instance: str) -> bool:
        """Forget what an instance needs of a node; return whether there was anything."""
        with self._lock:
            demands = self._of_node.get(node, {})
            removed = demands.pop(instance, None)
            self._count -= removed is not None
            if not demands:
                self._of_node.pop(node, None)
                self._applied.pop(node, None)
        return removed is not None

    def forget(self, instances: Mapping[str, str]) -> int:
        """Count these instances no more on the nodes that are given; return how many were counted."""
        freed = sum([self.remove(node, instance) for instance, node in instances.items()])
        self.forgotten += freed
        return freed

    def on(
        self, table: HostTable, rows: TableRows, earlier: Iterable[tuple[str, str, InstanceDemand]] = ()
    ) -> dict[ViewPosition, Demands]:
        """Return what is needed of some rows of a table, by position in ``rows``.

        Args:
            earlier: Node, instance and demand of placements that were removed and count for this table.
        """
        with self._lock:
            of_node = {node: dict(demands) for node, demands in self._of_node.items()}
        for node, instance, demand in earlier:
            of_node[node] = {instance: demand} | of_node.get(node, {})
        if not of_node:
            return {}
        by_row = {
            row: demands
            for node, demands in of_node.items()
            if (row := table.row_of_uuid.get(node)) is not None
        }
        places = np.full(len(table), -1)
        places[rows] = np.arange(len(rows))
        return {
            ViewPosition(int(places[row])): demands for row, demands in by_row.items() if places[row] >= 0
        }

    def apply(self, table: HostTable, row: TableRow, demands: Iterable[InstanceDemand]) -> Topology:
        """Return the topology and the pools of a row with these demands consumed, in their order."""
        node, demands = table.rows[row].uuid, tuple(demands)
        topology, pools = before = tuple(table.coded[name][row] for name in TOPOLOGY)
        with self._lock:
            applied = self._applied.get(node)
        done = 0
        if applied and applied.before[0] is topology and applied.before[1] is pools:
            done = len(applied.demands) if applied.demands == demands[: len(applied.demands)] else 0
            if done:
                topology, pools = applied.after
        for demand in demands[done:]:
            topology, pools = self._consume(topology, pools, demand, node)
        with self._lock:
            after = self._distinct.setdefault(topology, topology), self._distinct.setdefault(pools, pools)
            self._applied[node] = _Applied(before, demands, after)
        return after

    def _consume(self, topology: Any, pools: Any, demand: InstanceDemand, node: str) -> Topology:
        try:
            consumed = consume_instance(self._fitter, topology, pools, demand)
        except Exception:  # what another scheduler announces may be anything
            LOG.debug("Cannot count a pending placement on compute node %s", node, exc_info=True)
            return topology, pools
        return consumed.host, consumed.pools
