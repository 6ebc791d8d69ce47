"""Reading of ``compute_nodes.numa_topology`` (spec: numa-and-pci 1.1, 1.6).

Fields that older computes leave out get defaults. A text with values that make no sense is refused as a
whole: guests with a NUMA topology must not use a host whose topology is not understood.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import orjson

from scheduler.numa.topology import HostCell, HostTopology, NumaNetworks, PagePool
from scheduler.objects import is_envelope
from scheduler.objects.base import Malformed, data_of, integer

# Sets of CPUs, and layouts of cores, that are remembered. All hosts of one model have the same.
MOST_REMEMBERED = 1024

# Kernels number at most 8192 CPUs. The bound keeps a range such as 0-4000000000 from being spelled out.
MAX_CPU = 65535


def load_topology(text: str | None) -> HostTopology | None:
    """Return the stored topology, if unreadable one without cells that says so; None if missing."""
    try:
        return parse_topology(text)
    except Malformed as error:
        return HostTopology(problem=f"NUMA topology cannot be read: {error}")


def parse_topology(text: str | None) -> HostTopology | None:
    """Return the stored topology; None if there is none.

    Raises:
        Malformed: The text cannot be read.
    """
    if not text:
        return None
    try:
        stored = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise Malformed("it is not JSON") from None
    if stored is None:
        return None
    if isinstance(stored, dict) and not is_envelope(stored):
        cells = [_plain_cell(cell) for cell in _list(stored, "cells")]
    else:
        cells = [_cell(_data(cell, "NUMACell")) for cell in _list(_data(stored, "NUMATopology"), "cells")]
    _refuse_overlaps(cells)
    return HostTopology(tuple(cells)) if cells else None


def _data(stored: object, name: str) -> Mapping:
    return data_of(stored, name, _is_known)


def _is_known(version: object) -> bool:
    return isinstance(version, str) and version.partition(".")[0] == "1"


def _list(data: Mapping, key: str) -> list:
    values = data.get(key, [])
    if not isinstance(values, list):
        raise Malformed(f"{key} is not a list")
    return values


def _cell(data: Mapping) -> HostCell:
    return HostCell(
        id=_number(data, "id"),
        cpuset=_cpus(data, "cpuset"),
        pcpuset=_cpus(data, "pcpuset"),
        memory=_number(data, "memory", 0),
        cpu_usage=_number_or_null(data, "cpu_usage") or 0,
        memory_usage=_number_or_null(data, "memory_usage") or 0,
        pinned=_cpus(data, "pinned_cpus"),
        siblings=_cores(_list(data, "siblings")),
        pages=tuple(_pages(_data(pool, "NUMAPagesTopology")) for pool in _list(data, "mempages")),
        network=_network(data.get("network_metadata")),
        socket=_number_or_null(data, "socket"),
    )


def _pages(data: Mapping) -> PagePool:
    size = _number(data, "size_kb")
    if size <= 0:
        raise Malformed(f"size_kb is {size}")
    return PagePool(size, _number(data, "total"), _number(data, "used", 0), _number(data, "reserved", 0))


def _network(stored: object) -> NumaNetworks | None:
    if stored is None:
        return None
    data = _data(stored, "NetworkMetadata")
    physnets = frozenset(str(name) for name in _list(data, "physnets"))
    return NumaNetworks(physnets, bool(data.get("tunneled", False)))


def _plain_cell(data: object) -> HostCell:
    """Return a cell of a text from before versioned objects, without dedicated CPUs, cores and pages."""
    if not isinstance(data, dict):
        raise Malformed("a cell is not a map")
    memory = data.get("mem") or {}
    if not isinstance(memory, dict):
        raise Malformed("mem is not a map")
    return HostCell(
        id=_number(data, "id"),
        cpuset=_cpu_ranges(data.get("cpus") or ""),
        memory=_number(memory, "total", 0),
        memory_usage=_number(memory, "used", 0),
        cpu_usage=_number_or_null(data, "cpu_usage") or 0,
    )


def _cpu_ranges(text: object) -> frozenset[int]:
    """Parse a list of CPUs: ``0-3,^2`` is 0, 1 and 3."""
    if not isinstance(text, str):
        raise Malformed("cpus is not a text")
    wanted: set[int] = set()
    unwanted: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = part.lstrip("^").partition("-")
        start, end = _cpu("cpus", first), _cpu("cpus", last if dash else first)
        (unwanted if part.startswith("^") else wanted).update(range(start, end + 1))
    return frozenset(wanted - unwanted)


def _cpus(data: Mapping, key: str) -> frozenset[int]:
    stored = _list(data, key)
    try:
        return _cpu_set(key, tuple(stored))
    except TypeError:  # a list or a map among the CPUs has no hash
        raise Malformed(f"{key} is not a list of CPUs") from None


def _cores(stored: Sequence[object]) -> tuple[frozenset[int], ...]:
    """Return the threads of each core, without cores that have none."""
    if not all(isinstance(core, list) for core in stored):
        raise Malformed("siblings is not a list of CPU sets")
    try:
        return _core_sets(tuple(map(tuple, stored)))  # type: ignore[arg-type]
    except TypeError:
        raise Malformed("siblings is not a list of CPU sets") from None


@lru_cache(MOST_REMEMBERED)
def _core_sets(stored: tuple[tuple[object, ...], ...]) -> tuple[frozenset[int], ...]:
    cores = tuple(filter(None, (_cpu_set("siblings", core) for core in stored)))
    _refuse_shared("two cores share CPU {}", cores)
    return cores


@lru_cache(MOST_REMEMBERED)
def _cpu_set(key: str, stored: tuple[object, ...]) -> frozenset[int]:
    return frozenset(_cpu(key, value) for value in stored)


def _cpu(key: str, value: object) -> int:
    cpu = integer(key, value)
    if not 0 <= cpu <= MAX_CPU:
        raise Malformed(f"{key} names CPU {cpu}")
    return cpu


def _number(data: Mapping, key: str, default: int | None = None) -> int:
    value = data.get(key, default)
    if value is None:
        raise Malformed(f"{key} is {'null' if key in data else 'missing'}")
    return integer(key, value)


def _number_or_null(data: Mapping, key: str) -> int | None:
    value = data.get(key)
    return None if value is None else integer(key, value)


def _refuse_overlaps(cells: Sequence[HostCell]) -> None:
    """Refuse cells that share CPUs: guests could be pinned to such a CPU twice."""
    if len({cell.id for cell in cells}) < len(cells):
        raise Malformed("two cells have the same id")
    _refuse_shared("two cells share CPU {}", [cell.cpuset | cell.pcpuset for cell in cells])


def _refuse_shared(text: str, sets: Iterable[frozenset[int]]) -> None:
    seen: set[int] = set()
    for cpus in sets:
        if seen & cpus:
            raise Malformed(text.format(min(seen & cpus)))
        seen |= cpus
