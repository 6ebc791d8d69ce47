"""Networks that an operator tied to host cells.

A physical network that no cell declares is near everywhere; so are tunnels that no cell declares.

spec: numa-and-pci 3.9
"""

from collections.abc import Iterable

from scheduler.numa.limits import Limits
from scheduler.numa.topology import HostCell, HostTopology

# The cells of which a guest must have at least one, for each network that ties it down.
Affinity = tuple[frozenset[int], ...]


def affinity(host: HostTopology, limits: Limits | None) -> Affinity:
    """For each of the guest's networks that some cell declares: the ids of the cells that do."""
    if limits is None or limits.network is None:
        return ()
    near = [_declaring(host, name) for name in sorted(limits.network.physnets)]
    if limits.network.tunneled:
        near.append(_ids(cell for cell in host.cells if cell.network and cell.network.tunneled))
    return tuple(filter(None, near))


def _declaring(host: HostTopology, physnet: str) -> frozenset[int]:
    return _ids(cell for cell in host.cells if cell.network and physnet in cell.network.physnets)


def _ids(cells: Iterable[HostCell]) -> frozenset[int]:
    return frozenset(cell.id for cell in cells)
