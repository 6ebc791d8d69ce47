"""One guest cell on one host cell: memory pages, CPUs, pinning and limits (spec: numa-and-pci 3.6, 3.7, 3.8).

All later results, here and on the compute, depend on which cores the pinned vCPUs get and on how many threads
of each. Threads of one core are used in ascending order.
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
    """The host CPUs of a guest cell.

    Attributes:
        pins: vCPU -> host CPU.
        reserved: Host CPUs for emulator threads, None without any.
    """

    pins: dict[int, int]
    reserved: frozenset[int] | None


def pin_vcpus(cell: HostCell, guest: GuestCell, emulator_cpus: int) -> Pinning | None:
    """Choose host CPUs for the pinned vCPUs of a guest cell and for its emulator threads.

    Args:
        emulator_cpus: Number of host CPUs for emulator threads, 0 or 1.

    Returns:
        The chosen CPUs; None if there are too few on suitable cores.
    """
    if not cell.siblings:
        return None
    if guest.thread_policy == ISOLATE:
        return _on_isolated_cores(cell, guest, emulator_cpus)
    if guest.thread_policy == REQUIRE and not cell.has_threads:
        return None
    return _on_fullest_cores(cell, guest, emulator_cpus)


def _on_isolated_cores(cell: HostCell, guest: GuestCell, emulator_cpus: int) -> Pinning | None:
    whole = _with_threads(cell.free_cores, cell.threads_per_core)
    # With separate sets of dedicated and shared CPUs, shared vCPUs could use the other threads of a core.
    if not whole or (cell.has_threads and cell.pcpuset != cell.cpuset):
        return None
    pins = _assign(1, whole, guest)
    reserved = _reserve(cell.free_cores, pins, emulator_cpus, whole_cores=True)
    if not pins or (emulator_cpus and not reserved):
        return None
    return Pinning(pins, reserved)


def _on_fullest_cores(cell: HostCell, guest: GuestCell, emulator_cpus: int) -> Pinning | None:
    require = guest.thread_policy == REQUIRE
    most = max(map(len, cell.free_cores))
    pins, reserved = None, None
    for threads in range(most, 1 if require else 0, -1):
        pins = _assign(threads, _with_threads(cell.free_cores, threads), guest)
        reserved = _reserve(cell.free_cores, pins, emulator_cpus)
        if pins is not None and (not emulator_cpus or reserved):
            break
    if not pins and not require:
        single = [(thread,) for thread in chain.from_iterable(cell.free_cores)]
        pins = _assign(1, single, guest)
        reserved = _reserve(single, pins, emulator_cpus)
    if pins is None or (emulator_cpus and not reserved):
        return None
    return Pinning(pins, reserved)


def _with_threads(cores: Cores, threads: int) -> Cores:
    return [core for core in cores if len(core) >= threads]


def _assign(threads: int, cores: Cores, guest: GuestCell) -> dict[int, int] | None:
    """Fill cores in order with ``threads`` vCPUs each; None if they are too few, empty if none is pinned."""
    vcpus = sorted(guest.pcpuset)
    if threads * len(cores) < len(vcpus):
        return None
    # Not strict: the last core may have more threads than there are vCPUs left.
    return dict(zip(vcpus, chain.from_iterable(core[:threads] for core in cores), strict=False))


def _reserve(
    cores: Cores, pins: dict[int, int] | None, emulator_cpus: int, *, whole_cores: bool = False
) -> frozenset[int] | None:
    """Return the first free threads that no vCPU uses; with ``whole_cores``, on cores that no vCPU uses."""
    if not emulator_cpus or not pins:
        return None
    pinned = set(pins.values())
    if whole_cores:
        cores = [core for core in cores if pinned.isdisjoint(core)]
    left = [thread for core in cores for thread in core if thread not in pinned]
    return frozenset(left[:emulator_cpus]) or None


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
    """A guest cell during a search.

    Attempts change it, also those that fail, and nothing is undone: the search on the compute is the same,
    and the results have to agree (spec: numa-and-pci 3.2).

    Attributes:
        cell: The guest cell as it was before the search.
        id: Id of the host cell where it was placed last; before that its own id.
        pagesize: As in ``GuestCell``; definite after an attempt that found pages.
        pins: vCPU -> host CPU, of the last attempt that found CPUs.
        reserved: Host CPUs for emulator threads, of the same attempt.
    """

    cell: GuestCell
    id: int
    pagesize: int | None
    pins: dict[int, int] | None
    reserved: frozenset[int] | None

    @classmethod
    def of(cls, cell: GuestCell) -> "GuestCellState":
        """Return the state of a guest cell before a search."""
        return cls(
            cell, cell.id, cell.pagesize, None if cell.pins is None else dict(cell.pins), cell.reserved
        )

    def as_guest_cell(self) -> GuestCell:
        pins = None if self.pins is None else tuple(sorted(self.pins.items()))
        return replace(self.cell, id=self.id, pagesize=self.pagesize, pins=pins, reserved=self.reserved)


def try_host_cell(
    host: HostCell, guest: GuestCellState, limits: Limits | None, emulator_cpus: int
) -> Shortage | None:
    """Try to place a guest cell on a host cell.

    Page size, pins and id of the guest cell change up to the step that fails.

    Args:
        emulator_cpus: Number of host CPUs for emulator threads, 0 or 1.

    Returns:
        What the host cell has too little of; None if the guest cell fits.
    """
    shortage = _choose_page_size(host, guest) or cpu_shortage(host, guest.cell, emulator_cpus)
    if shortage:
        return shortage
    if guest.cell.has_pinned:
        pinning = pin_vcpus(host, guest.cell, emulator_cpus)
        if pinning is None:
            return Shortage.THREADS
        guest.pins = {**(guest.pins or {}), **pinning.pins}
        guest.reserved = pinning.reserved
        guest.id = host.id
    shortage = limit_shortage(host, guest.cell, limits)
    if shortage is None:
        guest.id = host.id
    return shortage


def may_fit(host: HostCell, guest: GuestCell, limits: Limits | None) -> bool:
    """Return False if no attempt can succeed, without trying pinning, emulator threads and page sizes."""
    size = ANY if guest.pagesize is not None and guest.pagesize < 0 else guest.pagesize
    if size is None:
        shortage = memory_shortage(host, guest)
    else:
        shortage = None if page_size(host, size, guest.memory) else Shortage.PAGES
    return not (shortage or cpu_shortage(host, guest, 0) or limit_shortage(host, guest, limits))


def _choose_page_size(host: HostCell, guest: GuestCellState) -> Shortage | None:
    if guest.pagesize is None:
        return memory_shortage(host, guest.cell)
    size = page_size(host, guest.pagesize, guest.cell.memory)
    if size is None:
        return Shortage.PAGES
    guest.pagesize = size
    return None


def page_size(host: HostCell, wanted: int, memory: int) -> int | None:
    """Return the first suitable page size (KiB) with enough free pages; None if there is none.

    Args:
        wanted: A size in KiB, SMALL, LARGE or ANY.
        memory: The memory of the guest cell in MiB.
    """
    offered = list(host.pages_by_size.values())
    return next((pool.size for pool in _suitable(offered, wanted) if pool.holds(memory)), None)


def _suitable(offered: list[PagePool], wanted: int) -> Iterable[PagePool]:
    """Return the pools to try, largest first. The smallest size is never large, even if there is no other."""
    if wanted == SMALL:
        return offered[-1:]
    if wanted == LARGE:
        return offered[:-1]
    return offered if wanted == ANY else [pool for pool in offered if pool.size == wanted]


def memory_shortage(host: HostCell, guest: GuestCell) -> Shortage | None:
    """Check the memory for a guest cell without page size.

    Guests with floating vCPUs are compared with all memory of the cell; the free memory is left to the
    limits.
    """
    smallest = host.smallest_pages
    if smallest:
        enough = smallest.holds(guest.memory) if guest.has_pinned else smallest.could_hold(guest.memory)
        return None if enough else Shortage.PAGES
    available = host.free_memory if guest.has_pinned else host.memory
    return None if available >= guest.memory else Shortage.MEMORY


def cpu_shortage(host: HostCell, guest: GuestCell, emulator_cpus: int) -> Shortage | None:
    """Check the numbers of dedicated and shared CPUs for a guest cell."""
    pinned = len(guest.pcpuset) + emulator_cpus
    if guest.has_pinned and pinned > len(host.pcpuset):
        return Shortage.DEDICATED_CPUS
    if guest.has_floating and len(guest.cpuset) > len(host.cpuset):
        return Shortage.SHARED_CPUS
    if guest.has_pinned and pinned > len(host.free):
        return Shortage.FREE_DEDICATED_CPUS
    return None


def limit_shortage(host: HostCell, guest: GuestCell, limits: Limits | None) -> Shortage | None:
    """Check the limits of overcommitment for a guest cell.

    They hold only for guest cells with floating vCPUs. Usage may be equal to a limit.
    """
    if limits is None or not guest.has_floating:
        return None
    if host.cpu_usage + len(guest.cpuset) > len(host.cpuset) * limits.cpu_ratio:
        return Shortage.CPU_LIMIT
    if host.memory_usage + guest.memory > host.memory * limits.ram_ratio:
        return Shortage.MEMORY_LIMIT
    return None
