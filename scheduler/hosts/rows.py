"""The plain values that a cell's database gives: one compute node, one service.

A value parsed from a text that is wrong in part holds the rest, and says in ``problem`` what was left out.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scheduler.hosts.interning import Interned


class Stats(Interned):
    """The ``stats`` object of a compute node: text (or null) by key, shared by nodes with equal text."""

    __slots__ = ("data", "problem")

    def __init__(self, data: dict[str, Any], problem: str | None = None) -> None:
        self.data = data
        self.problem = problem


class CpuInfo(Interned):
    """``cpu_info``: the text as stored, and what it parses to (None if it is no JSON)."""

    __slots__ = ("parsed", "text")

    def __init__(self, text: str | None, parsed: Any) -> None:
        self.text = text
        self.parsed = parsed


class Supported(Interned):
    """``supported_instances``: canonical (architecture, hypervisor type, vm mode) triples in stored order."""

    __slots__ = ("problem", "triples")

    def __init__(self, triples: tuple[tuple[str, str, str], ...], problem: str | None = None) -> None:
        self.triples = triples
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; ``value`` None where only ``numa_membw_values`` was stored."""

    name: str
    value: int | None
    timestamp: str | None
    source: str | None
    numa_membw_values: Any = None


class Metrics(Interned):
    """The metrics of a node, in stored order, and the set of their names."""

    __slots__ = ("items", "names", "problem")

    def __init__(self, items: tuple[Metric, ...], problem: str | None = None) -> None:
        self.items = items
        self.problem = problem
        self.names = frozenset(metric.name for metric in items)


@dataclass(frozen=True, slots=True)
class ServiceRow:
    """A live row of ``services`` (spec: host-state-and-cells 1.5); times are naive UTC."""

    id: int
    uuid: str | None
    host: str
    binary: str = "nova-compute"
    topic: str = "compute"
    report_count: int = 0
    disabled: bool = False
    disabled_reason: str | None = None
    last_seen_up: datetime | None = None
    forced_down: bool = False
    version: int | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class HostRow:
    """A live, usable row of ``compute_nodes``, its texts parsed (spec: host-state-and-cells 1.5, 3.2).

    Amounts: MiB for ``*_mb``, GiB for ``*_gb``. ``numa_topology`` is a ``numa.topology.HostTopology`` or
    None, ``pci_stats`` a ``pci.pools.PoolSet``; one that could not be read says so in its ``problem``.
    """

    id: int
    uuid: str
    cell_uuid: str
    host: str
    nodename: str
    free_ram_mb: int = 0
    total_usable_ram_mb: int = 0
    free_disk_mb: int = 0
    total_usable_disk_gb: int = 0
    disk_mb_used: int = 0
    vcpus_total: int = 0
    vcpus_used: int = 0
    num_instances: int = 0
    num_io_ops: int = 0
    failed_builds: int = 0
    hypervisor_version: int = 0
    cpu_allocation_ratio: float = 4.0
    ram_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0
    hypervisor_type: str | None = None
    host_ip: str | None = None
    cpu_info: CpuInfo = field(default=CpuInfo(None, None))
    supported_instances: Supported = field(default=Supported(()))
    stats: Stats = field(default=Stats({}))
    metrics: Metrics = field(default=Metrics(()))
    numa_topology: Any = None
    pci_stats: Any = None
    updated: datetime | None = None
