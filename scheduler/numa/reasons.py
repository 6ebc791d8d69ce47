"""Why a guest does not fit a host, for people.

Worked out after the search, on fresh guest cells: it says what the host lacks, not how the search went.

spec: numa-and-pci 3.6 (the steps that refuse)
"""

from dataclasses import dataclass

from scheduler.numa.cell import GuestCellState, Shortage, seat_on
from scheduler.numa.guest import ANY, ISOLATE, LARGE, REQUIRE, SMALL, GuestCell, GuestTopology
from scheduler.numa.search import Search
from scheduler.numa.topology import HostCell, HostTopology, Limits
from scheduler.pci.support import explain_refusal

MAX_CELLS_SHOWN = 4

_PAGES = {SMALL: "small pages", LARGE: "large pages", ANY: "pages of any size"}


@dataclass(frozen=True)
class FailedSearch:
    """A search that found nothing."""

    host: HostTopology
    guest: GuestTopology
    limits: Limits | None
    search: Search

    def lack(self, host: HostCell, number: int) -> Shortage | None:
        """What host cell ``host`` lacks for guest cell ``number``."""
        overhead = int(self.guest.isolated_emulator and number == 0)
        return seat_on(host, GuestCellState.of(self.guest.cells[number]), self.limits, overhead)


def why_not(failed: FailedSearch) -> str:
    """One line on what was missing."""
    search = failed.search
    if search.refused_devices:
        refusal, place = search.refused_devices
        return explain_refusal(refusal, search.offer, place)
    if search.far_from_networks and not search.gave_up:
        return "no NUMA cells near all networks of the guest have room for it"
    numbers = range(len(failed.guest.cells))
    needs = [_needs(failed.guest, number) for number in numbers]
    lacks = [[failed.lack(host, number) for host in failed.host.cells] for number in numbers]
    if len(set(needs)) == 1 and any(lacks[0]):
        return f"no {_cells(len(needs))} with {needs[0]}{_details(failed, 0, lacks[0])}"
    nowhere = next((number for number in numbers if all(lacks[number])), None)
    if nowhere is not None:
        details = _details(failed, nowhere, lacks[nowhere])
        return f"no NUMA cell for guest cell {nowhere} with {needs[nowhere]}{details}"
    if search.gave_up:
        return f"no way to seat the {len(needs)} guest cells was found within bounded effort"
    return f"the {len(needs)} guest cells fit NUMA cells of the host one by one, but not together"


def _cells(count: int) -> str:
    return {1: "NUMA cell", 2: "NUMA cell pair"}.get(count, f"{count} NUMA cells")


def _needs(guest: GuestTopology, number: int) -> str:
    """``8 free dedicated CPUs and 4096 MiB of 2 MiB pages``."""
    cell = guest.cells[number]
    pinned = len(cell.pcpuset) + int(guest.isolated_emulator and number == 0)
    needs = []
    if cell.has_pinned:
        needs.append(f"{pinned} free dedicated CPUs{_THREADS.get(cell.thread_policy, '')}")
    if cell.cpuset:
        needs.append(f"{len(cell.cpuset)} shared CPUs")
    needs.append(f"{cell.memory} MiB{_of_pages(cell)}")
    return " and ".join(needs)


def _of_pages(cell: GuestCell) -> str:
    if cell.pagesize is None:
        return ""
    return " of " + (_PAGES.get(cell.pagesize) or f"{_size(cell.pagesize)} pages")


def _size(kib: int) -> str:
    for unit, factor in (("GiB", 1024 * 1024), ("MiB", 1024)):
        if kib % factor == 0:
            return f"{kib // factor} {unit}"
    return f"{kib} KiB"


def _details(failed: FailedSearch, number: int, refused: list[Shortage | None]) -> str:
    """What each host cell lacks for guest cell ``number``, for the first few."""
    cell = failed.guest.cells[number]
    found = [
        f"cell {host.id}: {_has(host, cell, lack, failed.limits)}"
        for host, lack in zip(failed.host.cells, refused, strict=True)
        if lack
    ]
    shown = found[:MAX_CELLS_SHOWN]
    if len(found) > len(shown):
        shown.append(f"and {len(found) - len(shown)} more")
    return f" ({'; '.join(shown)})"


def _has(host: HostCell, cell: GuestCell, lack: Shortage, limits: Limits | None) -> str:
    if lack is Shortage.PAGES:
        return _free_pages(host, cell)
    if lack is Shortage.CPU_LIMIT:
        return (
            f"{host.cpu_usage} of {len(host.cpuset)} shared CPUs used, allocation ratio {limits.cpu_ratio:g}"
        )
    if lack is Shortage.MEMORY_LIMIT:
        return f"{host.memory_usage} of {host.memory} MiB used, allocation ratio {limits.ram_ratio:g}"
    return _FIXED[lack].format(host=host, free=len(host.free), all=len(host.pcpuset), shared=len(host.cpuset))


def _free_pages(host: HostCell, cell: GuestCell) -> str:
    smallest = host.smallest_pages.size if host.smallest_pages else None
    wanted = cell.pagesize or smallest
    pools = [pool for pool in host.pages if wanted < 0 or pool.size == wanted] if wanted else []
    free = [f"{pool.free * pool.size // 1024} MiB in {_size(pool.size)} pages" for pool in pools]
    return f"{' and '.join(free) or 'no such pages'} free"


_THREADS = {ISOLATE: " on cores of their own", REQUIRE: " on thread siblings"}

_FIXED = {
    Shortage.MEMORY: "{host.free_memory} of {host.memory} MiB free",
    Shortage.DEDICATED_CPUS: "{all} dedicated CPUs",
    Shortage.SHARED_CPUS: "{shared} shared CPUs",
    Shortage.FREE_DEDICATED_CPUS: "{free} dedicated CPUs free",
    Shortage.THREADS: "{free} dedicated CPUs free, but not on suitable cores",
}
