"""Rows of a cell's database as the plain values of ``hosts.rows``.

A row that makes no sense costs its own host at most, never others (spec: host-state-and-cells 3.2 to 3.6).
"""

from collections.abc import Callable, Mapping
import ipaddress
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.hosts import texts
from scheduler.hosts.interning import Interner
from scheduler.hosts.rows import HostRow, ServiceRow
from scheduler.hosts.tables import compute_nodes
from scheduler.numa import loading as numa
from scheduler.pci import pools as pci

LOG = logging.getLogger(__name__)

NODE_COLUMNS = tuple(
    compute_nodes.c[name]
    for name in (
        "id",
        "uuid",
        "service_id",
        "host",
        "hypervisor_hostname",
        "vcpus",
        "memory_mb",
        "local_gb",
        "vcpus_used",
        "local_gb_used",
        "free_ram_mb",
        "free_disk_gb",
        "disk_available_least",
        "hypervisor_type",
        "hypervisor_version",
        "cpu_info",
        "host_ip",
        "supported_instances",
        "metrics",
        "pci_stats",
        "stats",
        "numa_topology",
        "cpu_allocation_ratio",
        "ram_allocation_ratio",
        "disk_allocation_ratio",
        "updated_at",
    )
)

MIB_PER_GIB = 1024


class RowLoader:
    """Turns rows into values; a text that some host still has is not parsed again.

    One loader serves all cells and any thread.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        read_numa: Callable[[str | None], Any] = numa.read,
        read_pci: Callable[[str | None], Any] = pci.read,
    ) -> None:
        """The readers never raise: what they cannot read they return as a value with a ``problem``."""
        self._conf = conf
        self._parsers: dict[str, Callable[[str | None], Any]] = {
            "stats": Interner(texts.stats),
            "metrics": Interner(texts.metrics),
            "supported_instances": Interner(texts.supported_instances),
            "pci_stats": Interner(read_pci),
        }
        self._numa = Interner(read_numa)
        self._cpu_info = Interner(texts.cpu_info)
        self._complaints: set[tuple[str, str]] = set()

    def node(self, row: sa.Row, cell_uuid: str, services: Mapping[int, ServiceRow]) -> HostRow | None:
        """A row of ``NODE_COLUMNS``; None for one that cannot be used, or not yet.

        ``services`` by id: very old rows name their host through one.
        """
        host = row.host
        if host is None and row.service_id in services:
            host = services[row.service_id].host
        if not (host and row.hypervisor_hostname and row.uuid):
            self._complain(f"number {row.id} of cell {cell_uuid}", "it has no uuid, host or node name")
            return None
        if row.free_disk_gb is None:
            return None  # its compute has not taken stock yet
        try:
            return self._row(row, cell_uuid, host)
        except (TypeError, ValueError, OverflowError) as error:
            self._complain(row.hypervisor_hostname, f"it cannot be read: {error}")
            return None

    def _row(self, row: sa.Row, cell_uuid: str, host: str) -> HostRow:
        node = row.hypervisor_hostname
        parsed = {name: self._parse(name, getattr(row, name), node) for name in self._parsers}
        stats = parsed["stats"].data
        return HostRow(
            id=row.id,
            uuid=row.uuid,
            cell_uuid=cell_uuid,
            host=host,
            nodename=node,
            free_ram_mb=int(row.free_ram_mb or 0),
            total_usable_ram_mb=int(row.memory_mb or 0),
            free_disk_mb=MIB_PER_GIB * self._free_disk_gb(row),
            total_usable_disk_gb=int(row.local_gb or 0),
            disk_mb_used=MIB_PER_GIB * int(row.local_gb_used or 0),
            vcpus_total=int(row.vcpus or 0),
            vcpus_used=int(row.vcpus_used or 0),
            num_instances=texts.counter(stats, "num_instances"),
            num_io_ops=texts.counter(stats, "io_workload"),
            failed_builds=texts.counter(stats, "failed_builds"),
            hypervisor_version=int(row.hypervisor_version or 0),
            hypervisor_type=row.hypervisor_type,
            host_ip=self._address(row.host_ip, node),
            cpu_info=self._cpu_info(row.cpu_info),
            numa_topology=self._topology(row.numa_topology, node),
            updated=row.updated_at,
            **self._ratios(row),
            **parsed,
        )

    def _parse(self, column: str, text: str | None, node: str) -> Any:
        value = self._parsers[column](text)
        if value.problem:
            self._complain(node, f"{column}: {value.problem}")
        return value

    def _topology(self, text: str | None, node: str) -> Any:
        topology = self._numa(text)
        if topology is not None and topology.problem:
            self._complain(node, topology.problem)
        return topology

    def _free_disk_gb(self, row: sa.Row) -> int:
        """What the driver says is really free, if it says so and that is less."""
        free = int(row.free_disk_gb)
        if row.disk_available_least is None:
            return free
        least = int(row.disk_available_least)
        if least > free:
            self._complain(row.hypervisor_hostname, "disk_available_least is more than free_disk_gb")
        return min(least, free)

    def _ratios(self, row: sa.Row) -> dict[str, float]:
        """Allocation ratios; a row without gets this scheduler's (spec: host-state-and-cells 3.5)."""
        names = [f"{resource}_allocation_ratio" for resource in ("cpu", "ram", "disk")]
        return {
            name: float(getattr(row, name) or self._conf[name] or self._conf[f"initial_{name}"])
            for name in names
        }

    def _address(self, stored: Any, node: str) -> str | None:
        """The address as text in its usual form; drivers give texts or address objects."""
        if not stored:
            return None
        try:
            return str(ipaddress.ip_address(str(stored)))
        except ValueError:
            self._complain(node, f"host_ip is {stored!r:.50}")
            return None

    def _complain(self, node: str, cause: str) -> None:
        """Once for each node and cause."""
        if (node, cause) not in self._complaints:
            self._complaints.add((node, cause))
            LOG.warning("Compute node %s: %s", node, cause)
