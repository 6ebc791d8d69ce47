"""The checks of NUMATopologyFilter on one host (spec: numa-and-pci 3.13, 4.7, 5.1)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from scheduler.numa.fit import Fitter
from scheduler.numa.guest import DEDICATED, REQUIRE, GuestTopology
from scheduler.numa.search import SearchBudget
from scheduler.numa.topology import HostTopology, Limits
from scheduler.pci.offer import Mappings
from scheduler.pci.pools import PoolSet
from scheduler.pci.requests import PciRequest
from scheduler.pci.support import NO_CANDIDATE, UsableCandidates


def usable_candidates(
    fitter: Fitter,
    host: HostTopology | None,
    guest: GuestTopology,
    limits: Limits | None,
    pools: PoolSet | None,
    requests: tuple[PciRequest, ...],
    mappings: Sequence[Mappings | None],
    budget: SearchBudget | None = None,
) -> UsableCandidates:
    """Return the allocation candidates of a host with which the guest fits on its NUMA cells.

    The candidates are tried in order. A page size that one attempt made definite stays so for the next, as in
    nova. The reason, if no candidate can be used, is that of the first.

    Args:
        budget: The steps that the request may use on all its hosts. One budget has to be passed to all calls
            for one request; None for the limit of one host only.
    """
    fits, current = [], guest
    for mapping in mappings:
        fits.append(fitter.fit(host, current, limits, pools, requests, mapping, budget=budget))
        current = _next_guest(guest, fits[-1].guest_after)
    usable = tuple(index for index, result in enumerate(fits) if result)
    return UsableCandidates(usable, lambda: fits[0].reason if fits else NO_CANDIDATE)


def _next_guest(guest: GuestTopology, after: GuestTopology | None) -> GuestTopology:
    """Return the guest with which the next attempt starts.

    The id and the pins of a single cell do not influence it. They are left as they were, so that the next
    attempt is found in the cache.
    """
    if after is None or len(guest.cells) > 1:
        return after or guest
    return guest.with_cells((replace(guest.cells[0], pagesize=after.cells[0].pagesize),))


def lacks_threads(
    host: HostTopology | None, cpu_policies: Iterable[str | None], thread_policies: Iterable[str | None]
) -> bool:
    """Return whether dedicated CPUs on thread siblings are requested, but the host has no thread siblings.

    The check also holds for guests without NUMA topology, but not for hosts without one.

    Args:
        cpu_policies: The values of hw:cpu_policy of flavor and image, as they are.
        thread_policies: The values of hw:cpu_thread_policy of flavor and image, as they are.
    """
    if host is None or not host.cells or host.has_threads:
        return False
    return DEDICATED in cpu_policies and REQUIRE in thread_policies
