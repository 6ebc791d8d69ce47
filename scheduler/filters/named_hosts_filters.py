"""No rule at all (spec: filters-and-weighers 2.2).

Hosts for certain images only (spec: filters-and-weighers 2.6).

Not where it was tried before (spec: filters-and-weighers 2.21).
"""

from typing import Any

import numpy as np

from scheduler.filters.base import HostFilter, everybody
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView


class AllHostsFilter(HostFilter):
    """Passes every host."""

    run_filter_once_per_request = True

    def applies(self, request: Any) -> bool:
        return False

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        return everybody(hosts)


class IsolatedHostsFilter(HostFilter):
    """The images of ``isolated_images`` run on ``isolated_hosts`` alone.

    Other images may run there too if ``restrict_isolated_hosts_to_isolated_images`` (true) is off. An
    instance without image id, as one booted from a volume, counts as another image. Names are exact.
    """

    RUN_ON_REBUILD = True
    run_filter_once_per_request = True

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        options = self.conf.filter_scheduler
        isolated = hosts.on_hosts(options.isolated_hosts) if options.isolated_hosts else ~everybody(hosts)
        if _image_id(request) in options.isolated_images:
            return isolated
        return ~isolated if options.restrict_isolated_hosts_to_isolated_images else everybody(hosts)

    def reason(self, host: HostState, request: Any) -> str:
        image = _image_id(request)
        if image in self.conf.filter_scheduler.isolated_images:
            return f"image {image} isolated, host is not"
        return f"isolated host, image {image} not isolated"


def _image_id(request: Any) -> str | None:
    return request.image.id if request.image and "id" in request.image else None


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
