"""Why a guest does not fit a host, in one line.

The reason is computed after the search, with fresh guest cells: it says what the host lacks, not how the
search went (spec: numa-and-pci 3.6).
"""

from scheduler.logs import count_text
from scheduler.numa.cell import GuestCellState, Shortage, try_host_cell
from scheduler.numa.guest import ANY, ISOLATE, LARGE, REQUIRE, SMALL, GuestCell, GuestTopology
from scheduler.numa.search import Search, StepLimit
from scheduler.numa.topology import HostCell, Limits
from scheduler.pci.support import explain_refusal

MAX_CELLS_SHOWN = 4

_PAGES = {SMALL: "small pages", LARGE: "large pages", ANY: "pages of any size"}
_CUT_SHORT = {
    StepLimit.HOST: "the search for {cells} reached its limit of {steps} steps for one host",
    StepLimit.REQUEST: (
        "the search for {cells} ended after {steps} steps on this host:"
        " the request has used up the steps for all its hosts"
    ),
}


def explain_failure(failed: Search) -> str:
    """Return one line that says why the guest does not fit."""
    if failed.refused_devices and failed.offer:
        refusal, chosen = failed.refused_devices
        return explain_refusal(refusal, failed.offer, chosen)
    if failed.far_from_networks and not failed.cut_short:
        return "no NUMA cells near all networks of the guest have room for it"
    numbers = range(len(failed.guest.cells))
    needs = [_needs(failed.guest, number) for number in numbers]
    shortages = [[_shortage(failed, host, number) for host in failed.host.cells] for number in numbers]
    if len(set(needs)) == 1 and any(shortages[0]):
        return f"no {_cells(len(needs))} with {needs[0]}{_details(failed, 0, shortages[0])}"
    nowhere = next((number for number in numbers if all(shortages[number])), None)
    if nowhere is not None:
        details = _details(failed, nowhere, shortages[nowhere])
        return f"no NUMA cell for guest cell {nowhere} with {needs[nowhere]}{details}"
    if failed.cut_short:
        return _CUT_SHORT[failed.cut_short].format(
            cells=count_text(len(needs), "guest cell"), steps=failed.steps
        )
    return f"each of the {len(needs)} guest cells fits a NUMA cell of the host, but not all together"


def _shortage(failed: Search, host: HostCell, number: int) -> Shortage | None:
    """Return what a host cell has too little of for guest cell ``number``."""
    emulator_cpus = int(failed.guest.isolated_emulator and number == 0)
    return try_host_cell(host, GuestCellState.of(failed.guest.cells[number]), failed.limits, emulator_cpus)


def _cells(count: int) -> str:
    return {1: "NUMA cell", 2: "NUMA cell pair"}.get(count, f"{count} NUMA cells")


def _needs(guest: GuestTopology, number: int) -> str:
    """Return the needs of a guest cell, as ``8 free dedicated CPUs and 4096 MiB of 2 MiB pages``."""
    cell = guest.cells[number]
    pinned = len(cell.pcpuset) + int(guest.isolated_emulator and number == 0)
    needs = []
    if cell.has_pinned:
        needs.append(f"{count_text(pinned, 'free dedicated CPU')}{_THREADS.get(cell.thread_policy, '')}")
    if cell.cpuset:
        needs.append(count_text(len(cell.cpuset), "shared CPU"))
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


def _details(failed: Search, number: int, shortages: list[Shortage | None]) -> str:
    """Return what each of the first host cells lacks for guest cell ``number``."""
    cell = failed.guest.cells[number]
    lacking = [
        f"cell {host.id}: {_has(host, cell, shortage, failed.limits)}"
        for host, shortage in zip(failed.host.cells, shortages, strict=True)
        if shortage
    ]
    shown = lacking[:MAX_CELLS_SHOWN]
    if len(lacking) > len(shown):
        shown.append(f"and {len(lacking) - len(shown)} more")
    return f" ({'; '.join(shown)})"


def _has(host: HostCell, cell: GuestCell, shortage: Shortage, limits: Limits | None) -> str:
    if shortage is Shortage.PAGES:
        return _free_pages(host, cell)
    cpu_ratio, ram_ratio = (limits.cpu_ratio, limits.ram_ratio) if limits else (0, 0)
    return _HAS[shortage].format(
        host=host,
        free=len(host.free),
        dedicated=len(host.pcpuset),
        shared=len(host.cpuset),
        cpu_ratio=cpu_ratio,
        ram_ratio=ram_ratio,
    )


def _free_pages(host: HostCell, cell: GuestCell) -> str:
    smallest = host.smallest_pages.size if host.smallest_pages else None
    wanted = cell.pagesize or smallest
    pools = [pool for pool in host.pages if wanted < 0 or pool.size == wanted] if wanted else []
    free = [f"{pool.free * pool.size // 1024} MiB in {_size(pool.size)} pages" for pool in pools]
    return f"{' and '.join(free) or 'no such pages'} free"


_THREADS: dict[str | None, str] = {ISOLATE: " on isolated cores", REQUIRE: " on thread siblings"}

_HAS = {
    Shortage.MEMORY: "{host.free_memory} of {host.memory} MiB free",
    Shortage.DEDICATED_CPUS: "{dedicated} dedicated CPUs",
    Shortage.SHARED_CPUS: "{shared} shared CPUs",
    Shortage.FREE_DEDICATED_CPUS: "free dedicated CPUs: {free}",
    Shortage.THREADS: "free dedicated CPUs: {free}, but not on suitable cores",
    Shortage.CPU_LIMIT: "{host.cpu_usage} of {shared} shared CPUs used, allocation ratio {cpu_ratio:g}",
    Shortage.MEMORY_LIMIT: "{host.memory_usage} of {host.memory} MiB used, allocation ratio {ram_ratio:g}",
}
