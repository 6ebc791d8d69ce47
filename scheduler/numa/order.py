"""In which order a host's cells are tried.

spec: numa-and-pci 3.4
"""

from scheduler.numa.guest import GuestTopology
from scheduler.numa.topology import HostCell, HostTopology
from scheduler.pci.offer import Offer


def ordered_cells(
    host: HostTopology, guest: GuestTopology, offer: Offer | None, *, packing: bool
) -> tuple[HostCell, ...]:
    """Host cells, most wanted first; ties keep stored order, and so do hosts with as many cells as the guest.

    Free devices come before CPUs, and CPUs before memory. Guests without PCI requests avoid devices, wanted
    or not. ``packing`` fills used cells first ([compute]packing_host_numa_cells_allocation_strategy).
    """
    if len(host.cells) == len(guest.cells):
        return host.cells
    devices = dict(offer.free_by_node) if offer else {}
    toward_devices = -1 if offer and offer.demands else 1
    spread = -1 if packing else 1
    pinned = guest.cells[0].has_pinned

    def wanted(cell: HostCell) -> tuple[int, int, int]:
        used = -len(cell.free) if pinned else cell.cpu_usage
        return toward_devices * devices.get(cell.id, 0), spread * used, -spread * cell.free_memory

    return tuple(sorted(host.cells, key=wanted))
