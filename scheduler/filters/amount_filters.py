"""Enough memory, disk and CPUs, as nova judged before Placement did (spec: filters-and-weighers 2.21).

Each amount has three rules: with the host's own allocation ratio, with the ratio that its aggregates name,
and one for instances that take all that is free. A host that passes gets a limit, which the compute node
checks again.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from oslo_config import cfg
from oslo_log import log as logging

from scheduler.filters.base import HostFilter, Judge
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.logs import RateLimitedLogger
from scheduler.request.scheduling_request import SchedulingRequest

LOG = logging.getLogger(f"nova.{__name__}")


@dataclass(frozen=True)
class AllocationRatio:
    """By how much an amount of a host may be overcommitted.

    Attributes:
        column: The column of the ratio, also the metadata key that overrides it.
        by_aggregate: Whether the smallest number that a host's aggregates have under that key has precedence,
            if all of them are numbers.
    """

    column: str
    by_aggregate: bool

    def of_hosts(self, hosts: HostView) -> np.ndarray:
        own = hosts.numbers(self.column)
        if not self.by_aggregate:
            return own
        stored = hosts.coded("aggregates").spread(
            lambda aggregates: aggregates.smallest(self.column, float, np.nan), np.float64
        )
        return np.where(np.isnan(stored), own, stored)

    def of(self, host: HostState) -> float:
        own = getattr(host, self.column)
        return host.aggregate_set.smallest(self.column, float, own) if self.by_aggregate else own


class _Amount(NamedTuple):
    """The columns of memory or disk: total in ``unit`` MiB and free in MiB; the name of the limit."""

    total: str
    free: str
    unit: int
    limit: str


RAM = _Amount("total_usable_ram_mb", "free_ram_mb", 1, "memory_mb")
DISK = _Amount("total_usable_disk_gb", "free_disk_mb", 1024, "disk_gb")


@dataclass(frozen=True)
class _Overcommitted(Judge):
    amount: _Amount
    wanted: int
    ratio: AllocationRatio

    def passes(self, hosts: HostView) -> np.ndarray:
        total = hosts.numbers(self.amount.total) * self.amount.unit
        limit = total * self.ratio.of_hosts(hosts)
        usable = limit - (total - hosts.numbers(self.amount.free))
        passed = (total >= self.wanted) & (usable >= self.wanted)
        hosts.set_limits(passed, self.amount.limit, limit / self.amount.unit)
        return passed

    def reason(self, host: HostState) -> str:
        total = getattr(host, self.amount.total) * self.amount.unit
        usable = total * self.ratio.of(host) - (total - getattr(host, self.amount.free))
        if total < self.wanted:
            return f"requested {self.wanted} MB, host has {total} MB in all"
        return f"requested {self.wanted} MB, usable {usable:.0f} MB"


@dataclass(frozen=True)
class _AllOf(Judge):
    amount: _Amount
    wanted: int

    def passes(self, hosts: HostView) -> np.ndarray:
        passed = hosts.numbers(self.amount.free) == self.wanted
        hosts.set_limits(passed, self.amount.limit, hosts.numbers(self.amount.total))
        return passed

    def reason(self, host: HostState) -> str:
        return f"requested {self.wanted} MB, free {getattr(host, self.amount.free)} MB"


class RamFilter(HostFilter):
    """Memory times ``ram_allocation_ratio`` suffices, and the instance alone does not overcommit the host."""

    nova_modules = ("ram_filter",)
    removed_from_nova = True
    by_aggregate = False

    def prepare(self, request: SchedulingRequest) -> Judge:
        ratio = AllocationRatio("ram_allocation_ratio", self.by_aggregate)
        return _Overcommitted(RAM, request.spec.memory_mb, ratio)


class AggregateRamFilter(RamFilter):
    """The same; aggregate metadata ``ram_allocation_ratio`` has precedence."""

    by_aggregate = True


class ExactRamFilter(HostFilter):
    """The request is for all the free memory, no more and no less."""

    nova_modules = ("exact_ram_filter", "ram_filter")
    removed_from_nova = True

    def prepare(self, request: SchedulingRequest) -> Judge:
        return _AllOf(RAM, request.spec.memory_mb)


class DiskFilter(HostFilter):
    """Disk times ``disk_allocation_ratio`` suffices, and the instance alone does not overcommit the host.

    The root disk counts even if the instance boots from a volume.
    """

    nova_modules = ("disk_filter",)
    removed_from_nova = True
    by_aggregate = False

    def prepare(self, request: SchedulingRequest) -> Judge:
        ratio = AllocationRatio("disk_allocation_ratio", self.by_aggregate)
        return _Overcommitted(DISK, _disk_mb(request), ratio)


class AggregateDiskFilter(DiskFilter):
    """The same; aggregate metadata ``disk_allocation_ratio`` has precedence."""

    by_aggregate = True


class ExactDiskFilter(HostFilter):
    """The request is for all the free disk space, no more and no less."""

    nova_modules = ("disk_filter", "exact_disk_filter")
    removed_from_nova = True

    def prepare(self, request: SchedulingRequest) -> Judge:
        return _AllOf(DISK, _disk_mb(request))


class CoreFilter(HostFilter):
    """vCPUs times ``cpu_allocation_ratio`` suffice, and the instance alone does not overcommit the host.

    A host that reports no vCPUs passes: something is wrong with its reports, not with it.
    """

    nova_modules = ("core_filter",)
    removed_from_nova = True
    by_aggregate = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._warnings = RateLimitedLogger(LOG)

    def prepare(self, request: SchedulingRequest) -> Judge:
        ratio = AllocationRatio("cpu_allocation_ratio", self.by_aggregate)
        return _CoresOvercommitted(request.spec.vcpus, ratio, self._warnings)


@dataclass(frozen=True)
class _CoresOvercommitted(Judge):
    wanted: int
    ratio: AllocationRatio
    warnings: RateLimitedLogger

    def passes(self, hosts: HostView) -> np.ndarray:
        total = hosts.numbers("vcpus_total")
        unknown = total == 0
        if unknown.any():
            text = "Hosts that report no vCPUs and pass unchecked: %d"
            self.warnings.warning("vcpus", text, np.count_nonzero(unknown))
        limit = total * self.ratio.of_hosts(hosts)
        hosts.set_limits(~unknown & (limit > 0), "vcpu", limit)
        enough = limit - hosts.numbers("vcpus_used") >= self.wanted
        return unknown | (enough & ((limit <= 0) | (self.wanted <= total)))

    def reason(self, host: HostState) -> str:
        limit = host.vcpus_total * self.ratio.of(host)
        return f"requested {self.wanted} vCPUs, free {limit - host.vcpus_used:g} of {limit:g}"


class AggregateCoreFilter(CoreFilter):
    """The same; aggregate metadata ``cpu_allocation_ratio`` has precedence."""

    by_aggregate = True


class ExactCoreFilter(HostFilter):
    """The request is for all the free vCPUs, no more and no less, of a host that reports some."""

    nova_modules = ("core_filter", "exact_core_filter")
    removed_from_nova = True

    def prepare(self, request: SchedulingRequest) -> Judge:
        return _AllOfCores(request.spec.vcpus)


@dataclass(frozen=True)
class _AllOfCores(Judge):
    wanted: int

    def passes(self, hosts: HostView) -> np.ndarray:
        total = hosts.numbers("vcpus_total")
        passed = (total != 0) & (total - hosts.numbers("vcpus_used") == self.wanted)
        hosts.set_limits(passed, "vcpu", total)
        return passed

    def reason(self, host: HostState) -> str:
        return f"requested {self.wanted} vCPUs, free {host.vcpus_total - host.vcpus_used}"


def _disk_mb(request: SchedulingRequest) -> int:
    spec = request.spec
    return 1024 * (spec.root_gb + spec.ephemeral_gb) + spec.swap
