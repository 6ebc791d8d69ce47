"""The unit limits of compute nodes, which Placement's answer about all of them lacks.

A compute reports its total of a class as ``max_unit``. So nodes with as many CPUs in nova's databases and
equal capacity of a class have equal limits of it. Memory and disk differ from node to node by some MiB: their
limit is the total in nova's databases if it is so on the nodes with as many CPUs that were read. A few reads
show the limits of a large cloud; of a small one each node is read.
"""

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from scheduler.placement.client import PlacementClient
from scheduler.placement.mirror import Mirror, Nodes
from scheduler.placement.plain_query import CLASSES
from scheduler.placement.providers import ABSENT, read_provider
from scheduler.placement.read_each import read_each

#: Nodes that are read in one round of the mirror; all nodes of a cloud that has no more. AT_ONCE: together.
MOST_READ = 16
AT_ONCE = 4

#: Classes whose limit is the total of each node.
_OF_TOTALS = ("MEMORY_MB", "DISK_GB")
_CPUS = CLASSES.index("VCPU")

Totals = Callable[[Sequence[str]], np.ndarray]
"""Returns what nova's databases have of compute nodes; -1: nothing; int64, shape (classes, nodes)."""


class UnitLimits:
    """Reads the unit limits of some compute nodes, and sets those of others by them."""

    def __init__(self, client: PlacementClient, totals: Totals | None) -> None:
        """Read nothing yet.

        Args:
            totals: None: only nodes that were read alone have limits.
        """
        self._client = client
        self._totals = totals

    def learn(self, known: Mirror) -> None:
        """Read some nodes, until the limits of all are known. Only those that were read are noted.

        Raises:
            PlacementError: Placement does not answer.
        """
        nodes = known.nodes()
        read = self._learn(nodes, MOST_READ)
        limits = Nodes(nodes.uuids[row] for row in read)
        limits.copy_limits(np.arange(len(read)), nodes, np.array(read, np.int64))
        known.learn_limits(limits)

    def learn_all(self, known: Mirror) -> None:
        """Note the limits of all nodes, for a mirror that decides alone; raises as ``learn``."""
        nodes = known.nodes()
        self._learn(nodes, len(nodes))
        known.learn_limits(nodes)

    def spread(self, nodes: Nodes) -> None:
        """Set the limits of nodes that were not read alone, as far as others show them."""
        if self._totals is not None and len(nodes) > MOST_READ:
            _spread(nodes, self._totals(nodes.uuids))

    def _learn(self, nodes: Nodes, most: int) -> list[int]:
        """Read at most so many nodes and spread their limits; return their rows."""
        read: list[int] = []
        if self._totals is None or not len(nodes):
            return read
        totals = self._totals(nodes.uuids)
        while rows := _samples(nodes, totals, read)[: most - len(read)]:
            uuids = [nodes.uuids[row] for row in rows]
            states = read_each(lambda uuid: read_provider(self._client, uuid, "inventories"), uuids, AT_ONCE)
            for row, state in zip(rows, states.values(), strict=True):
                nodes.set_limits(row, (state or ABSENT).inventories)
            read += rows
        return read


def _samples(nodes: Nodes, totals: np.ndarray, read: Sequence[int]) -> list[int]:
    """Set the limits that nodes show of others; return one node of each other kind, not one of those read."""
    if is_large := len(nodes) > MOST_READ:
        _spread(nodes, totals)
    left = ~nodes.limits_known() & (nodes.capacity >= 0) & (totals >= 0) & ~nodes.gone
    left[:, list(read)] = False
    if not is_large:
        return [int(row) for row in np.flatnonzero(left.any(axis=0))]
    rows: set[int] = set()
    for number, name in enumerate(CLASSES):
        at = np.flatnonzero(left[number])
        same = [totals[_CPUS, at]] if name in _OF_TOTALS else [totals[_CPUS, at], nodes.capacity[number, at]]
        rows.update(at[np.unique(_kinds(*same), return_index=True)[1]].tolist())
    return sorted(rows)


def _spread(nodes: Nodes, totals: np.ndarray) -> None:
    known = nodes.limits_known()
    for number, name in enumerate(CLASSES):
        wanted = ~known[number] & (nodes.capacity[number] >= 0) & (totals[number] >= 0)
        kinds = _kinds(totals[_CPUS], totals[number], nodes.capacity[number])
        source = np.full(len(nodes), -1)
        source[kinds[known[number]]] = np.flatnonzero(known[number])
        rows = np.flatnonzero(wanted & (source[kinds] >= 0))
        for limits in (nodes.min_unit, nodes.max_unit, nodes.step_size):
            limits[number, rows] = limits[number, source[kinds[rows]]]
        if name in _OF_TOTALS:
            rows = np.flatnonzero(wanted & (source[kinds] < 0) & _is_total(nodes, totals, known, number))
            nodes.max_unit[number, rows] = totals[number, rows]


def _is_total(nodes: Nodes, totals: np.ndarray, known: np.ndarray, number: int) -> np.ndarray:
    """Return which nodes have their total as limit, as all do with as many CPUs that were read; bool."""
    total = (nodes.max_unit == totals) & (nodes.min_unit == 1) & (nodes.step_size == 1)
    cpus = _kinds(totals[_CPUS])
    yes = np.bincount(cpus, known[number] & total[number], len(nodes))
    no = np.bincount(cpus, known[number] & ~total[number], len(nodes))
    all_are: np.ndarray = (yes > 0)[cpus] & (no == 0)[cpus]
    return all_are


def _kinds(*columns: np.ndarray) -> np.ndarray:
    """Return a number for each node; equal ones for equal columns: int64, below the number of nodes."""
    return reduce(lambda one, other: _codes(one * len(other) + other), map(_codes, columns))


def _codes(column: np.ndarray) -> np.ndarray:
    codes: np.ndarray = np.unique(column, return_inverse=True)[1].reshape(-1)
    return codes
