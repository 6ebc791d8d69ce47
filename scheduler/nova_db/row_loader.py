"""Rows of a cell's database as the plain values of ``hosts.rows``.

A row that makes no sense costs its own host at most, never others (spec: host-state-and-cells 3.2-3.6).

The JSON texts of compute nodes that become plain values (spec: host-state-and-cells 1.6).

Each function takes a text as stored, or None, and never raises: what means nothing is left out, and named in
the value's ``problem``.
"""

from collections.abc import Callable, Mapping
import ipaddress
import json
import math
from typing import Any

import orjson
from oslo_config import cfg
from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.hosts.rows import CpuInfo, HostRow, Interner, Metric, Metrics, ServiceRow, Stats, Supported
from scheduler.nova_db.schema import compute_nodes
from scheduler.numa import loading as numa
from scheduler.objects import image_props
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
        read_pci: Callable[[str | None], Any] = pci.load_pools,
    ) -> None:
        """The readers never raise: what they cannot read they return as a value with a ``problem``."""
        self._conf = conf
        self._parsers: dict[str, Callable[[str | None], Any]] = {
            "stats": Interner(stats),
            "metrics": Interner(metrics),
            "supported_instances": Interner(supported_instances),
            "pci_stats": Interner(read_pci),
        }
        self._numa = Interner(read_numa)
        self._cpu_info = Interner(cpu_info)
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
            num_instances=counter(stats, "num_instances"),
            num_io_ops=counter(stats, "io_workload"),
            failed_builds=counter(stats, "failed_builds"),
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


HYPERVISORS = frozenset(image_props.HYPERVISORS.split())
MODES = frozenset(image_props.VM_MODES.split())

PERCENT_METRICS = frozenset(
    ("cpu.user.percent", "cpu.kernel.percent", "cpu.idle.percent", "cpu.iowait.percent", "cpu.percent")
)
LARGEST = 2**31 - 1

METRICS = PERCENT_METRICS | {
    "cpu.frequency",
    "cpu.user.time",
    "cpu.kernel.time",
    "cpu.idle.time",
    "cpu.iowait.time",
    "numa.membw.max",
    "numa.membw.current",
}


def stats(text: str | None) -> Stats:
    """``stats``; null reads as an empty object, and a number as its text, as nova has it."""
    data, problem = _parsed(text, dict)
    return Stats({key: str(of) if isinstance(of, int | float) else of for key, of in data.items()}, problem)


def counter(data: dict[str, Any], key: str) -> int:
    """A number among the stats, which are texts as a rule; 0 for what is none, or too large to be one."""
    try:
        number = int(data.get(key) or 0)
    except (TypeError, ValueError, OverflowError):
        return 0
    return number if abs(number) <= LARGEST else 0


def cpu_info(text: str | None) -> CpuInfo:
    """``cpu_info``; text of any kind is normal here."""
    # nova's reader, as flavors may ask for the texts of numbers: orjson rounds large ones and knows no NaN
    try:
        return CpuInfo(text, json.loads(text or "null"))
    except (ValueError, RecursionError):
        return CpuInfo(text, None)


def supported_instances(text: str | None) -> Supported:
    """``supported_instances``: triples under the names that requests use; unknown names cost the triple."""
    return Supported(*_items(text, _triple))


def metrics(text: str | None) -> Metrics:
    """``metrics``: whole numbers, also of percentages, which are stored as fractions."""
    return Metrics(*_items(text, _metric))


def _parsed(text: str | None, kind: type) -> tuple[Any, str | None]:
    """What the text holds, and nothing wrong; or an empty value, and what is wrong."""
    try:
        value = orjson.loads(text or "null")
    except ValueError:
        return kind(), "not JSON"
    if value is None:
        return kind(), None
    return (value, None) if isinstance(value, kind) else (kind(), f"not a JSON {kind.__name__}")


def _items(text: str | None, read: Callable[[Any], Any]) -> tuple[tuple, str | None]:
    stored, problem = _parsed(text, list)
    found = [(item, read(item)) for item in stored]
    unread = [item for item, value in found if value is None]
    if unread:
        problem = f"cannot use {repr(unread[0])[:100]}"
    return tuple(value for _, value in found if value is not None), problem


def _triple(item: Any) -> tuple[str, str, str] | None:
    if not isinstance(item, list) or len(item) != 3 or not all(isinstance(name, str) for name in item):
        return None
    architecture, hypervisor, mode = (name.lower() for name in item)
    architecture = image_props.ARCHITECTURE_ALIASES.get(architecture, architecture)
    hypervisor = image_props.HYPERVISOR_ALIASES.get(hypervisor, hypervisor)
    mode = image_props.VM_MODE_ALIASES.get(mode, mode)
    return (architecture, hypervisor, mode) if hypervisor in HYPERVISORS and mode in MODES else None


def _metric(item: Any) -> Metric | None:
    name, value = (item.get("name"), item.get("value")) if isinstance(item, dict) else (None, None)
    if not isinstance(name, str) or name not in METRICS or not _is_number_or_null(value):
        return None
    if value is not None:
        value = int(value * 100 if name in PERCENT_METRICS else value)
    return Metric(name, value, item.get("timestamp"), item.get("source"), item.get("numa_membw_values"))


def _is_number_or_null(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
