"""Charging a fitted guest to a host's topology.

spec: numa-and-pci 3.12
"""

from dataclasses import replace

from scheduler.numa.errors import PinConflict
from scheduler.numa.guest import ISOLATE, GuestCell, GuestTopology
from scheduler.numa.topology import HostCell, HostTopology, PagePool


def consume(host: HostTopology, fitted: GuestTopology) -> HostTopology:
    """The host with the guest on it. Raises ``PinConflict`` if the CPUs that it was given are not free."""
    cells = []
    for cell in host.cells:
        charged = cell
        for guest in fitted.cells:
            if guest.id == cell.id:
                charged = _charged(charged, guest)
        cells.append(_floored(charged) if charged is not cell else cell)
    return replace(host, cells=tuple(cells))


def _charged(cell: HostCell, guest: GuestCell) -> HostCell:
    return replace(
        cell,
        cpu_usage=cell.cpu_usage + len(guest.cpuset),
        memory_usage=cell.memory_usage + guest.memory,
        pages=_charged_pages(cell, guest),
        pinned=_charged_pins(cell, guest) if guest.has_pinned else cell.pinned,
    )


def _floored(cell: HostCell) -> HostCell:
    # what a compute reports may be below 0
    return replace(cell, cpu_usage=max(0, cell.cpu_usage), memory_usage=max(0, cell.memory_usage))


def _charged_pages(cell: HostCell, guest: GuestCell) -> tuple[PagePool, ...]:
    """A guest that names no page size lives off the smallest; a cell may report no pages at all."""
    size = guest.pagesize or (cell.smallest_pages.size if cell.smallest_pages else None)
    return tuple(
        replace(pool, used=max(0, pool.used + guest.memory * 1024 // size)) if pool.size == size else pool
        for pool in cell.pages
    )


def _charged_pins(cell: HostCell, guest: GuestCell) -> frozenset[int]:
    cpus = frozenset(cpu for _, cpu in guest.pins or ()) | (guest.reserved or frozenset())
    if guest.thread_policy == ISOLATE:
        cpus = cpus.union(*(core for core in cell.siblings if core & cpus))
    if not cpus <= cell.free:
        taken = ", ".join(map(str, sorted(cpus - cell.free)))
        raise PinConflict(f"CPUs {taken} of NUMA cell {cell.id} are not free")
    return cell.pinned | cpus
