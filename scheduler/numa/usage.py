"""Charging a fitted guest to a host's topology, and giving back what it was charged.

spec: numa-and-pci 3.12

What a selection takes from its host for the rest of the request.

spec: numa-and-pci 3.12, 6.2
"""

from dataclasses import dataclass, replace

from scheduler.numa.fit import Fitter
from scheduler.numa.guest import ISOLATE, GuestCell, GuestTopology
from scheduler.numa.topology import HostCell, HostTopology, Limits, PagePool, PinConflict
from scheduler.pci.consumption import ChosenCells
from scheduler.pci.offer import Mappings
from scheduler.pci.pools import PoolSet
from scheduler.pci.requests import PciRequest
from scheduler.pci.support import apply_requests


def consume(host: HostTopology, fitted: GuestTopology) -> HostTopology:
    """The host with the guest on it. Raises ``PinConflict`` if the CPUs that it was given are not free."""
    return _account(host, fitted, 1)


def release(host: HostTopology, fitted: GuestTopology) -> HostTopology:
    """The host without the guest; the inverse of consume. Raises ``PinConflict`` if CPUs are not taken."""
    return _account(host, fitted, -1)


def _account(host: HostTopology, fitted: GuestTopology, sign: int) -> HostTopology:
    cells = []
    for cell in host.cells:
        changed = cell
        for guest in fitted.cells:
            if guest.id == cell.id:
                changed = _account_cell(changed, guest, sign)
        cells.append(_floored(changed) if changed is not cell else cell)
    return replace(host, cells=tuple(cells))


def _account_cell(cell: HostCell, guest: GuestCell, sign: int) -> HostCell:
    return replace(
        cell,
        cpu_usage=cell.cpu_usage + sign * len(guest.cpuset),
        memory_usage=cell.memory_usage + sign * guest.memory,
        pages=_account_pages(cell, guest, sign),
        pinned=_account_pins(cell, guest, sign) if guest.has_pinned else cell.pinned,
    )


def _floored(cell: HostCell) -> HostCell:
    return replace(cell, cpu_usage=max(0, cell.cpu_usage), memory_usage=max(0, cell.memory_usage))


def _account_pages(cell: HostCell, guest: GuestCell, sign: int) -> tuple[PagePool, ...]:
    """A guest that names no page size lives off the smallest; a cell may report no pages at all."""
    size = guest.pagesize or (cell.smallest_pages.size if cell.smallest_pages else None)
    return tuple(
        replace(pool, used=max(0, pool.used + sign * (guest.memory * 1024 // size)))
        if pool.size == size
        else pool
        for pool in cell.pages
    )


def _account_pins(cell: HostCell, guest: GuestCell, sign: int) -> frozenset[int]:
    cpus = frozenset(cpu for _, cpu in guest.pins or ()) | (guest.reserved or frozenset())
    if guest.thread_policy == ISOLATE:
        # nova puts whole cores in place of the CPUs. CPUs of no core of this cell (stale pins) drop out.
        cpus = frozenset().union(*(core for core in cell.siblings if core & cpus))
    available = cell.free if sign > 0 else cell.pinned
    if not cpus <= available:
        wrong = ", ".join(map(str, sorted(cpus - available)))
        raise PinConflict(f"CPUs {wrong} of NUMA cell {cell.id} are not {'free' if sign > 0 else 'taken'}")
    return cell.pinned | cpus if sign > 0 else cell.pinned - cpus


@dataclass(frozen=True)
class Charged:
    """Host and guest after a selection.

    ``guest`` replaces the topology of the request for all further instances, on all hosts. With a ``problem``
    the rest was not charged; the selection stands all the same.
    """

    host: HostTopology | None
    pools: PoolSet | None
    guest: GuestTopology | None
    problem: str = ""


def charge(
    fitter: Fitter,
    host: HostTopology | None,
    guest: GuestTopology | None,
    limits: Limits | None,
    pools: PoolSet | None,
    requests: tuple[PciRequest, ...] | None,
    mappings: Mappings | None,
) -> Charged:
    """Charge one instance. ``requests`` None: the request has no PCI requests object at all.

    ``limits`` are those that the NUMA filter stored for the host, None if it did not run; ``mappings`` the
    claimed candidate's providers by placement group, None if the request has no groups.
    """
    if requests is None or pools is None:
        requests = ()
    before = Charged(host, pools, guest)
    after = _charge_topology(fitter, before, limits, requests, mappings)
    if after.problem or not requests:
        return after
    return _charge_devices(after, requests, mappings)


def _charge_topology(
    fitter: Fitter,
    before: Charged,
    limits: Limits | None,
    requests: tuple[PciRequest, ...],
    mappings: Mappings | None,
) -> Charged:
    # Free devices have a say in the order of cells, even if the guest wants none.
    host, guest = before.host, before.guest
    if host is None or not host.cells or guest is None:
        return before
    found = fitter.fit(host, guest, limits, before.pools, requests, mappings)
    after = replace(before, guest=found.fitted)
    if not found:
        return after
    try:
        return replace(after, host=consume(host, found.fitted))
    except PinConflict as conflict:
        return replace(after, problem=str(conflict))


def _charge_devices(before: Charged, requests: tuple[PciRequest, ...], mappings: Mappings | None) -> Charged:
    # On a host without topology the guest's own cell ids stand in for host cells, as they do in nova.
    cells = before.guest.cell_ids if before.guest else frozenset()
    sockets = before.host.sockets if before.host else None
    applied = apply_requests(before.pools, requests, mappings, ChosenCells(cells, sockets))
    return replace(before, pools=applied.pools, problem=applied.reason)
