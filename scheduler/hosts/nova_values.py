"""A host's NUMA topology and PCI pools under nova's names, for operators' own rules.

``known`` holds the value that Berth's rules work with. All else is made of it on request; a rule that changes
what it gets does not change the host (spec: filters-and-weighers 1.12, numa-and-pci 1).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from oslo_utils.strutils import bool_from_string

from scheduler.numa.topology import HostCell, HostTopology, NumaNetworks, PagePool
from scheduler.pci import support
from scheduler.pci.consumption import ChosenCells
from scheduler.pci.pools import PoolSet
from scheduler.pci.requests import requests_from


@dataclass
class NumaTopology:
    """The cells of a host; as many as ``len`` says."""

    known: HostTopology

    def __len__(self) -> int:
        return len(self.known.cells)

    @property
    def has_threads(self) -> bool:
        return self.known.has_threads

    @cached_property
    def cells(self) -> list[SimpleNamespace]:
        """Memory in MiB."""
        return [_cell(cell) for cell in self.known.cells]


def _cell(cell: HostCell) -> SimpleNamespace:
    free = set(cell.free)
    return SimpleNamespace(
        id=cell.id,
        cpuset=set(cell.cpuset),
        pcpuset=set(cell.pcpuset),
        pinned_cpus=set(cell.pinned),
        free_pcpus=free,
        avail_pcpus=len(free),
        cpu_usage=cell.cpu_usage,
        siblings=[set(core) for core in cell.siblings],
        free_siblings=[core & free for core in cell.siblings],
        has_threads=cell.has_threads,
        memory=cell.memory,
        memory_usage=cell.memory_usage,
        avail_memory=cell.free_memory,
        mempages=[_pages(pool) for pool in cell.pages],
        network_metadata=_network(cell.network or NumaNetworks()),
        socket=cell.socket,
    )


def _pages(pool: PagePool) -> SimpleNamespace:
    return SimpleNamespace(
        size_kb=pool.size,
        total=pool.total,
        used=pool.used,
        reserved=pool.reserved,
        free=pool.free,
        free_kb=pool.free * pool.size,
        total_kb=pool.total * pool.size,
    )


def _network(network: NumaNetworks) -> SimpleNamespace:
    return SimpleNamespace(physnets=set(network.physnets), tunneled=network.tunneled)


@dataclass
class PciStats:
    """The free PCI devices of a host.

    Attributes:
        known: The pools of free devices.
        sockets: The sockets of the host's cells as ``HostTopology`` has them; None without a topology.
    """

    known: PoolSet
    sockets: tuple[tuple[int, int | None], ...] | None = None

    @property
    def pools(self) -> list[dict[str, Any]]:
        """A map a pool: ``vendor_id``, ``product_id``, ``numa_node``, ``count`` and the operator's tags."""
        return [pool.flat() for pool in self.known.pools]

    def has_remote_managed_device_pools(self) -> bool:
        """Return whether a pool is of devices that another machine manages."""
        return any(bool_from_string(pool.get("remote_managed")) for pool in self.pools)

    def support_requests(self, *args: Any, **kwargs: Any) -> bool:
        """Return whether the devices can serve all requests together; arguments as of ``apply_requests``."""
        return not self._applied(*args, **kwargs)[1]

    def apply_requests(self, *args: Any, **kwargs: Any) -> None:
        """Take the devices for some requests out of these pools; the host keeps its own.

        Args:
            requests: Objects with the fields of InstancePCIRequest.
            provider_mapping: Providers by request group, as an allocation candidate has them.
            numa_cells: The guest's cells, with the ids of host cells.

        Raises:
            ValueError: The pools cannot serve all requests.
        """
        left, reason = self._applied(*args, **kwargs)
        if reason:
            raise ValueError(reason)
        self.known = self.known.with_counts(left)

    def _applied(
        self,
        requests: Sequence[Any],
        provider_mapping: Mapping[str, list[str]] | None = None,
        numa_cells: Iterable[Any] | None = None,
    ) -> tuple[Sequence[int | None], str]:
        chosen = ChosenCells(frozenset(cell.id for cell in numa_cells or ()), self.sockets)
        wanted = requests_from(SimpleNamespace(requests=requests))
        return support.served(self.known, wanted, provider_mapping, chosen)
