"""Rows of a cell's database as the plain values of ``hosts.rows``.

A row that cannot be read leaves out its own host, never others (spec: host-state-and-cells 3.2-3.6).
"""

from collections.abc import Callable, Mapping
from datetime import datetime
import ipaddress
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.hosts.free_amounts import MIB_PER_GIB
from scheduler.hosts.rows import HostRow, Interner, Metric, Parsed, ServiceRow, Triples
from scheduler.logs import RateLimitedLogger
from scheduler.nova_db import json_columns
from scheduler.nova_db.schema import compute_nodes
from scheduler.numa import loading as numa
from scheduler.pci import pools as pci

LOG = logging.getLogger(f"nova.{__name__}")

NODE_COLUMNS = tuple(
    compute_nodes.c[name]
    for name in (
        "id uuid service_id host hypervisor_hostname vcpus memory_mb local_gb vcpus_used local_gb_used "
        "free_ram_mb free_disk_gb disk_available_least hypervisor_type hypervisor_version cpu_info "
        "host_ip supported_instances metrics pci_stats stats numa_topology cpu_allocation_ratio "
        "ram_allocation_ratio disk_allocation_ratio updated_at"
    ).split()
)

# A larger amount is an error of the compute. A sum of many, in MiB, still fits in the columns of the table.
LARGEST_AMOUNT = 2**48
LARGEST_RATIO = 1e9

# Seconds after which an unreadable value that is still there is reported again.
REPORT_INTERVAL = 86400.0


class RowLoader:
    """Turns rows into values. A text that some host still has is not parsed again.

    One loader serves all cells and any thread.
    """

    def __init__(self, conf: cfg.ConfigOpts, clock: Callable[[], float] = time.monotonic) -> None:
        """Set up the parsers."""
        self._conf = conf
        self._stats: Interner[Parsed[dict[str, Any]]] = Interner(json_columns.parse_stats)
        self._metrics: Interner[Parsed[tuple[Metric, ...]]] = Interner(json_columns.parse_metrics)
        self._supported: Interner[Parsed[Triples]] = Interner(json_columns.parse_supported_instances)
        self._cpu_info: Interner[Parsed[Any]] = Interner(json_columns.parse_cpu_info)
        self._pci: Interner[Any] = Interner(pci.load_pools)
        self._numa: Interner[Any] = Interner(numa.load_topology)
        self._reports = RateLimitedLogger(LOG, REPORT_INTERVAL, clock)

    def node(self, row: sa.Row, cell_uuid: str, services: Mapping[int, ServiceRow]) -> HostRow | None:
        """Load one compute node.

        Args:
            row: A row of ``NODE_COLUMNS``.
            services: The compute services of the cell by id; very old rows name their host through one.

        Returns:
            None for a row that cannot be used, or that its compute has not filled yet.
        """
        host = row.host
        if host is None and row.service_id in services:
            host = services[row.service_id].host
        if not (host and row.hypervisor_hostname and row.uuid):
            self._report(f"number {row.id} of cell {cell_uuid}", "row", "it has no uuid, host or node name")
            return None
        if row.free_disk_gb is None:
            return None  # its compute has not filled the row yet
        try:
            return self._row(row, cell_uuid, host)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a row concerns no other
            self._report(row.hypervisor_hostname, "row", f"it cannot be read: {error!r}")
            return None

    def _row(self, row: sa.Row, cell_uuid: str, host: str) -> HostRow:
        node = row.hypervisor_hostname
        stats = self._usable("stats", self._stats(row.stats), node)
        return HostRow(
            id=row.id,
            uuid=row.uuid,
            cell_uuid=cell_uuid,
            host=host,
            nodename=node,
            free_ram_mb=_whole(row.free_ram_mb),
            total_usable_ram_mb=_whole(row.memory_mb),
            free_disk_mb=MIB_PER_GIB * self._free_disk_gb(row),
            total_usable_disk_gb=_whole(row.local_gb),
            disk_mb_used=MIB_PER_GIB * _whole(row.local_gb_used),
            vcpus_total=_whole(row.vcpus),
            vcpus_used=_whole(row.vcpus_used),
            num_instances=json_columns.counter(stats.value, "num_instances"),
            num_io_ops=json_columns.counter(stats.value, "io_workload"),
            failed_builds=json_columns.counter(stats.value, "failed_builds"),
            hypervisor_version=_whole(row.hypervisor_version),
            hypervisor_type=row.hypervisor_type,
            host_ip=self._address(row.host_ip, node),
            cpu_info=self._cpu_info(row.cpu_info),
            supported_instances=self._usable(
                "supported_instances", self._supported(row.supported_instances), node
            ),
            stats=stats,
            metrics=self._usable("metrics", self._metrics(row.metrics), node),
            numa_topology=self._usable("numa_topology", self._numa(row.numa_topology), node),
            pci_stats=self._usable("pci_stats", self._pci(row.pci_stats), node),
            updated=self._time(row.updated_at, node),
            cpu_allocation_ratio=self._ratio("cpu_allocation_ratio", row.cpu_allocation_ratio),
            ram_allocation_ratio=self._ratio("ram_allocation_ratio", row.ram_allocation_ratio),
            disk_allocation_ratio=self._ratio("disk_allocation_ratio", row.disk_allocation_ratio),
        )

    def _usable(self, column: str, value: Any, node: str) -> Any:
        """Return the value, after a report of what could not be used of its text."""
        if value is not None and value.problem:
            self._report(node, column, f"{column}: {value.problem}")
        return value

    def _free_disk_gb(self, row: sa.Row) -> int:
        """Return ``disk_available_least`` if the driver reports it and it is the smaller amount."""
        free = _whole(row.free_disk_gb)
        if row.disk_available_least is None:
            return free
        least = _whole(row.disk_available_least)
        if least > free:
            node = row.hypervisor_hostname
            self._report(node, "disk_available_least", "disk_available_least is more than free_disk_gb")
        return min(least, free)

    def _ratio(self, name: str, stored: float | None) -> float:
        """Return an allocation ratio; a row without one gets that of the options.

        spec: host-state-and-cells 3.5

        Raises:
            ValueError: It is no number, or out of range.
        """
        ratio = float(stored or self._conf[name] or self._conf[f"initial_{name}"])
        if not abs(ratio) <= LARGEST_RATIO:  # false for NaN, too
            raise ValueError(f"{name} is {ratio}")
        return ratio

    def _time(self, stored: Any, node: str) -> datetime | None:
        """Return a time; drivers return the text of one that is no time, such as MySQL's day zero."""
        if stored is None or isinstance(stored, datetime):
            return stored
        self._report(node, "updated_at", f"updated_at is {stored!r:.50}")
        return None

    def _address(self, stored: Any, node: str) -> str | None:
        """Return the address as text in its usual form; database drivers return texts or address objects."""
        if not stored:
            return None
        try:
            return str(ipaddress.ip_address(str(stored)))
        except ValueError:
            self._report(node, "host_ip", f"host_ip is {stored!r:.50}")
            return None

    def _report(self, node: str, column: str, problem: str) -> None:
        # One kind for all problems of a column: their texts may differ with each report of a compute.
        self._reports.warning((node, column), "Ignoring a broken value of compute node %s: %s", node, problem)


def _whole(stored: Any) -> int:
    """Return a stored amount as a whole number; null is 0.

    Raises:
        ValueError: It is no number, or out of range.
    """
    number = int(stored or 0)
    if abs(number) > LARGEST_AMOUNT:
        raise ValueError(f"a number is beyond {LARGEST_AMOUNT}")
    return number
