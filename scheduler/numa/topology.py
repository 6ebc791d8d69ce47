"""A host's NUMA cells, as values.

A HostTopology is immutable, hashable (the hash is worked out once) and equal to any other with the same
content, so it can stand for all hosts in that state. Memory is in MiB, page sizes in KiB.

spec: numa-and-pci 1.1, 1.2

What can be wrong with charging a guest to a host.

How far a host cell may be overcommitted, and which networks the guest must be near.

spec: numa-and-pci 1.4
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from scheduler.errors import BerthError
from scheduler.pci.wire import field


class PinConflict(BerthError):
    """CPUs that a guest is to take are not free, or those that it gives back are not taken."""


@dataclass(frozen=True)
class Network:
    """Physical networks and tunnels: those tied to a host cell, or those that a guest uses."""

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
        """Are there free pages for so many MiB, in whole pages?"""
        return self._serves(memory, self.free)

    def could_hold(self, memory: int) -> bool:
        """The same, as if no page were in use."""
        return self._serves(memory, self.total)

    def _serves(self, memory: int, pages: int) -> bool:
        kib = memory * 1024
        return kib <= pages * self.size and kib % self.size == 0


@dataclass(frozen=True)
class HostCell:
    """One NUMA node. ``cpuset`` serves floating vCPUs, ``pcpuset`` pinned ones; ``pinned`` are taken.

    ``siblings`` are the cores (sets of threads) in stored order, which pinning follows. ``network`` None:
    the cell takes no part in network affinity. ``socket`` None: unknown, or several.
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
    network: Network | None = None
    socket: int | None = None

    @cached_property
    def free(self) -> frozenset[int]:
        """Dedicated CPUs that nobody has."""
        return self.pcpuset - self.pinned

    @cached_property
    def free_cores(self) -> tuple[tuple[int, ...], ...]:
        """The free dedicated threads of each core, ascending; an empty tuple for a core without any."""
        return tuple(tuple(sorted(core & self.free)) for core in self.siblings)

    @cached_property
    def threads_per_core(self) -> int:
        """Threads of the largest core; 0 if no core is known."""
        return max(map(len, self.siblings), default=0)

    @property
    def has_threads(self) -> bool:
        return self.threads_per_core > 1

    @property
    def free_memory(self) -> int:
        return self.memory - self.memory_usage

    @cached_property
    def pages_by_size(self) -> Mapping[int, PagePool]:
        """Page size (KiB) -> pool, largest size first."""
        return {pool.size: pool for pool in sorted(self.pages, key=lambda pool: -pool.size)}

    @cached_property
    def smallest_pages(self) -> PagePool | None:
        return min(self.pages, key=lambda pool: pool.size, default=None)


@dataclass(frozen=True)
class HostTopology:
    """The cells of a host. Without any it has no topology; ``problem`` says why, if it was unreadable."""

    cells: tuple[HostCell, ...] = ()
    problem: str | None = None

    @cached_property
    def _digest(self) -> int:
        return hash((self.cells, self.problem))

    def __hash__(self) -> int:
        return self._digest

    @cached_property
    def has_threads(self) -> bool:
        return any(cell.has_threads for cell in self.cells)

    @cached_property
    def sockets(self) -> tuple[tuple[int, int | None], ...]:
        """(cell id, socket) of each cell."""
        return tuple((cell.id, cell.socket) for cell in self.cells)


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
