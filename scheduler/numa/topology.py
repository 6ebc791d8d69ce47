"""A host's NUMA cells, as values.

A HostTopology is immutable, hashable (the hash is worked out once) and equal to any other with the same
content, so it can stand for all hosts in that state. Memory is in MiB, page sizes in KiB.

spec: numa-and-pci 1.1, 1.2
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


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
