"""How much is left on a compute node, as far as the host table and pending placements show.

Placement decides what a claim may take. This is an estimate without a query to it, for what to look at twice.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import numpy as np

from scheduler.hosts.coordinates import TableRows
from scheduler.hosts.pending import GUARDED, PendingPlacements
from scheduler.hosts.table import HostTable

MIB_PER_GIB = 1024

Number = TypeVar("Number", float, np.ndarray)
"""A number of one host, or those of many: float, shape (hosts,)."""


def free_memory(number: Callable[[str], Number]) -> Number:
    """Return the MiB of memory that a compute reports to be left, overcommit included; negative if too few.

    Args:
        number: Returns a number by its name (``hosts.columns``).
    """
    overcommit = number("total_usable_ram_mb") * (number("ram_allocation_ratio") - 1)
    return number("free_ram_mb") + overcommit


def free_vcpus(number: Callable[[str], Number]) -> Number:
    """Return the virtual CPUs that a compute reports to be left; as ``free_memory``."""
    return number("vcpus_total") * number("cpu_allocation_ratio") - number("vcpus_used")


def free_disk(number: Callable[[str], Number]) -> Number:
    """Return the MiB of disk that a compute reports to be left; as ``free_memory``."""
    overcommit = number("total_usable_disk_gb") * MIB_PER_GIB * (number("disk_allocation_ratio") - 1)
    return number("free_disk_mb") + overcommit


class FreeAmounts:
    """What compute nodes have left for instances that are not placed yet, those being claimed counted."""

    def __init__(self, table: HostTable, pending: PendingPlacements) -> None:
        self._table = table
        self._pending = pending

    def __call__(self, provider: str) -> Mapping[str, float]:
        """Return what is left on a compute node by resource class, overcommit included.

        Empty for a provider that is no compute node. Classes that the table does not have are missing.
        """
        row = self._table.row_of_uuid.get(provider)
        if row is None:
            return {}
        host = self._table.rows[row]
        number = partial(getattr, host)
        pending = self._pending.overlay(self._table, TableRows(np.array([row])))[:, 0]
        ram, disk, vcpus = pending[: len(GUARDED)].tolist()
        return {
            "MEMORY_MB": free_memory(number) + ram,
            "DISK_GB": (host.free_disk_mb + disk) / MIB_PER_GIB
            + host.total_usable_disk_gb * (host.disk_allocation_ratio - 1),
            "VCPU": free_vcpus(number) - vcpus,
        }
