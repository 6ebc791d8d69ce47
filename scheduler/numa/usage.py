"""What an instance uses of a host: NUMA cells and PCI devices (spec: numa-and-pci 3.12, 6.2).

``consume`` accounts a fitted guest on a host's topology. ``consume_instance`` accounts an instance on its
selected host for the rest of the request.
"""

from dataclasses import dataclass, replace

from scheduler.numa.fit import Fitter
from scheduler.numa.guest import ISOLATE, GuestCell, GuestTopology
from scheduler.numa.topology import HostCell, HostTopology, Limits, PagePool, PinConflict
from scheduler.pci.consumption import ChosenCells
from scheduler.pci.offer import Mappings
from scheduler.pci.pools import PoolSet
from scheduler.pci.requests import PciRequest
from scheduler.pci.support import served


def consume(host: HostTopology, fitted: GuestTopology) -> HostTopology:
    """Return the host with the guest on it.

    Raises:
        PinConflict: CPUs to which the guest is pinned are not free.
    """
    guests = {guest.id: guest for guest in fitted.cells}
    cells = (_charged(cell, guests[cell.id]) if cell.id in guests else cell for cell in host.cells)
    return replace(host, cells=tuple(cells))


def _charged(cell: HostCell, guest: GuestCell) -> HostCell:
    return replace(
        cell,
        cpu_usage=max(0, cell.cpu_usage + len(guest.cpuset)),
        memory_usage=max(0, cell.memory_usage + guest.memory),
        pages=_pages_with(cell, guest),
        pinned=_pinned_with(cell, guest) if guest.has_pinned else cell.pinned,
    )


def _pages_with(cell: HostCell, guest: GuestCell) -> tuple[PagePool, ...]:
    """Return the pages with the guest on them; without page size it uses the smallest pages, if any."""
    size = guest.pagesize or (cell.smallest_pages.size if cell.smallest_pages else None)
    return tuple(
        replace(pool, used=max(0, pool.used + guest.memory * 1024 // size))
        if size and pool.size == size
        else pool
        for pool in cell.pages
    )


def _pinned_with(cell: HostCell, guest: GuestCell) -> frozenset[int]:
    cpus = frozenset(cpu for _, cpu in guest.pins or ()) | (guest.reserved or frozenset())
    if guest.thread_policy == ISOLATE:
        # nova puts whole cores in place of the CPUs. CPUs of no core of this cell (stale pins) drop out.
        cpus = frozenset[int]().union(*(core for core in cell.siblings if core & cpus))
    if not cpus <= cell.free:
        wrong = ", ".join(map(str, sorted(cpus - cell.free)))
        raise PinConflict(f"CPUs {wrong} of NUMA cell {cell.id} are not free")
    return cell.pinned | cpus


@dataclass(frozen=True)
class InstanceDemand:
    """What an instance needs of the NUMA cells and PCI devices of its host.

    Attributes:
        guest: Its topology; None for none.
        limits: The limits that NUMATopologyFilter stored for the host; None if it did not run.
        requests: Its PCI requests; None if the RequestSpec has no object for them.
        mappings: The claimed candidate's providers by request group; None if the request has no groups.
    """

    guest: GuestTopology | None = None
    limits: Limits | None = None
    requests: tuple[PciRequest, ...] | None = None
    mappings: Mappings | None = None


@dataclass(frozen=True)
class Consumption:
    """Host and guest after an instance was accounted on its selected host.

    Attributes:
        guest: The topology that replaces that of the request for all further instances, on all hosts.
        problem: Why accounting ended early; empty if it is complete. The selection is valid all the same.
    """

    host: HostTopology | None
    pools: PoolSet | None
    guest: GuestTopology | None
    problem: str = ""


def consume_instance(
    fitter: Fitter, host: HostTopology | None, pools: PoolSet | None, demand: InstanceDemand
) -> Consumption:
    """Account one instance on its selected host."""
    requests = () if demand.requests is None or pools is None else demand.requests
    guest = demand.guest
    if host is not None and host.cells and guest is not None:
        # The pools are passed without requests too: free devices decide on the order of the cells.
        guest = fitter.fit(host, guest, demand.limits, pools, requests, demand.mappings).fitted
        try:
            host = consume(host, guest) if guest else host
        except PinConflict as conflict:
            return Consumption(host, pools, guest, str(conflict))
    if pools is None or not requests:
        return Consumption(host, pools, guest)
    # On a host without topology the ids of the guest cells are used as ids of host cells, as in nova.
    chosen = ChosenCells(guest.cell_ids if guest else frozenset(), host.sockets if host else None)
    left, reason = served(pools, requests, demand.mappings, chosen)
    return Consumption(host, pools.with_counts(left), guest, reason)
