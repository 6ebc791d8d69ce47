"""Whether a guest with a NUMA topology fits a host, and on which cells (spec: numa-and-pci 3, 4.7, 5.1)."""

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock

from cachetools import LRUCache

from scheduler.numa.guest import GuestTopology
from scheduler.numa.reasons import explain_failure
from scheduler.numa.search import Search, SearchBudget, StepLimit, affinity, ordered_cells
from scheduler.numa.topology import HostTopology, Limits
from scheduler.pci.offer import Mappings, PciOffer, make_offer
from scheduler.pci.pools import PoolSet
from scheduler.pci.requests import PciRequest

MAX_CACHED = 4096


@dataclass(frozen=True)
class Fit:
    """The result of one fit; true if the guest fits.

    Attributes:
        fitted: The guest as placed on the host; None if it does not fit.
        guest_after: The guest as the search left it, fit or not. The next attempt for it starts from there.
        problem: Why no search was made; empty if one was.
        failure: The search that found nothing, if there was one.
    """

    fitted: GuestTopology | None
    guest_after: GuestTopology | None
    problem: str = ""
    failure: Search | None = field(default=None, compare=False)

    def __bool__(self) -> bool:
        return self.fitted is not None

    @property
    def reason(self) -> str:
        """Why the guest does not fit; empty if it does. Computed at each call."""
        return self.problem or (explain_failure(self.failure) if self.failure else "")

    @property
    def is_final(self) -> bool:
        """Whether a search with more steps for the request would have the same result."""
        return self.failure is None or self.failure.cut_short is not StepLimit.REQUEST


def fit(
    host: HostTopology | None,
    guest: GuestTopology | None,
    limits: Limits | None = None,
    offer: PciOffer | None = None,
    *,
    packing: bool = False,
    budget: SearchBudget | None = None,
) -> Fit:
    """Search host cells for a guest.

    Args:
        offer: The PCI devices of the host and the demands on them; None if the host has no PCI data.
        packing: [compute]packing_host_numa_cells_allocation_strategy.
        budget: The steps that the request may use on all its hosts; None for the limit of one host only.
    """
    if guest is None or not guest.cells:
        return Fit(None, guest, "the guest has no NUMA topology")
    if host is None or not host.cells:
        return Fit(None, guest, (host and host.problem) or "the host has no NUMA topology")
    if len(guest.cells) > len(host.cells):
        return Fit(None, guest, f"{len(guest.cells)} NUMA cells wanted, the host has {len(host.cells)}")
    cells = ordered_cells(host, guest, offer, packing=packing)
    near = affinity(host, limits)
    search = Search(host, cells, guest, limits, near, offer, budget or SearchBudget())
    result = search.run()
    after = guest.with_cells(tuple(state.as_guest_cell() for state in search.states))
    if result:
        return Fit(after, after)
    return Fit(None, after, failure=search)


class Fitter:
    """Caches fits, so that hosts in equal states cost one search. It can be used from several threads.

    The least recently used fits are dropped first. Of a host only its topology is kept.
    """

    def __init__(self, *, packing: bool = False, max_cached: int = MAX_CACHED) -> None:
        self._packing = packing
        self._cache: LRUCache[Hashable, Fit] = LRUCache(max_cached)
        self._lock = Lock()
        self._made = 0

    def fit(
        self,
        host: HostTopology | None,
        guest: GuestTopology | None,
        limits: Limits | None = None,
        pools: PoolSet | None = None,
        requests: tuple[PciRequest, ...] = (),
        mappings: Mappings | None = None,
        *,
        budget: SearchBudget | None = None,
    ) -> Fit:
        """Return the fit of a guest with PCI requests, from the cache if it is there.

        Args:
            pools: The host's PCI pools; None if it has no PCI data; requests are ignored then.
            mappings: The providers that Placement chose for the requests, if any.
            budget: The steps that the request may use on all its hosts; None for the limit of one host only.
        """
        if pools is not None and pools.problem and requests:
            return Fit(None, guest, pools.problem)
        offer = None if pools is None else make_offer(pools, requests, mappings)
        key = (host, guest, limits, offer)
        # get() of an LRUCache hashes the key twice
        with self._lock, suppress(KeyError):
            return self._cache[key]
        result = fit(host, guest, limits, offer, packing=self._packing, budget=budget)
        with self._lock:
            self._made += 1
            if result.is_final:
                self._cache[key] = result
        return result

    @property
    def made(self) -> int:
        """The number of fits that were computed, not read from the cache."""
        return self._made


def usable_candidates(
    fitter: Fitter,
    host: HostTopology | None,
    guest: GuestTopology,
    limits: Limits | None,
    pools: PoolSet | None,
    requests: tuple[PciRequest, ...],
    mappings: Sequence[Mappings | None],
    budget: SearchBudget | None = None,
) -> list[int]:
    """Return the allocation candidates of a host with which the guest fits on its NUMA cells.

    The candidates are tried in order. A page size that one attempt made definite stays so for the next, as in
    nova.

    Args:
        budget: The steps that the request may use on all its hosts. One budget has to be passed to all calls
            for one request; None for the limit of one host only.

    Returns:
        Their positions in ``mappings``, in order.
    """
    usable, current = [], guest
    for index, mapping in enumerate(mappings):
        attempt = fitter.fit(host, current, limits, pools, requests, mapping, budget=budget)
        current = attempt.guest_after or guest
        if len(guest.cells) == 1:
            # Its id and pins do not influence the next attempt, which is found in the cache without them.
            current = guest.with_cells((replace(guest.cells[0], pagesize=current.cells[0].pagesize),))
        if attempt:
            usable.append(index)
    return usable
