"""The columns of a host table, built from its rows or from the columns of the table before it.

``changed`` always holds the rows that are other objects than in the table before; None stands for all rows.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter, is_not
from typing import Any

import numpy as np

from scheduler.hosts.aggregates import Aggregates
from scheduler.hosts.coordinates import TableRows
from scheduler.hosts.encoded_column import EncodedColumn
from scheduler.hosts.rows import HostRow, ServiceRow

INTEGERS = tuple(
    "free_ram_mb total_usable_ram_mb free_disk_mb total_usable_disk_gb disk_mb_used vcpus_total vcpus_used "
    "num_instances num_io_ops failed_builds hypervisor_version".split()
)
FLOATS = ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")
CODED = ("cpu_info", "supported_instances", "stats", "metrics", "numa_topology", "pci_stats")
TEXTS = {"cell": "cell_uuid", "hypervisor_type": "hypervisor_type", "host_ip": "host_ip"}

Numbers = dict[str, np.ndarray]


def differing(new: Sequence[Any], old: Sequence[Any]) -> TableRows | None:
    """Return the rows at which two sequences hold different objects; None if their lengths differ."""
    if len(new) != len(old):
        return None
    return TableRows(np.flatnonzero(np.fromiter(map(is_not, new, old), bool, len(new))))


def row_numbers(rows: Sequence[HostRow], old: Numbers, changed: TableRows | None) -> Numbers:
    """Return the numeric columns of compute nodes: int64 or float64, shape (hosts,)."""
    kinds: dict[str, Any] = dict.fromkeys(INTEGERS, np.int64) | dict.fromkeys(FLOATS, np.float64)
    selected = _select(rows, changed)
    return {
        name: _updated([getattr(row, name) for row in selected], dtype, old.get(name), changed)
        for name, dtype in kinds.items()
    }


def service_numbers(services: Sequence[ServiceRow], old: Numbers, changed: TableRows | None) -> Numbers:
    """Return the numeric columns of services, shape (hosts,).

    Two are of bool; ``service_seen`` is in seconds since the epoch, NaN for never, infinite while alive.
    """
    selected = _select(services, changed)
    fresh = {
        "service_disabled": np.array([service.disabled for service in selected], bool),
        "service_forced_down": np.array([service.forced_down for service in selected], bool),
        "service_seen": _seconds([service.last_seen_up or service.created_at for service in selected]),
    }
    fresh["service_seen"][np.array([service.alive for service in selected], bool)] = np.inf
    return {name: _updated(values, values.dtype, old.get(name), changed) for name, values in fresh.items()}


def epoch(moment: datetime | None) -> float:
    """Return a naive time in UTC as seconds since the epoch, 0 without one."""
    return moment.replace(tzinfo=UTC).timestamp() if moment else 0.0


def coded_columns(
    rows: Sequence[HostRow], old: Mapping[str, EncodedColumn], changed: TableRows | None
) -> dict[str, EncodedColumn]:
    """Return the dictionary-encoded columns of compute nodes."""
    if changed is None:
        columns = {name: EncodedColumn.of(map(attrgetter(name), rows)) for name in CODED}
        return columns | {
            name: EncodedColumn.of_texts(map(attrgetter(of), rows)) for name, of in TEXTS.items()
        }
    columns = {name: _patched(old[name], name, rows, changed) for name in CODED}
    return columns | {name: _updated_texts(old[name], of, rows, changed) for name, of in TEXTS.items()}


def aggregate_column(rows: Sequence[HostRow], aggregates: Aggregates) -> EncodedColumn:
    """Return the column with the set of aggregates of each host."""
    return EncodedColumn.of(aggregates.of_host(row.host) for row in rows)


def _select(items: Sequence[Any], changed: TableRows | None) -> Sequence[Any]:
    return items if changed is None else [items[row] for row in changed]


def _updated(
    values: Sequence[Any] | np.ndarray, dtype: Any, old: np.ndarray | None, changed: TableRows | None
) -> np.ndarray:
    if old is None or changed is None:
        return np.array(values, dtype=dtype)
    if not len(changed):
        return old
    column = old.copy()
    column[changed] = values
    return column


def _seconds(moments: Sequence[Any]) -> np.ndarray:
    stamps = np.array(moments, dtype="datetime64[us]")
    seconds = stamps.astype(np.int64) / 1e6
    seconds[np.isnat(stamps)] = np.nan
    return seconds


def _patched(old: EncodedColumn, name: str, rows: Sequence[HostRow], changed: TableRows) -> EncodedColumn:
    values = [getattr(rows[row], name) for row in changed]
    other = [index for index, value in enumerate(values) if value is not old[changed[index]]]
    return old.patched(changed[other], [values[index] for index in other]) if other else old


def _updated_texts(
    old: EncodedColumn, attribute: str, rows: Sequence[HostRow], changed: TableRows
) -> EncodedColumn:
    """Return the old column if no text differs. Texts rarely change; the column is then encoded again."""
    if all(getattr(rows[row], attribute) == old[row] for row in changed):
        return old
    return EncodedColumn.of_texts(map(attrgetter(attribute), rows))
