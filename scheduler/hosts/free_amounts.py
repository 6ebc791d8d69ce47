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


def free_amounts(table: HostTable, pending: PendingPlacements, provider: str) -> Mapping[str, float]:
    """Return what a compute node has left by resource class, overcommit included, what is pending counted.

    Empty for a provider that is no compute node. Classes that the table does not have are missing.
    """
    row = table.row_of_uuid.get(provider)
    if row is None:
        return {}
    number = partial(getattr, table.rows[row])
    taken = pending.overlay(table, TableRows(np.array([row])))[:, 0]
    ram, disk, vcpus = taken[: len(GUARDED)].tolist()
    return {
        "MEMORY_MB": free_memory(number) + ram,
        "DISK_GB": (free_disk(number) + disk) / MIB_PER_GIB,
        "VCPU": free_vcpus(number) - vcpus,
    }
