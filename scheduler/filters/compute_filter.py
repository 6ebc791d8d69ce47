"""Hosts whose compute service is enabled and alive (spec: filters-and-weighers 2.3)."""

import time
from typing import Any

import numpy as np
from oslo_log import log as logging

from scheduler.conf import service_down_time
from scheduler.filters.base import HostFilter
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView

LOG = logging.getLogger(__name__)

NAMED_IN_LOG = 10


class ComputeFilter(HostFilter):
    """Passes enabled services, not forced down, that were seen at most ``service_down_time`` (60) seconds
    ago.

    A service that was never seen counts as seen when it was created. A time in the future counts as that far
    away: clocks that differ by more than the limit make services look down. A ``service_down_time`` not above
    ``report_interval`` (10) is replaced by two and a half intervals.
    """

    run_filter_once_per_request = True

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        enabled = ~hosts.numbers("service_disabled")
        age = np.abs(time.time() - hosts.numbers("service_seen"))
        up = ~hosts.numbers("service_forced_down") & (age <= service_down_time(self.conf))
        down = np.flatnonzero(enabled & ~up)
        if len(down):
            names = [row.host for row in hosts.at(down[:NAMED_IN_LOG]).rows]
            LOG.warning("%d compute services are down: %s", len(down), ", ".join(names))
        return enabled & up

    def reason(self, host: HostState, request: Any) -> str:
        service = host.service
        if service["disabled"]:
            return f"service disabled ({service['disabled_reason']})"
        if service["forced_down"]:
            return "service forced down"
        seen = service["last_seen_up"] or service["created_at"]
        if seen is None:
            return "service never seen"
        age = time.time() - seen.timestamp()
        return f"service last seen {age:.0f} s ago, limit {service_down_time(self.conf)} s"
