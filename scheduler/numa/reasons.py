"""Why a guest does not fit a host, for people.

Worked out after the search, on fresh guest cells: it says what the host lacks, not how the search went.

spec: numa-and-pci 3.6 (the steps that refuse)
"""

from dataclasses import dataclass

from scheduler.numa.cell import Lack, Seat, seat_on
from scheduler.numa.guest import ANY, ISOLATE, LARGE, REQUIRE, SMALL, GuestCell, GuestTopology
from scheduler.numa.limits import Limits
from scheduler.numa.search import Search
from scheduler.numa.topology import HostCell, HostTopology
from scheduler.pci.reasons import explain

MAX_CELLS_SHOWN = 4

_PAGES = {SMALL: "small pages", LARGE: "large pages", ANY: "pages of any size"}


@dataclass(frozen=True)
class Attempt:
    """A search that found nothing."""

    host: HostTopology
    guest: GuestTopology
    limits: Limits | None
    search: Search

    def lack(self, host: HostCell, number: int) -> Lack | None:
        """What host cell ``host`` lacks for guest cell ``number``."""
        overhead = int(self.guest.isolated_emulator and number == 0)
        return seat_on(host, Seat.of(self.guest.cells[number]), self.limits, overhead)


def why_not(attempt: Attempt) -> str:
    """One line on what was missing."""
    search = attempt.search
    if search.refused_devices:
        refusal, place = search.refused_devices
        return explain(refusal, search.offer, place)
    if search.far_from_networks:
        return "no NUMA cells near all networks of the guest have room for it"
    numbers = range(len(attempt.guest.cells))
    lacks = [[attempt.lack(host, number) for host in attempt.host.cells] for number in numbers]
    nowhere = next((number for number in numbers if all(lacks[number])), None)
    if nowhere is not None:
        needs, details = _needs(attempt.guest, nowhere), _details(attempt, lacks[nowhere])
        return f"no NUMA cell{_which(attempt, nowhere)} with {needs}{details}"
    return _not_together(attempt, lacks)


def _not_together(attempt: Attempt, lacks: list[list[Lack | None]]) -> str:
    wanted = len(attempt.guest.cells)
    if attempt.search.gave_up:
        cells = len(attempt.host.cells)
        return f"no arrangement of {wanted} guest cells on {cells} NUMA cells was found within bounded effort"
    if all(row == lacks[0] for row in lacks):
        cells = "NUMA cell pair" if wanted == 2 else f"{wanted} NUMA cells"
        return f"no {cells} with {_needs(attempt.guest, 0)} each{_details(attempt, lacks[0])}"
    return f"the {wanted} guest cells fit NUMA cells of the host one by one, but not together"


def _which(attempt: Attempt, number: int) -> str:
    return f" for guest cell {number}" if len(attempt.guest.cells) > 1 else ""


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


def _details(attempt: Attempt, refused: list[Lack | None]) -> str:
    """What each host cell lacks, for the first few."""
    found = [
        f"cell {host.id}: {_has(host, lack, attempt.limits)}"
        for host, lack in zip(attempt.host.cells, refused, strict=True)
        if lack
    ]
    shown = found[:MAX_CELLS_SHOWN]
    if len(found) > len(shown):
        shown.append(f"and {len(found) - len(shown)} more")
    return f" ({'; '.join(shown)})"


def _has(host: HostCell, lack: Lack, limits: Limits | None) -> str:
    if lack is Lack.PAGES:
        pools = [f"{pool.free * pool.size // 1024} MiB in {_size(pool.size)} pages" for pool in host.pages]
        return f"{' and '.join(pools) or 'no pages'} free"
    if lack is Lack.CPU_LIMIT:
        return (
            f"{host.cpu_usage} of {len(host.cpuset)} shared CPUs used, allocation ratio {limits.cpu_ratio:g}"
        )
    if lack is Lack.MEMORY_LIMIT:
        return f"{host.memory_usage} of {host.memory} MiB used, allocation ratio {limits.ram_ratio:g}"
    return _FIXED[lack].format(host=host, free=len(host.free), all=len(host.pcpuset), shared=len(host.cpuset))


_THREADS = {ISOLATE: " on cores of their own", REQUIRE: " on thread siblings"}

_FIXED = {
    Lack.MEMORY: "{host.free_memory} of {host.memory} MiB free",
    Lack.DEDICATED_CPUS: "{all} dedicated CPUs",
    Lack.SHARED_CPUS: "{shared} shared CPUs",
    Lack.FREE_DEDICATED_CPUS: "{free} dedicated CPUs free",
    Lack.THREADS: "{free} dedicated CPUs free, but not on suitable cores",
}
