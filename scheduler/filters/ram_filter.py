"""Enough memory, as nova judged before Placement did (spec: filters-and-weighers 2.21)."""

from typing import Any

import numpy as np

from scheduler.filters.base import HostFilter
from scheduler.filters.overcommit import OvercommitFilter
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView


class RamFilter(OvercommitFilter):
    """Memory times ``ram_allocation_ratio`` suffices, and the instance alone does not overcommit the host."""

    ratio = "ram_allocation_ratio"

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        total = hosts.numbers("total_usable_ram_mb")
        limit = total * self.ratios(hosts)
        usable = limit - (total - hosts.numbers("free_ram_mb"))
        passed = (total >= request.memory_mb) & (usable >= request.memory_mb)
        hosts.set_limits(passed, "memory_mb", limit)
        return passed

    def reason(self, host: HostState, request: Any) -> str:
        total = host.total_usable_ram_mb
        if total < request.memory_mb:
            return f"requested {request.memory_mb} MB, host has {total} MB in all"
        usable = total * self.ratio_of(host) - (total - host.free_ram_mb)
        return f"requested {request.memory_mb} MB, usable {usable:.0f} MB"


class AggregateRamFilter(RamFilter):
    """The same; aggregate metadata ``ram_allocation_ratio`` has precedence."""

    by_aggregate = True


class ExactRamFilter(HostFilter):
    """The request is for all the free memory, no more and no less."""

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        passed = hosts.numbers("free_ram_mb") == request.memory_mb
        hosts.set_limits(passed, "memory_mb", hosts.numbers("total_usable_ram_mb"))
        return passed

    def reason(self, host: HostState, request: Any) -> str:
        return f"requested {request.memory_mb} MB, free {host.free_ram_mb} MB"
