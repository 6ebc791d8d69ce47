"""Serving the PCI requests of one guest from the pools of a host, one request after the other.

Each request narrows the pools step by step (description, NUMA policy, device types that need an explicit
request, providers that Placement chose), and is refused if the remaining pools have too few devices. The
compute does the same when it claims. The order of steps and pools is therefore kept, even where another order
would serve more requests.

spec: numa-and-pci 4.2, 4.3, 4.6
"""

from collections import Counter
from dataclasses import dataclass
from enum import Enum

from scheduler.pci.offer import Demand, PciOffer
from scheduler.pci.requests import LEGACY, REQUIRED, SOCKET


class PciStep(Enum):
    """The step of a request that left too few devices."""

    DESCRIPTION = "description"
    NUMA = "numa"
    USE = "use"
    PLACEMENT = "placement"
    AMBIGUOUS = "ambiguous"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True)
class PciRefusal:
    """The request that was refused.

    Attributes:
        request: Number of the request, from 0.
        step: The step after which too few devices were left.
        free: The number of devices that were left.
    """

    request: int
    step: PciStep
    free: int = 0


@dataclass(frozen=True)
class ChosenCells:
    """The host cells that a guest uses.

    Attributes:
        cells: Ids of the host cells; empty if NUMA cells do not matter.
        sockets: (cell id, socket) of all cells of the host; None if it has no topology.
    """

    cells: frozenset[int] = frozenset()
    sockets: tuple[tuple[int, int | None], ...] | None = None


class PoolCounts:
    """The free devices of each pool while requests are served; None for a pool that has left the list."""

    def __init__(self, offer: PciOffer) -> None:
        self.offer = offer
        self.counts: list[int | None] = list(offer.counts)

    def free(self, pools: list[int]) -> int:
        """Return the number of free devices in the pools at these positions."""
        return sum(self._count(pool) for pool in pools)

    def consume(self, demand: Demand, chosen: ChosenCells) -> tuple[PciStep, int] | None:
        """Consume the devices for one request.

        Returns:
            None if the request is served. Otherwise nothing is consumed; the result is the step that left too
            few devices, and the number of devices left.
        """
        pools = [pool for pool in demand.match.described if self.counts[pool] is not None]
        if self._too_few(pools, demand):
            return PciStep.DESCRIPTION, self.free(pools)
        pools = self._allowed_by_numa_policy(pools, demand, chosen)
        if self._too_few(pools, demand):
            return PciStep.NUMA, self.free(pools)
        pools = [pool for pool in pools if pool in demand.match.usable]
        if self._too_few(pools, demand):
            return PciStep.USE, self.free(pools)
        if demand.bound is None:
            return PciStep.UNRESOLVED, 0
        if not demand.bound:
            self._consume_in_order(pools, demand.count)
            return None
        return self._consume_bound(pools, demand, Counter(demand.bound))

    def _count(self, pool: int) -> int:
        return self.counts[pool] or 0

    def _too_few(self, pools: list[int], demand: Demand) -> bool:
        return not pools or self.free(pools) < demand.count

    def _allowed_by_numa_policy(self, pools: list[int], demand: Demand, chosen: ChosenCells) -> list[int]:
        """Return the pools that the NUMA policy allows, preferred ones first (spec: numa-and-pci 4.3)."""
        if not chosen.cells:
            return pools
        nodes = self.offer.nodes
        near = [pool for pool in pools if nodes[pool] in chosen.cells]
        if demand.policy == REQUIRED or self.free(near) >= demand.count:
            return near
        if demand.policy == SOCKET:
            cells = _cells_of_sockets(chosen)
            return [pool for pool in pools if nodes[pool] in cells]
        near = [pool for pool in pools if nodes[pool] is None or nodes[pool] in chosen.cells]
        if demand.policy == LEGACY or self.free(near) >= demand.count:
            return near
        return near + [pool for pool in pools if nodes[pool] is not None and nodes[pool] not in chosen.cells]

    def _consume_bound(
        self, pools: list[int], demand: Demand, wanted: Counter[int]
    ) -> tuple[PciStep, int] | None:
        provider = self.offer.providers
        kept = [
            pool for pool in pools if wanted[provider[pool]] and self._count(pool) >= wanted[provider[pool]]
        ]
        if self._too_few(kept, demand):
            return PciStep.PLACEMENT, self.free(kept)
        present = [
            provider[i] for i, count in enumerate(self.counts) if count is not None and provider[i] >= 0
        ]
        if len(present) != len(set(present)):
            return PciStep.AMBIGUOUS, 0
        for pool in kept:
            self._subtract(pool, wanted[provider[pool]])
        return None

    def _consume_in_order(self, pools: list[int], count: int) -> None:
        for pool in pools:
            consumed = min(count, self._count(pool))
            self._subtract(pool, consumed)
            count -= consumed
            if not count:
                return

    def _subtract(self, pool: int, count: int) -> None:
        self.counts[pool] = self._count(pool) - count or None


def _cells_of_sockets(chosen: ChosenCells) -> frozenset[int]:
    """Return the host cells that share a socket with a chosen one; none if any socket is unknown."""
    sockets = dict(chosen.sockets or ())
    if None in sockets.values():
        return frozenset()
    wanted = {socket for cell, socket in sockets.items() if cell in chosen.cells}
    return frozenset(cell for cell, socket in sockets.items() if socket in wanted)


def consume_devices(offer: PciOffer, chosen: ChosenCells) -> tuple[list[int | None], PciRefusal | None]:
    """Serve the demands of an offer in order, up to the first that is refused.

    Returns:
        The counts of the pools afterwards, and the refusal if there is one. Devices consumed for the requests
        before the refused one stay consumed.
    """
    counts = PoolCounts(offer)
    for number, demand in enumerate(offer.demands):
        refused = counts.consume(demand, chosen)
        if refused:
            return counts.counts, PciRefusal(number, *refused)
    return counts.counts, None
