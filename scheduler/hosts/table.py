"""The host table: one row a compute node, one column a fact, immutable once built.

Numbers are numpy arrays (``INTEGERS``, ``FLOATS``); everything else is dictionary-encoded (``CODED``), so
that a rule runs once per distinct value. Readers share a table without locks; a refresh builds the next one.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from operator import attrgetter

import numpy as np

from scheduler.hosts.aggregates import Aggregates
from scheduler.hosts.coded import Coded
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


class HostTable:
    """An immutable snapshot of all hosts.

    ``rows`` holds a ``HostRow`` a host; ``services`` the ``ServiceRow`` of each; ``numbers`` arrays of shape
    (hosts,) by column name, among them ``service_disabled``, ``service_forced_down`` (bool) and
    ``service_seen`` (seconds since the epoch, UTC; NaN if never); ``coded`` the dictionary-encoded columns,
    among them ``aggregates`` (``AggregateSet``), ``cell`` (uuid) and ``host_ip`` (text or None).
    """

    def __init__(
        self,
        rows: Iterable[HostRow],
        services: Mapping[tuple[str, str], ServiceRow],
        aggregates: Aggregates,
        disabled_cells: frozenset[str] = frozenset(),
        read_at: float = 0.0,
    ) -> None:
        """Build from the rows that have a service, keyed (cell uuid, service host); the others are left out.

        ``read_at``: monotonic seconds at which reading began, for age bounds.
        """
        self.rows = tuple(row for row in rows if (row.cell_uuid, row.host) in services)
        self.services = tuple(services[row.cell_uuid, row.host] for row in self.rows)
        self.aggregates = aggregates
        self.disabled_cells = disabled_cells
        self.read_at = read_at
        self.numbers = _numbers(self.rows) | _service_numbers(self.services)
        self.coded = _coded(self.rows, aggregates)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def row_of_uuid(self) -> dict[str, int]:
        """Row number by compute node uuid (the root resource provider's uuid)."""
        return {row.uuid: number for number, row in enumerate(self.rows)}

    @cached_property
    def rows_of_host(self) -> dict[tuple[str, str], list[int]]:
        """Row numbers by (cell uuid, service host); several nodes for ironic."""
        found: dict[tuple[str, str], list[int]] = {}
        for number, row in enumerate(self.rows):
            found.setdefault((row.cell_uuid, row.host), []).append(number)
        return found

    @cached_property
    def cell_enabled(self) -> np.ndarray:
        """Whether each row's cell takes part in searches that name no cell, shape (hosts,)."""
        return self.coded["cell"].spread(lambda cell: cell not in self.disabled_cells)

    def nodes(self, host: str | None, node: str | None, cell_uuid: str | None = None) -> list[HostRow]:
        """Compute nodes of a service host, by node name, or both; in one cell, or in all enabled ones."""
        return [
            row
            for row in self.rows
            if host in (None, row.host)
            and node in (None, row.nodename)
            and (
                row.cell_uuid not in self.disabled_cells if cell_uuid is None else row.cell_uuid == cell_uuid
            )
        ]

    def find(self, uuids: Iterable[str], cell_uuid: str | None = None) -> np.ndarray:
        """Row numbers of the compute nodes among ``uuids``, in their order; unknown ones drop out.

        A named cell is used even if it is disabled; without one, all enabled cells are (spec:
        host-state-and-cells 2.1).
        """
        index = self.row_of_uuid
        numbers = np.array([index[uuid] for uuid in uuids if uuid in index], dtype=np.int64)
        if cell_uuid is None:
            return numbers[self.cell_enabled[numbers]] if self.disabled_cells else numbers
        return numbers[self.coded["cell"].take(numbers).spread(cell_uuid.__eq__)]


def _numbers(rows: tuple[HostRow, ...]) -> dict[str, np.ndarray]:
    columns = {name: np.array([*map(attrgetter(name), rows)], dtype=np.int64) for name in INTEGERS}
    return columns | {name: np.array([*map(attrgetter(name), rows)], dtype=np.float64) for name in FLOATS}


def _service_numbers(services: tuple[ServiceRow, ...]) -> dict[str, np.ndarray]:
    seen = [service.last_seen_up or service.created_at for service in services]
    moments = np.array(seen, dtype="datetime64[us]")
    seconds = moments.astype(np.int64) / 1e6
    seconds[np.isnat(moments)] = np.nan
    return {
        "service_disabled": np.array([service.disabled for service in services], dtype=bool),
        "service_forced_down": np.array([service.forced_down for service in services], dtype=bool),
        "service_seen": seconds,
    }


def _coded(rows: tuple[HostRow, ...], aggregates: Aggregates) -> dict[str, Coded]:
    columns = {name: Coded.of(map(attrgetter(name), rows)) for name in CODED}
    columns["aggregates"] = Coded.of(aggregates.of_host(row.host) for row in rows)
    columns["cell"] = Coded.of_texts(row.cell_uuid for row in rows)
    columns["hypervisor_type"] = Coded.of_texts(row.hypervisor_type for row in rows)
    columns["host_ip"] = Coded.of_texts(row.host_ip for row in rows)
    return columns
