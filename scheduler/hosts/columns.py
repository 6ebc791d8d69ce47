"""The columns of a host table, made anew or from those of the table before it.

``positions`` are those of the rows that are other objects than in the table before; None stands for all.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, is_not
from typing import Any

import numpy as np

from scheduler.hosts.aggregates import Aggregates
from scheduler.hosts.encoded_column import EncodedColumn
from scheduler.hosts.rows import HostRow, ServiceRow

INTEGERS = (
    "free_ram_mb",
    "total_usable_ram_mb",
    "free_disk_mb",
    "total_usable_disk_gb",
    "disk_mb_used",
    "vcpus_total",
    "vcpus_used",
    "num_instances",
    "num_io_ops",
    "failed_builds",
    "hypervisor_version",
)
FLOATS = ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")
CODED = (
    "cpu_info",
    "supported_instances",
    "stats",
    "metrics",
    "numa_topology",
    "pci_stats",
)
TEXTS = {"cell": "cell_uuid", "hypervisor_type": "hypervisor_type", "host_ip": "host_ip"}

Numbers = dict[str, np.ndarray]


def differing(new: Sequence[Any], old: Sequence[Any]) -> np.ndarray | None:
    """Positions at which two sequences hold other objects; None if their lengths differ."""
    if len(new) != len(old):
        return None
    return np.flatnonzero(np.fromiter(map(is_not, new, old), bool, len(new)))


def row_numbers(rows: Sequence[HostRow], old: Numbers, positions: np.ndarray | None) -> Numbers:
    """The numeric columns of compute nodes."""
    kinds = dict.fromkeys(INTEGERS, np.int64) | dict.fromkeys(FLOATS, np.float64)
    return {
        name: _written([getattr(row, name) for row in _at(rows, positions)], dtype, old.get(name), positions)
        for name, dtype in kinds.items()
    }


def service_numbers(services: Sequence[ServiceRow], old: Numbers, positions: np.ndarray | None) -> Numbers:
    """The numeric columns of services: two of bool, and ``service_seen`` in seconds since the epoch."""
    changed = _at(services, positions)
    fresh = {
        "service_disabled": np.array([service.disabled for service in changed], bool),
        "service_forced_down": np.array([service.forced_down for service in changed], bool),
        "service_seen": _seconds([service.last_seen_up or service.created_at for service in changed]),
    }
    return {name: _written(values, values.dtype, old.get(name), positions) for name, values in fresh.items()}


def coded_columns(
    rows: Sequence[HostRow], old: Mapping[str, EncodedColumn], positions: np.ndarray | None
) -> dict[str, EncodedColumn]:
    """The dictionary-encoded columns of compute nodes."""
    if positions is None:
        columns = {name: EncodedColumn.of(map(attrgetter(name), rows)) for name in CODED}
        return columns | {
            name: EncodedColumn.of_texts(map(attrgetter(of), rows)) for name, of in TEXTS.items()
        }
    columns = {name: _patched(old[name], name, rows, positions) for name in CODED}
    return columns | {name: _same_texts(old[name], of, rows, positions) for name, of in TEXTS.items()}


def aggregate_column(rows: Sequence[HostRow], aggregates: Aggregates) -> EncodedColumn:
    """The set of aggregates of each host."""
    return EncodedColumn.of(aggregates.of_host(row.host) for row in rows)


def _at(items: Sequence[Any], positions: np.ndarray | None) -> Sequence[Any]:
    return items if positions is None else [items[position] for position in positions]


def _written(
    values: Iterable[Any], dtype: Any, old: np.ndarray | None, positions: np.ndarray | None
) -> np.ndarray:
    if positions is None:
        return np.array(values, dtype=dtype)
    if not len(positions):
        return old
    column = old.copy()
    column[positions] = values
    return column


def _seconds(moments: Sequence[Any]) -> np.ndarray:
    stamps = np.array(moments, dtype="datetime64[us]")
    seconds = stamps.astype(np.int64) / 1e6
    seconds[np.isnat(stamps)] = np.nan
    return seconds


def _patched(old: EncodedColumn, name: str, rows: Sequence[HostRow], positions: np.ndarray) -> EncodedColumn:
    values = [getattr(rows[position], name) for position in positions]
    other = [index for index, value in enumerate(values) if value is not old[positions[index]]]
    return old.patched(positions[other], [values[index] for index in other]) if other else old


def _same_texts(
    old: EncodedColumn, attribute: str, rows: Sequence[HostRow], positions: np.ndarray
) -> EncodedColumn:
    """These hardly ever change; when one does, the column is made anew."""
    if all(getattr(rows[position], attribute) == old[position] for position in positions):
        return old
    return EncodedColumn.of_texts(map(attrgetter(attribute), rows))
