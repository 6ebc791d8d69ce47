"""One guest cell on one host cell.

spec: numa-and-pci 3.6, 3.7

Which host CPUs the pinned vCPUs of a guest cell get.

The choice of cores, and how many threads of each, is what every later verdict depends on, here and on the
compute. Threads of one core are taken in ascending order.

spec: numa-and-pci 3.8
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain

from scheduler.numa.guest import ANY, ISOLATE, LARGE, REQUIRE, SMALL, GuestCell
from scheduler.numa.topology import HostCell, Limits, PagePool

Cores = Sequence[tuple[int, ...]]


@dataclass(frozen=True)
class Pinning:
    """vCPU -> host CPU, and the host CPUs set aside for emulator threads."""

    pins: dict[int, int]
    reserved: frozenset[int] | None


def pin(cell: HostCell, guest: GuestCell, overhead: int) -> Pinning | None:
    """Place the pinned vCPUs of a guest cell and ``overhead`` (0 or 1) emulator CPUs; None if impossible."""
    if not cell.siblings:
        return None
    if guest.thread_policy == ISOLATE:
        return _on_cores_of_its_own(cell, guest, overhead)
    if guest.thread_policy == REQUIRE and not cell.has_threads:
        return None
    return _on_fullest_cores(cell, guest, overhead)


def _on_cores_of_its_own(cell: HostCell, guest: GuestCell, overhead: int) -> Pinning | None:
    whole = _with_threads(cell.free_cores, cell.threads_per_core)
    # With separate sets of dedicated and shared CPUs the other thread of a core could be anybody's.
    if not whole or (cell.has_threads and cell.pcpuset != cell.cpuset):
        return None
    pins = _assign(1, whole, guest)
    reserved = _reserve(cell.free_cores, pins, overhead, whole_cores=True)
    if not pins or (overhead and not reserved):
        return None
    return Pinning(pins, reserved)


def _on_fullest_cores(cell: HostCell, guest: GuestCell, overhead: int) -> Pinning | None:
    require = guest.thread_policy == REQUIRE
    most = max(map(len, cell.free_cores))
    pins, reserved = None, None
    for threads in range(most, 1 if require else 0, -1):
        pins = _assign(threads, _with_threads(cell.free_cores, threads), guest)
        reserved = _reserve(cell.free_cores, pins, overhead)
        if pins is not None and (not overhead or reserved):
            break
    if not pins and not require:
        single = [(thread,) for thread in chain.from_iterable(cell.free_cores)]
        pins = _assign(1, single, guest)
        reserved = _reserve(single, pins, overhead)
    if pins is None or (overhead and not reserved):
        return None
    return Pinning(pins, reserved)


def _with_threads(cores: Cores, threads: int) -> Cores:
    return [core for core in cores if len(core) >= threads]


def _assign(threads: int, cores: Cores, guest: GuestCell) -> dict[int, int] | None:
    """Fill cores in order with so many vCPUs each; None if they are too few, empty if nothing is pinned."""
    vcpus = sorted(guest.pcpuset)
    if threads * len(cores) < len(vcpus):
        return None
    # The cores hold more threads than there are vCPUs when the last one is not filled.
    return dict(zip(vcpus, chain.from_iterable(core[:threads] for core in cores), strict=False))


def _reserve(
    cores: Cores, pins: dict[int, int] | None, overhead: int, *, whole_cores: bool = False
) -> frozenset[int] | None:
    """The first free threads that the vCPUs left over; with ``whole_cores`` on cores that they do not use."""
    if not overhead or not pins:
        return None
    taken = set(pins.values())
    if whole_cores:
        cores = [core for core in cores if taken.isdisjoint(core)]
    left = [thread for core in cores for thread in core if thread not in taken]
    return frozenset(left[:overhead]) or None


class Shortage(Enum):
    """What a host cell has too little of for a guest cell."""

    PAGES = "pages"
    MEMORY = "memory"
    DEDICATED_CPUS = "dedicated CPUs"
    SHARED_CPUS = "shared CPUs"
    FREE_DEDICATED_CPUS = "free dedicated CPUs"
    THREADS = "threads"
    CPU_LIMIT = "CPU limit"
    MEMORY_LIMIT = "memory limit"


@dataclass
class GuestCellState:
    """A guest cell during a search. What attempts leave here stays, whether they succeed or not.

    The compute's own search is like that, and a verdict here is only worth something if it agrees.
    """

    cell: GuestCell
    id: int
    pagesize: int | None
    pins: dict[int, int] | None
    reserved: frozenset[int] | None

    @classmethod
    def of(cls, cell: GuestCell) -> "GuestCellState":
        return cls(
            cell, cell.id, cell.pagesize, None if cell.pins is None else dict(cell.pins), cell.reserved
        )

    def value(self) -> GuestCell:
        pins = None if self.pins is None else tuple(sorted(self.pins.items()))
        return replace(self.cell, id=self.id, pagesize=self.pagesize, pins=pins, reserved=self.reserved)


def seat_on(host: HostCell, seat: GuestCellState, limits: Limits | None, overhead: int) -> Shortage | None:
    """Try a guest cell on a host cell; what is lacking, or None if it fits.

    ``overhead``: emulator CPUs (0 or 1). Page size, pins and id of the seat change as far as it gets.
    """
    lack = _bind_pages(host, seat) or lack_of_cpus(host, seat.cell, overhead)
    if lack:
        return lack
    if seat.cell.has_pinned:
        found = pin(host, seat.cell, overhead)
        if found is None:
            return Shortage.THREADS
        seat.pins = {**(seat.pins or {}), **found.pins}
        seat.reserved = found.reserved
        seat.id = host.id
    lack = lack_within(host, seat.cell, limits)
    if lack is None:
        seat.id = host.id
    return lack


def may_fit(host: HostCell, guest: GuestCell, limits: Limits | None) -> bool:
    """False only if no attempt can succeed. Pinning, emulator CPUs and choice of page size are left out."""
    size = ANY if guest.pagesize is not None and guest.pagesize < 0 else guest.pagesize
    if size is None:
        lack = lack_of_memory(host, guest)
    else:
        lack = None if page_size(host, size, guest.memory) else Shortage.PAGES
    return not (lack or lack_of_cpus(host, guest, 0) or lack_within(host, guest, limits))


def _bind_pages(host: HostCell, seat: GuestCellState) -> Shortage | None:
    if seat.pagesize is None:
        return lack_of_memory(host, seat.cell)
    size = page_size(host, seat.pagesize, seat.cell.memory)
    if size is None:
        return Shortage.PAGES
    seat.pagesize = size
    return None


def page_size(host: HostCell, wanted: int, memory: int) -> int | None:
    """The page size (KiB) with free pages for so many MiB; ``wanted`` is a size, SMALL, LARGE or ANY."""
    offered = list(host.pages_by_size.values())
    return next((pool.size for pool in _tried(offered, wanted) if pool.holds(memory)), None)


def _tried(offered: list[PagePool], wanted: int) -> Iterable[PagePool]:
    """Largest first; the smallest size never counts as large, even where it is the only one."""
    if wanted == SMALL:
        return offered[-1:]
    if wanted == LARGE:
        return offered[:-1]
    return offered if wanted == ANY else [pool for pool in offered if pool.size == wanted]


def lack_of_memory(host: HostCell, guest: GuestCell) -> Shortage | None:
    """For guests that name no page size. Floating ones share memory; the limit decides on what is free."""
    smallest = host.smallest_pages
    if smallest:
        enough = smallest.holds(guest.memory) if guest.has_pinned else smallest.could_hold(guest.memory)
        return None if enough else Shortage.PAGES
    available = host.free_memory if guest.has_pinned else host.memory
    return None if available >= guest.memory else Shortage.MEMORY


def lack_of_cpus(host: HostCell, guest: GuestCell, overhead: int) -> Shortage | None:
    pinned = len(guest.pcpuset) + overhead
    if guest.has_pinned and pinned > len(host.pcpuset):
        return Shortage.DEDICATED_CPUS
    if guest.has_floating and len(guest.cpuset) > len(host.cpuset):
        return Shortage.SHARED_CPUS
    if guest.has_pinned and pinned > len(host.free):
        return Shortage.FREE_DEDICATED_CPUS
    return None


def lack_within(host: HostCell, guest: GuestCell, limits: Limits | None) -> Shortage | None:
    """Limits bind only guests with floating vCPUs; hitting one exactly is within it."""
    if limits is None or not guest.has_floating:
        return None
    if host.cpu_usage + len(guest.cpuset) > len(host.cpuset) * limits.cpu_ratio:
        return Shortage.CPU_LIMIT
    if host.memory_usage + guest.memory > host.memory * limits.ram_ratio:
        return Shortage.MEMORY_LIMIT
    return None
