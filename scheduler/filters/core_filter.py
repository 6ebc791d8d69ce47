"""Enough CPUs, as nova judged before Placement did (spec: filters-and-weighers 2.21)."""

from typing import Any

import numpy as np
from oslo_log import log as logging

from scheduler.filters.base import HostFilter
from scheduler.filters.overcommit import OvercommitFilter
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView

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
