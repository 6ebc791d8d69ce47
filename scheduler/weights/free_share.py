"""The free share of a host, so that large and small hosts are filled evenly."""

import numpy as np

from scheduler.hosts.free_amounts import MIB_PER_GIB, free_disk, free_memory, free_vcpus
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights.added import AddedWeigher
from scheduler.weights.base import Scorer


class FreeShareWeigher(AddedWeigher):
    """Raw weight: the smallest free share of memory, vCPUs and disk, overcommit included; at least 0.

    What a host has nothing of does not count. ``free_share_weight_multiplier`` (0.0).
    """

    minval = 0.0
    option = "free_share_weight_multiplier"

    def scorer(self, request: SchedulingRequest) -> Scorer:
        return _FreeShares()


class _FreeShares(Scorer):
    def weigh(self, hosts: HostView) -> np.ndarray:
        number = hosts.expected
        disk = number("total_usable_disk_gb") * number("disk_allocation_ratio") * MIB_PER_GIB
        shares = [
            _share(free_memory(number), number("total_usable_ram_mb") * number("ram_allocation_ratio")),
            _share(free_vcpus(number), number("vcpus_total") * number("cpu_allocation_ratio")),
            _share(free_disk(number), disk),
        ]
        return np.minimum.reduce(shares)


def _share(free: np.ndarray, total: np.ndarray) -> np.ndarray:
    return np.divide(free, total, out=np.ones(len(total)), where=total > 0)
