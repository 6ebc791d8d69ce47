"""Not where it was tried before (spec: filters-and-weighers 2.21)."""

from typing import Any

import numpy as np

from scheduler.filters.base import HostFilter, everybody
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView


class RetryFilter(HostFilter):
    """Passes hosts whose (host, node) is not among those that the request's ``retry`` lists."""

    def applies(self, request: Any) -> bool:
        return bool(request.retry) and bool(_tried(request))

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        tried = _tried(request)
        passed = everybody(hosts)
        for index in np.flatnonzero(hosts.on_hosts(host for host, _ in tried)):
            row = hosts.row(index)
            passed[index] = (row.host, row.nodename) not in tried
        return passed

    def reason(self, host: HostState, request: Any) -> str:
        return "tried before"


def _tried(request: Any) -> set[tuple[str, str]]:
    nodes = request.retry.hosts if "hosts" in request.retry else ()
    return {(node.host, node.hypervisor_hostname) for node in nodes}
