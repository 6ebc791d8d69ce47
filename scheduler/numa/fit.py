"""Does a guest with a NUMA topology fit a host, and where?

spec: numa-and-pci 3
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from scheduler.numa.guest import GuestTopology
from scheduler.numa.reasons import FailedSearch, why_not
from scheduler.numa.search import Search, affinity, ordered_cells
from scheduler.numa.topology import HostTopology, Limits
from scheduler.pci.offer import Mappings, Offer, make_offer
from scheduler.pci.pools import PoolSet
from scheduler.pci.requests import PciRequest

REMEMBERED = 4096


@dataclass(frozen=True)
class Fit:
    """``fitted`` is the guest as placed on the host; None if it does not fit, and ``reason`` says why.

    ``guest_after`` is the guest as the search left it, fit or not: where the next attempt for it starts.
    """

    fitted: GuestTopology | None
    guest_after: GuestTopology | None
    reason: str = ""

    def __bool__(self) -> bool:
        return self.fitted is not None


def fit(
    host: HostTopology | None,
    guest: GuestTopology | None,
    limits: Limits | None = None,
    offer: Offer | None = None,
    *,
    packing: bool = False,
) -> Fit:
    """Look for host cells. ``offer`` None: nothing is known of PCI devices, and none are asked for here.

    ``packing``: [compute]packing_host_numa_cells_allocation_strategy.
    """
    if guest is None or not guest.cells:
        return Fit(None, guest, "the guest has no NUMA topology")
    if host is None or not host.cells:
        return Fit(None, guest, (host and host.problem) or "the host has no NUMA topology")
    if len(guest.cells) > len(host.cells):
        return Fit(None, guest, f"{len(guest.cells)} NUMA cells wanted, the host has {len(host.cells)}")
    cells = ordered_cells(host, guest, offer, packing=packing)
    near = affinity(host, limits)
    search = Search(cells, guest, limits, near, offer, host.sockets)
    found = search.run()
    after = guest.with_cells(tuple(seat.value() for seat in search.seats))
    return (
        Fit(after, after) if found else Fit(None, after, why_not(FailedSearch(host, guest, limits, search)))
    )


class Fitter:
    """Remembers fits, so that equal hosts cost one. Bounded: the least recently used are forgotten.

    Holds no reference to a host but its topology; safe to use from several threads.
    """

    def __init__(self, *, packing: bool = False, remembered: int = REMEMBERED) -> None:
        self._fit: Callable[..., Fit] = lru_cache(maxsize=remembered)(fit)
        self._packing = packing

    def fit(
        self,
        host: HostTopology | None,
        guest: GuestTopology | None,
        limits: Limits | None = None,
        pools: PoolSet | None = None,
        requests: tuple[PciRequest, ...] = (),
        mappings: Mappings | None = None,
    ) -> Fit:
        """Fit a guest with its PCI requests, bound to the providers that ``mappings`` name for them.

        ``pools`` None: the host has no PCI data, and requests are not looked at.
        """
        if pools is not None and pools.problem and requests:
            return Fit(None, guest, pools.problem)
        offer = None if pools is None else make_offer(pools, requests, mappings)
        return self._fit(host, guest, limits, offer, packing=self._packing)

    @property
    def made(self) -> int:
        """How many fits were worked out and not merely remembered."""
        return self._fit.cache_info().misses
