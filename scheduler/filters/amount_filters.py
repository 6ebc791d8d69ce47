"""Enough memory, disk and CPUs, as nova judged before Placement did (spec: filters-and-weighers 2.21).

Each amount has three rules: with the host's own allocation ratio, with the ratio that its aggregates name,
and one for instances that take all that is free. A host that passes gets a limit, which the compute node
checks again.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from oslo_config import cfg
from oslo_log import log as logging

from scheduler.filters.base import HostFilter, Judge
from scheduler.hosts.host_state import HostState, aggregate_set
from scheduler.hosts.view import HostView
from scheduler.logs import RateLimitedLogger
from scheduler.objects import RequestSpec
from scheduler.request.scheduling_request import SchedulingRequest

LOG = logging.getLogger(f"nova.{__name__}")


def _ratios(hosts: HostView, column: str, by_aggregate: bool) -> np.ndarray:
    """Return the ratios of a column, or the smallest number that a host's aggregates have under its name.

    The column counts too where one of their values is no number.
    """
    own = hosts.numbers(column)
    if not by_aggregate:
        return own
    stored = hosts.coded("aggregates").spread(
        lambda aggregates: aggregates.smallest(column, float, np.nan), np.float64
    )
    return np.where(np.isnan(stored), own, stored)


def _ratio(host: HostState, column: str, by_aggregate: bool) -> float:
    """Return the same for one host."""
    own = getattr(host, column)
    return aggregate_set(host).smallest(column, float, own) if by_aggregate else own


class _Amount(NamedTuple):
    """Memory or disk: the columns of the total (in ``unit`` MiB), the free MiB and the allocation ratio.

    ``limit`` is the name of its limit, ``wanted`` returns the MiB that a request wants.
    """

    total: str
    free: str
    unit: int
    ratio: str
    limit: str
    wanted: Callable[[RequestSpec], int]


def _disk_mb(spec: RequestSpec) -> int:
    wanted: int = 1024 * (spec.root_gb + spec.ephemeral_gb) + spec.swap
    return wanted


RAM = _Amount(
    "total_usable_ram_mb", "free_ram_mb", 1, "ram_allocation_ratio", "memory_mb", lambda spec: spec.memory_mb
)
DISK = _Amount("total_usable_disk_gb", "free_disk_mb", 1024, "disk_allocation_ratio", "disk_gb", _disk_mb)


class RamFilter(HostFilter):
    """Memory times ``ram_allocation_ratio`` suffices, and the instance alone does not overcommit the host."""

    amount = RAM
    by_aggregate = False

    def prepare(self, request: SchedulingRequest) -> Judge:
        amount, wanted = self.amount, self.amount.wanted(request.spec)

        def passes(hosts: HostView) -> np.ndarray:
            total = hosts.numbers(amount.total) * amount.unit
            limit = total * _ratios(hosts, amount.ratio, self.by_aggregate)
            usable = limit - (total - hosts.numbers(amount.free))
            passed = (total >= wanted) & (usable >= wanted)
            hosts.set_limits(passed, amount.limit, limit / amount.unit)
            return passed

        def reason(host: HostState) -> str:
            total = getattr(host, amount.total) * amount.unit
            ratio = _ratio(host, amount.ratio, self.by_aggregate)
            usable = total * ratio - (total - getattr(host, amount.free))
            if total < wanted:
                return f"requested {wanted} MB, host has {total} MB in all"
            return f"requested {wanted} MB, usable {usable:.0f} MB"

        return Judge(passes, reason)


class AggregateRamFilter(RamFilter):
    """The same; aggregate metadata ``ram_allocation_ratio`` has precedence."""

    by_aggregate = True


class DiskFilter(RamFilter):
    """Disk times ``disk_allocation_ratio`` suffices, and the instance alone does not overcommit the host.

    The root disk counts even if the instance boots from a volume.
    """

    amount = DISK


class AggregateDiskFilter(DiskFilter):
    """The same; aggregate metadata ``disk_allocation_ratio`` has precedence."""

    by_aggregate = True


class ExactRamFilter(HostFilter):
    """The request is for all the free memory, no more and no less."""

    amount = RAM

    def prepare(self, request: SchedulingRequest) -> Judge:
        amount, wanted = self.amount, self.amount.wanted(request.spec)

        def passes(hosts: HostView) -> np.ndarray:
            passed = hosts.numbers(amount.free) == wanted
            hosts.set_limits(passed, amount.limit, hosts.numbers(amount.total))
            return passed

        return Judge(passes, lambda host: f"requested {wanted} MB, free {getattr(host, amount.free)} MB")


class ExactDiskFilter(ExactRamFilter):
    """The request is for all the free disk space, no more and no less."""

    amount = DISK


class CoreFilter(HostFilter):
    """vCPUs times ``cpu_allocation_ratio`` suffice, and the instance alone does not overcommit the host.

    A host that reports no vCPUs passes: something is wrong with its reports, not with it.
    """

    by_aggregate = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._warnings = RateLimitedLogger(LOG)

    def prepare(self, request: SchedulingRequest) -> Judge:
        wanted = request.spec.vcpus

        def passes(hosts: HostView) -> np.ndarray:
            total = hosts.numbers("vcpus_total")
            unknown = total == 0
            if unknown.any():
                text = "Hosts that report no vCPUs and pass unchecked: %d"
                self._warnings.warning("vcpus", text, np.count_nonzero(unknown))
            limit = total * _ratios(hosts, "cpu_allocation_ratio", self.by_aggregate)
            hosts.set_limits(~unknown & (limit > 0), "vcpu", limit)
            enough = limit - hosts.numbers("vcpus_used") >= wanted
            return unknown | (enough & ((limit <= 0) | (wanted <= total)))

        def reason(host: HostState) -> str:
            limit = host.vcpus_total * _ratio(host, "cpu_allocation_ratio", self.by_aggregate)
            return f"requested {wanted} vCPUs, free {limit - host.vcpus_used:g} of {limit:g}"

        return Judge(passes, reason)


class AggregateCoreFilter(CoreFilter):
    """The same; aggregate metadata ``cpu_allocation_ratio`` has precedence."""

    by_aggregate = True


class ExactCoreFilter(HostFilter):
    """The request is for all the free vCPUs, no more and no less, of a host that reports some."""

    def prepare(self, request: SchedulingRequest) -> Judge:
        wanted = request.spec.vcpus

        def passes(hosts: HostView) -> np.ndarray:
            total = hosts.numbers("vcpus_total")
            passed = (total != 0) & (total - hosts.numbers("vcpus_used") == wanted)
            hosts.set_limits(passed, "vcpu", total)
            return passed

        return Judge(
            passes, lambda host: f"requested {wanted} vCPUs, free {host.vcpus_total - host.vcpus_used}"
        )
