"""Taking devices from an offer, request by request.

A request narrows the pools step by step (description, NUMA policy, fitness for use, placement's
choice), and is refused if what is left has too few devices. The compute does the same when it claims,
so the order of steps and pools is kept even where a cleverer choice would serve more requests.

spec: numa-and-pci 4.2, 4.3, 4.6
"""

from collections import Counter
from dataclasses import dataclass
from enum import Enum

from scheduler.pci.offer import Demand, Offer
from scheduler.pci.requests import LEGACY, REQUIRED, SOCKET


class Step(Enum):
    """The step of a request that left too few devices."""

    DESCRIPTION = "description"
    NUMA = "numa"
    USE = "use"
    PLACEMENT = "placement"
    AMBIGUOUS = "ambiguous"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True)
class Refusal:
    """Request number ``request`` found only ``free`` devices after ``step``."""

    request: int
    step: Step
    free: int = 0


@dataclass(frozen=True)
class Place:
    """Where on the host the guest is: chosen cells (empty: anywhere) and the socket of each host cell."""

    cells: frozenset[int] = frozenset()
    sockets: tuple[tuple[int, int | None], ...] | None = None


class PoolCounts:
    """The devices still there while requests are served: counts by pool, None for a pool that has left."""

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.counts: list[int | None] = list(offer.counts)

    def free(self, pools: list[int]) -> int:
        return sum(self.counts[pool] for pool in pools)

    def serve(self, demand: Demand, place: Place) -> tuple[Step, int] | None:
        """Take what one request wants; if it cannot be had, take nothing and say which step refused it."""
        pools = [pool for pool in demand.match.described if self.counts[pool] is not None]
        if self._short(pools, demand):
            return Step.DESCRIPTION, self.free(pools)
        pools = self._near(pools, demand, place)
        if self._short(pools, demand):
            return Step.NUMA, self.free(pools)
        pools = [pool for pool in pools if pool in demand.match.usable]
        if self._short(pools, demand):
            return Step.USE, self.free(pools)
        if demand.bound is None:
            return Step.UNRESOLVED, 0
        if not demand.bound:
            self._drain(pools, demand.count)
            return None
        return self._serve_bound(pools, demand)

    def _short(self, pools: list[int], demand: Demand) -> bool:
        return not pools or self.free(pools) < demand.count

    def _near(self, pools: list[int], demand: Demand, place: Place) -> list[int]:
        """The pools that the NUMA policy allows, the preferred ones first. spec: numa-and-pci 4.3"""
        if not place.cells:
            return pools
        nodes = self.offer.nodes
        near = [pool for pool in pools if nodes[pool] in place.cells]
        if demand.policy == REQUIRED or self.free(near) >= demand.count:
            return near
        if demand.policy == SOCKET:
            cells = _cells_of_sockets(place)
            return [pool for pool in pools if nodes[pool] in cells]
        near = [pool for pool in pools if nodes[pool] is None or nodes[pool] in place.cells]
        if demand.policy == LEGACY or self.free(near) >= demand.count:
            return near
        return near + [pool for pool in pools if nodes[pool] is not None and nodes[pool] not in place.cells]

    def _serve_bound(self, pools: list[int], demand: Demand) -> tuple[Step, int] | None:
        wanted = Counter(demand.bound)
        provider = self.offer.providers
        kept = [
            pool for pool in pools if wanted[provider[pool]] and self.counts[pool] >= wanted[provider[pool]]
        ]
        if self._short(kept, demand):
            return Step.PLACEMENT, self.free(kept)
        present = [
            provider[i] for i, count in enumerate(self.counts) if count is not None and provider[i] >= 0
        ]
        if len(present) != len(set(present)):
            return Step.AMBIGUOUS, 0
        for pool in kept:
            self._take(pool, wanted[provider[pool]])
        return None

    def _drain(self, pools: list[int], count: int) -> None:
        for pool in pools:
            taken = min(count, self.counts[pool])
            self._take(pool, taken)
            count -= taken
            if not count:
                return

    def _take(self, pool: int, count: int) -> None:
        self.counts[pool] = self.counts[pool] - count or None


def _cells_of_sockets(place: Place) -> frozenset[int]:
    """The host cells that share a socket with a chosen one; none if any socket of the host is unknown."""
    sockets = dict(place.sockets or ())
    if None in sockets.values():
        return frozenset()
    chosen = {socket for cell, socket in sockets.items() if cell in place.cells}
    return frozenset(cell for cell, socket in sockets.items() if socket in chosen)


def take(offer: Offer, place: Place) -> tuple[list[int | None], Refusal | None]:
    """Serve the demands in order; the counts left, and what stopped it.

    What was taken for requests before the refused one stays taken.
    """
    stock = PoolCounts(offer)
    for number, demand in enumerate(offer.demands):
        refused = stock.serve(demand, place)
        if refused:
            return stock.counts, Refusal(number, *refused)
    return stock.counts, None
