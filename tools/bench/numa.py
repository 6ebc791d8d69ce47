"""Measure NUMA and PCI verdicts for one host, in shapes that need much work.

A run uses no cached result of an earlier run. The last measurement, of ten thousand hosts in 50 states, shows
the effect of the cache.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
import itertools

from scheduler.numa.fit import Fitter
from scheduler.numa.guest import LARGE, GuestCell, GuestTopology
from scheduler.numa.topology import HostCell, HostTopology, Limits, Network, PagePool
from scheduler.pci import support
from scheduler.pci.pools import PoolSet, from_flat
from scheduler.pci.requests import PciRequest, make_request
from tools.bench.timing import Measurement, best

_numbers = itertools.count()
CPUS = 8
RATIOS = Limits(4.0, 1.0)
NIC = {"vendor_id": "8086", "product_id": "154c"}


def run(_count: int, runs: int) -> Iterator[Measurement]:
    """Measure each shape; the number of hosts is not used."""
    for name, work in _works():
        yield Measurement("numa", "one host, hard on purpose", name, 0, best(work, runs=runs))


def _works() -> Iterator[tuple[str, Callable[[], object]]]:
    for cells, guests in ((2, 1), (4, 2), (8, 4), (8, 8), (16, 8)):
        for name, case in _shapes(cells, guests):
            yield f"{cells} host cells, {guests} guest cells: {name}", _fit_once(*case)
    pools = _pools(256, 8)
    yield (
        "256 pools: no pool has what is wanted",
        lambda: support.unsupported_reason(pools, _renewed((_nics(1, product_id="1"),))),
    )
    yield (
        "256 pools: 4 requests, the last too large",
        lambda: support.unsupported_reason(pools, _renewed((*(_nics(8),) * 3, _nics(999)))),
    )
    yield "10000 hosts in 50 states", _many_hosts


def _fit_once(*case) -> Callable[[], object]:
    def work() -> None:
        # A new Fitter, new hosts and new requests: no result of an earlier run is in a cache.
        host, guest, limits, pools, requests = case
        requests = _renewed(requests)
        host = replace(host, cells=tuple(replace(cell) for cell in host.cells))
        Fitter().fit(host, guest, limits, pools, requests)

    return work


def _renewed(requests: tuple[PciRequest, ...]) -> tuple[PciRequest, ...]:
    return tuple(replace(request, request_id=f"run-{next(_numbers)}") for request in requests)


def _shapes(cells: int, guests: int) -> Iterator[tuple[str, tuple]]:
    host, none = _host(cells), ()
    alike, mixed = _guest(guests), _guest(guests, growing=True)
    yield "no cell has room", (host, _guest(guests, cpus=CPUS + 1), RATIOS, None, none)
    crowded = HostTopology(tuple(_full(cell) if cell.id >= guests - 1 else cell for cell in host.cells))
    yield "one cell too few has room", (crowded, alike, RATIOS, None, none)
    yield "the last guest cell is too large", (host, _last_too_large(mixed), RATIOS, None, none)
    yield "large pages asked, one cell too few has them", (crowded, _large(mixed), RATIOS, None, none)
    far = Limits(4.0, 1.0, Network(frozenset({"near", "far"})))
    split = HostTopology(tuple(_tied(cell, cells - guests) for cell in host.cells))
    if cells > guests:
        yield "networks that no choice reaches, alike", (split, alike, far, None, none)
        yield "networks that no choice reaches, unlike", (split, mixed, far, None, none)
    for size in (8, 256):
        pools = _pools(size, cells)
        greedy = (_nics(4), replace(_nics(guests * pools.free_devices), numa_policy="legacy"))
        elsewhere = (_nics(size * 4, node=cells), _nics(1))
        yield f"{size} pools, too few devices", (host, alike, RATIOS, pools, greedy)
        far_pools = from_flat([*(pool.flat() for pool in pools.pools), *_on_node(cells, size)])
        yield f"{size} pools, devices far away, alike", (host, alike, RATIOS, far_pools, elsewhere)
        yield f"{size} pools, devices far away, unlike", (host, mixed, RATIOS, far_pools, elsewhere)


def _host(cells: int) -> HostTopology:
    return HostTopology(tuple(_cell(number) for number in range(cells)))


def _cell(number: int) -> HostCell:
    cpus = frozenset(range(number * CPUS, (number + 1) * CPUS))
    cores = tuple(frozenset({cpu, cpu + 1}) for cpu in sorted(cpus)[::2])
    pages = (PagePool(4, 4 << 20), PagePool(2048, 2048), PagePool(1 << 20, 4))
    return HostCell(
        number,
        pcpuset=cpus,
        memory=24 << 10,
        siblings=cores,
        pages=pages,
        network=Network(),
        socket=number // 2,
    )


def _full(cell: HostCell) -> HostCell:
    return replace(cell, pinned=cell.pcpuset, pages=tuple(replace(p, used=p.total) for p in cell.pages))


def _tied(cell: HostCell, last: int) -> HostCell:
    """Give the cell network ``near``; give cell ``last`` network ``far`` instead, and fill it."""
    if cell.id != last:
        return replace(cell, network=Network(frozenset({"near"})))
    return replace(_full(cell), network=Network(frozenset({"far"})))


def _guest(cells: int, cpus: int = 2, *, growing: bool = False) -> GuestTopology:
    return GuestTopology(
        tuple(_guest_cell(number, cpus, number if growing else 0) for number in range(cells))
    )


def _guest_cell(number: int, cpus: int, more: int) -> GuestCell:
    vcpus = frozenset(range(number * 100, number * 100 + cpus))
    return GuestCell(number, pcpuset=vcpus, memory=512 * (more + 1), cpu_policy="dedicated")


def _last_too_large(guest: GuestTopology) -> GuestTopology:
    return guest.with_cells((*guest.cells[:-1], replace(guest.cells[-1], memory=1 << 20)))


def _large(guest: GuestTopology) -> GuestTopology:
    return guest.with_cells(tuple(replace(cell, pagesize=LARGE) for cell in guest.cells))


def _pools(count: int, cells: int) -> PoolSet:
    return from_flat(pool for number in range(count) for pool in _on_node(number % cells, 1, f"lane{number}"))


def _on_node(node: int, count: int, lane: str = "far") -> list[dict]:
    return [{**NIC, "numa_node": node, "count": 4, "dev_type": "type-VF", "lane": lane}] * count


def _nics(count: int, node: int | None = None, **keys: str) -> PciRequest:
    wanted = {**NIC, **keys} if node is None else {**NIC, **keys, "lane": "far"}
    return make_request(
        count, [wanted], alias_name="nic", numa_policy="required" if node is not None else "legacy"
    )


def _many_hosts() -> None:
    states = [
        HostTopology(tuple(replace(c, memory_usage=state) for c in _host(2).cells)) for state in range(50)
    ]
    fitter, guest, pools = Fitter(), _guest(2), _pools(8, 2)
    for number in range(10_000):
        fitter.fit(states[number % 50], guest, RATIOS, pools, (_nics(1),))
    if fitter.made != len(states):
        raise AssertionError(f"{fitter.made} fits were made for {len(states)} states")
