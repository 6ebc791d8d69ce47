"""Charging a fitted guest to a host's topology, and giving back what it was charged.

spec: numa-and-pci 3.12
"""

from dataclasses import replace

from scheduler.numa.errors import PinConflict
from scheduler.numa.guest import ISOLATE, GuestCell, GuestTopology
from scheduler.numa.topology import HostCell, HostTopology, PagePool


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
        cpus = cpus.union(*(core for core in cell.siblings if core & cpus))
    available = cell.free if sign > 0 else cell.pinned
    if not cpus <= available:
        wrong = ", ".join(map(str, sorted(cpus - available)))
        raise PinConflict(f"CPUs {wrong} of NUMA cell {cell.id} are not {'free' if sign > 0 else 'taken'}")
    return cell.pinned | cpus if sign > 0 else cell.pinned - cpus
