"""How far a host cell may be overcommitted, and which networks the guest must be near.

spec: numa-and-pci 1.4
"""

from dataclasses import dataclass

from scheduler.numa.topology import Network
from scheduler.pci.wire import field


@dataclass(frozen=True)
class Limits:
    """Allocation ratios of the host for floating vCPUs and for memory, and the guest's networks if known."""

    cpu_ratio: float
    ram_ratio: float
    network: Network | None = None


def network_from(obj: object | None) -> Network | None:
    """The plain value of a NetworkMetadata object; unset members: no networks, no tunnel."""
    if obj is None:
        return None
    return Network(frozenset(field(obj, "physnets") or ()), bool(field(obj, "tunneled")))


def limits_from(obj: object | None) -> Limits | None:
    """The plain value of a NUMATopologyLimits object."""
    if obj is None:
        return None
    network = network_from(field(obj, "network_metadata"))
    return Limits(field(obj, "cpu_allocation_ratio"), field(obj, "ram_allocation_ratio"), network)
