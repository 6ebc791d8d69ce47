"""What the rules of nova's past on memory, CPUs and disk share (spec: filters-and-weighers 2.21).

Enough memory, as nova judged before Placement did (spec: filters-and-weighers 2.21).

Enough disk space, as nova judged before Placement did (spec: filters-and-weighers 2.21).

Enough CPUs, as nova judged before Placement did (spec: filters-and-weighers 2.21).
"""

from typing import Any

import numpy as np
from oslo_log import log as logging

from scheduler.filters.base import HostFilter
from scheduler.hosts.aggregates import AggregateSet
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView


class OvercommitFilter(HostFilter):
    """A rule that stretches an amount by an allocation ratio.

    ``ratio`` names the column; with ``by_aggregate`` the smallest number that a host's aggregates have under
    that metadata key has precedence, if all of them are numbers.
    """

    ratio = ""
    by_aggregate = False

    def ratios(self, hosts: HostView) -> np.ndarray:
        """The ratio of each host, shape (hosts,)."""
        own = hosts.numbers(self.ratio)
        if not self.by_aggregate:
            return own
        stored = hosts.coded("aggregates").spread(
            lambda aggregates: aggregates.smallest(self.ratio, float, np.nan), np.float64
        )
        return np.where(np.isnan(stored), own, stored)

    def ratio_of(self, host: HostState) -> float:
        """The ratio of one host."""
        own = getattr(host, self.ratio)
        return AggregateSet(host.aggregates).smallest(self.ratio, float, own) if self.by_aggregate else own


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


LOG = logging.getLogger(__name__)


class CoreFilter(OvercommitFilter):
    """vCPUs times ``cpu_allocation_ratio`` suffice, and the instance alone does not overcommit the host.

    A host that reports no vCPUs passes: something is wrong with its reports, not with it.
    """

    ratio = "cpu_allocation_ratio"

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        total = hosts.numbers("vcpus_total")
        unknown = total == 0
        if unknown.any():
            LOG.warning("%d hosts report no vCPUs and pass unchecked", np.count_nonzero(unknown))
        limit = total * self.ratios(hosts)
        hosts.set_limits(~unknown & (limit > 0), "vcpu", limit)
        enough = limit - hosts.numbers("vcpus_used") >= request.vcpus
        return unknown | (enough & ((limit <= 0) | (request.vcpus <= total)))

    def reason(self, host: HostState, request: Any) -> str:
        limit = host.vcpus_total * self.ratio_of(host)
        return f"requested {request.vcpus} vCPUs, free {limit - host.vcpus_used:g} of {limit:g}"


class AggregateCoreFilter(CoreFilter):
    """The same; aggregate metadata ``cpu_allocation_ratio`` has precedence."""

    by_aggregate = True


class ExactCoreFilter(HostFilter):
    """The request is for all the free vCPUs, no more and no less, of a host that reports some."""

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        total = hosts.numbers("vcpus_total")
        passed = (total != 0) & (total - hosts.numbers("vcpus_used") == request.vcpus)
        hosts.set_limits(passed, "vcpu", total)
        return passed

    def reason(self, host: HostState, request: Any) -> str:
        return f"requested {request.vcpus} vCPUs, free {host.vcpus_total - host.vcpus_used}"
