"""The NUMA topology of a host and the limits of its use, as plain values (spec: numa-and-pci 1.1, 1.2, 1.4).

Topologies are immutable, hashable (the hash is computed once) and compared by content, so one of them stands
for all hosts in the same state. Memory is in MiB, page sizes are in KiB.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from scheduler.errors import BerthError
from scheduler.pci.wire import field, hash_once


class PinConflict(BerthError):
    """CPUs to which a guest is pinned are not free."""


@dataclass(frozen=True)
class NumaNetworks:
    """Physical networks and tunnels that are tied to a host cell, or that a guest uses."""

    physnets: frozenset[str] = frozenset()
    tunneled: bool = False


@dataclass(frozen=True)
class PagePool:
    """Memory pages of one size (KiB) in a cell; counts are in pages."""

    size: int
    total: int
    used: int = 0
    reserved: int = 0

    @property
    def free(self) -> int:
        return self.total - self.used - self.reserved

    def holds(self, memory: int) -> bool:
        """Return whether ``memory`` MiB are a whole number of pages, and as many are free."""
        return self._serves(memory, self.free)

    def could_hold(self, memory: int) -> bool:
        """Return whether ``memory`` MiB are a whole number of pages, and there are as many, free or not."""
        return self._serves(memory, self.total)

    def _serves(self, memory: int, pages: int) -> bool:
        kib = memory * 1024
        return kib <= pages * self.size and kib % self.size == 0


@dataclass(frozen=True)
class HostCell:
    """One cell of a host.

    Attributes:
        cpuset: CPUs for floating vCPUs (shared CPUs).
        pcpuset: CPUs for pinned vCPUs (dedicated CPUs).
        memory: In MiB.
        cpu_usage: The number of floating vCPUs on it.
        memory_usage: In MiB.
        pinned: Dedicated CPUs in use.
        siblings: The cores, as sets of threads, in stored order, which pinning follows.
        pages: Its memory pages by size.
        network: Its networks; None if it takes no part in network affinity.
        socket: Its CPU socket; None if it is unknown, or if there are several.
    """

    id: int
    cpuset: frozenset[int] = frozenset()
    pcpuset: frozenset[int] = frozenset()
    memory: int = 0
    cpu_usage: int = 0
    memory_usage: int = 0
    pinned: frozenset[int] = frozenset()
    siblings: tuple[frozenset[int], ...] = ()
    pages: tuple[PagePool, ...] = ()
    network: NumaNetworks | None = None
    socket: int | None = None

    @cached_property
    def free(self) -> frozenset[int]:
        return self.pcpuset - self.pinned

    @cached_property
    def free_cores(self) -> tuple[tuple[int, ...], ...]:
        """The free dedicated threads of each core, ascending; an empty tuple for a core without any."""
        return tuple(tuple(sorted(core & self.free)) for core in self.siblings)

    @cached_property
    def threads_per_core(self) -> int:
        """The number of threads of the largest core; 0 if no core is known."""
        return max(map(len, self.siblings), default=0)

    @property
    def has_threads(self) -> bool:
        """Whether a core has more than one thread."""
        return self.threads_per_core > 1

    @property
    def free_memory(self) -> int:
        return self.memory - self.memory_usage

    @cached_property
    def pages_by_size(self) -> Mapping[int, PagePool]:
        """Page size (KiB) -> pages, largest size first."""
        return {pool.size: pool for pool in sorted(self.pages, key=lambda pool: -pool.size)}

    @cached_property
    def smallest_pages(self) -> PagePool | None:
        """The pages of the smallest size, None without pages."""
        return min(self.pages, key=lambda pool: pool.size, default=None)


@hash_once
@dataclass(frozen=True)
class HostTopology:
    """The cells of a host.

    Attributes:
        cells: The cells; empty if the stored topology could not be read.
        problem: Why it could not be read; None if it could.
    """

    cells: tuple[HostCell, ...] = ()
    problem: str | None = None

    @cached_property
    def has_threads(self) -> bool:
        """Whether a core of some cell has more than one thread."""
        return any(cell.has_threads for cell in self.cells)

    @cached_property
    def sockets(self) -> tuple[tuple[int, int | None], ...]:
        """(cell id, socket) of each cell."""
        return tuple((cell.id, cell.socket) for cell in self.cells)


@dataclass(frozen=True)
class Limits:
    """The limits of overcommitment on a host, and the networks of the guest.

    Attributes:
        cpu_ratio: Allocation ratio of floating vCPUs.
        ram_ratio: Allocation ratio of memory.
        network: The guest's networks; None if they do not matter.
    """

    cpu_ratio: float
    ram_ratio: float
    network: NumaNetworks | None = None


def network_from(obj: object | None) -> NumaNetworks | None:
    """Return the plain value of a NetworkMetadata object; unset fields mean no networks and no tunnel."""
    if obj is None:
        return None
    return NumaNetworks(frozenset(field(obj, "physnets") or ()), bool(field(obj, "tunneled")))


def limits_from(obj: object | None) -> Limits | None:
    """Return the plain value of a NUMATopologyLimits object; None for None."""
    if obj is None:
        return None
    network = network_from(field(obj, "network_metadata"))
    return Limits(field(obj, "cpu_allocation_ratio"), field(obj, "ram_allocation_ratio"), network)
