"""Enough disk space, as nova judged before Placement did (spec: filters-and-weighers 2.21)."""

from typing import Any

import numpy as np

from scheduler.filters.base import HostFilter
from scheduler.filters.overcommit import OvercommitFilter
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView


class DiskFilter(OvercommitFilter):
    """Disk times ``disk_allocation_ratio`` suffices, and the instance alone does not overcommit the host.

    The root disk counts even if the instance boots from a volume.
    """

    ratio = "disk_allocation_ratio"

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        wanted = _wanted_mb(request)
        total = hosts.numbers("total_usable_disk_gb") * 1024
        limit = total * self.ratios(hosts)
        usable = limit - (total - hosts.numbers("free_disk_mb"))
        passed = (total >= wanted) & (usable >= wanted)
        hosts.set_limits(passed, "disk_gb", limit / 1024)
        return passed

    def reason(self, host: HostState, request: Any) -> str:
        wanted, total = _wanted_mb(request), host.total_usable_disk_gb * 1024
        if total < wanted:
            return f"requested {wanted} MB, host has {total} MB in all"
        usable = total * self.ratio_of(host) - (total - host.free_disk_mb)
        return f"requested {wanted} MB, usable {usable:.0f} MB"


class AggregateDiskFilter(DiskFilter):
    """The same; aggregate metadata ``disk_allocation_ratio`` has precedence."""

    by_aggregate = True


class ExactDiskFilter(HostFilter):
    """The request is for all the free disk space, no more and no less."""

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        passed = hosts.numbers("free_disk_mb") == _wanted_mb(request)
        hosts.set_limits(passed, "disk_gb", hosts.numbers("total_usable_disk_gb"))
        return passed

    def reason(self, host: HostState, request: Any) -> str:
        return f"requested {_wanted_mb(request)} MB, free {host.free_disk_mb} MB"


def _wanted_mb(request: Any) -> int:
    return 1024 * (request.root_gb + request.ephemeral_gb) + request.swap
