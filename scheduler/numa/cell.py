"""One guest cell on one host cell.

spec: numa-and-pci 3.6, 3.7
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from scheduler.numa.guest import ANY, LARGE, SMALL, GuestCell
from scheduler.numa.limits import Limits
from scheduler.numa.pinning import pin
from scheduler.numa.topology import HostCell, PagePool


class Lack(Enum):
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
class Seat:
    """A guest cell during a search. What attempts leave here stays, whether they succeed or not.

    The compute's own search is like that, and a verdict here is only worth something if it agrees.
    """

    cell: GuestCell
    id: int
    pagesize: int | None
    pins: dict[int, int] | None
    reserved: frozenset[int] | None

    @classmethod
    def of(cls, cell: GuestCell) -> "Seat":
        return cls(
            cell, cell.id, cell.pagesize, None if cell.pins is None else dict(cell.pins), cell.reserved
        )

    def value(self) -> GuestCell:
        pins = None if self.pins is None else tuple(sorted(self.pins.items()))
        return replace(self.cell, id=self.id, pagesize=self.pagesize, pins=pins, reserved=self.reserved)


def seat_on(host: HostCell, seat: Seat, limits: Limits | None, overhead: int) -> Lack | None:
    """Try a guest cell on a host cell; what is lacking, or None if it fits.

    ``overhead``: emulator CPUs (0 or 1). Page size, pins and id of the seat change as far as it gets.
    """
    lack = _bind_pages(host, seat) or lack_of_cpus(host, seat.cell, overhead)
    if lack:
        return lack
    if seat.cell.has_pinned:
        found = pin(host, seat.cell, overhead)
        if found is None:
            return Lack.THREADS
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
        lack = None if page_size(host, size, guest.memory) else Lack.PAGES
    return not (lack or lack_of_cpus(host, guest, 0) or lack_within(host, guest, limits))


def _bind_pages(host: HostCell, seat: Seat) -> Lack | None:
    if seat.pagesize is None:
        return lack_of_memory(host, seat.cell)
    size = page_size(host, seat.pagesize, seat.cell.memory)
    if size is None:
        return Lack.PAGES
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


def lack_of_memory(host: HostCell, guest: GuestCell) -> Lack | None:
    """For guests that name no page size. Floating ones share memory; the limit decides on what is free."""
    smallest = host.smallest_pages
    if smallest:
        enough = smallest.holds(guest.memory) if guest.has_pinned else smallest.could_hold(guest.memory)
        return None if enough else Lack.PAGES
    available = host.free_memory if guest.has_pinned else host.memory
    return None if available >= guest.memory else Lack.MEMORY


def lack_of_cpus(host: HostCell, guest: GuestCell, overhead: int) -> Lack | None:
    pinned = len(guest.pcpuset) + overhead
    if guest.has_pinned and pinned > len(host.pcpuset):
        return Lack.DEDICATED_CPUS
    if guest.has_floating and len(guest.cpuset) > len(host.cpuset):
        return Lack.SHARED_CPUS
    if guest.has_pinned and pinned > len(host.free):
        return Lack.FREE_DEDICATED_CPUS
    return None


def lack_within(host: HostCell, guest: GuestCell, limits: Limits | None) -> Lack | None:
    """Limits bind only guests with floating vCPUs; hitting one exactly is within it."""
    if limits is None or not guest.has_floating:
        return None
    if host.cpu_usage + len(guest.cpuset) > len(host.cpuset) * limits.cpu_ratio:
        return Lack.CPU_LIMIT
    if host.memory_usage + guest.memory > host.memory * limits.ram_ratio:
        return Lack.MEMORY_LIMIT
    return None
