"""The plain values that a cell's database gives: one compute node, one service.

A value that was parsed from a text keeps what could be read, and names in ``problem`` what could not. Each
distinct text is parsed once: an ``Interner`` returns the same value for it while some row uses the value.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
import threading
from typing import Any, Generic, TypeVar
import weakref

Value = TypeVar("Value")


class Parsed(Generic[Value]):
    """What a text of a row parses to; an ``Interner`` refers to it weakly.

    Attributes:
        value: What could be read; immutable, but for the JSON of an object.
        problem: What could not be read; None if all was.
        text: The text itself, where rules compare it.
    """

    __slots__ = ("__weakref__", "problem", "text", "value")

    def __init__(self, value: Value, problem: str | None = None, text: str | None = None) -> None:
        self.value, self.problem, self.text = value, problem, text


class Interner(Generic[Value]):
    """Keeps the parsed value of each distinct text while anything else refers to the value.

    The memory that this takes follows the host table.
    """

    def __init__(self, parse: Callable[[Any], Value]) -> None:
        self._parse = parse
        self._values: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def __call__(self, text: Any) -> Value:
        """Return the value of ``text`` (anything hashable).

        None is parsed again at each call, as is a text for which ``parse`` raises an error.
        """
        # Texts of several KiB, one for each host, would take more memory than their values.
        key = blake2b(text.encode(), digest_size=16).digest() if isinstance(text, str) else text
        value = self._values.get(key)
        if value is None:
            with self._lock:
                value = self._values.get(key)
                if value is None:
                    value = self._parse(text)
                    if value is not None:
                        self._values[key] = value
        return value

    def __len__(self) -> int:
        return len(self._values)


#: Metrics that are stored as fractions and kept as whole numbers.
PERCENT_METRICS = frozenset(
    ("cpu.user.percent", "cpu.kernel.percent", "cpu.idle.percent", "cpu.iowait.percent", "cpu.percent")
)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; ``value`` None where only ``numa_membw_values`` was stored."""

    name: str
    value: int | None
    timestamp: str | None
    source: str | None
    numa_membw_values: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return the metric as monitors report it: percentages of CPUs as fractions."""
        metric = {"name": self.name, "timestamp": self.timestamp, "source": self.source}
        if self.value is None:
            return metric | {"numa_membw_values": self.numa_membw_values}
        return metric | {"value": self.value / 100.0 if self.name in PERCENT_METRICS else self.value}


class MetricList(list[Metric]):
    """The metrics of a host as nova's list object has them."""

    @property
    def objects(self) -> list[Metric]:
        """The metrics."""
        return self

    def to_list(self) -> list[dict[str, Any]]:
        """Return each metric as monitors report it."""
        return [metric.to_dict() for metric in self]


Triples = tuple[tuple[str, str, str], ...]
"""Canonical (architecture, hypervisor type, vm mode), in stored order."""


@dataclass(frozen=True, slots=True)
class ServiceRow:
    """A live row of ``services`` (spec: host-state-and-cells 1.5); times are naive UTC.

    One that is ``alive`` is enabled, and was seen lately when the host table was read; ``last_seen_up`` may
    be older than that.
    """

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
    alive: bool = False


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
    cpu_info: Parsed[Any] = field(default=Parsed(None))
    supported_instances: Parsed[Triples] = field(default=Parsed(()))
    stats: Parsed[dict[str, Any]] = field(default=Parsed({}))
    metrics: Parsed[tuple[Metric, ...]] = field(default=Parsed(()))
    numa_topology: Any = None
    pci_stats: Any = None
    updated: datetime | None = None
