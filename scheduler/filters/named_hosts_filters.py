"""Rules on the names of hosts alone, whatever the hosts report.

All names pass (spec: filters-and-weighers 2.2), configured names go with configured images (2.6), names that
were tried before are out (2.21).
"""

from dataclasses import dataclass

import numpy as np

from scheduler.filters.base import HostFilter, Judge, all_pass
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest


class AllHostsFilter(HostFilter):
    """Passes every host."""

    nova_modules = ("all_hosts_filter",)
    run_filter_once_per_request = True

    def prepare(self, request: SchedulingRequest) -> None:
        return None


class IsolatedHostsFilter(HostFilter):
    """The images of ``isolated_images`` run on ``isolated_hosts`` alone.

    Other images may run there too if ``restrict_isolated_hosts_to_isolated_images`` (true) is off. An
    instance without image id, as one booted from a volume, counts as another image. Names are exact.
    """

    nova_modules = ("isolated_hosts_filter",)
    RUN_ON_REBUILD = True
    run_filter_once_per_request = True

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        options = self.conf.filter_scheduler
        image = request.spec.image
        image_id = image.id if image and "id" in image else None
        if image_id in options.isolated_images:
            return _Isolated(tuple(options.isolated_hosts), image_id)
        if options.isolated_hosts and options.restrict_isolated_hosts_to_isolated_images:
            return _NotIsolated(tuple(options.isolated_hosts), image_id)
        return None


@dataclass(frozen=True)
class _Isolated(Judge):
    isolated_hosts: tuple[str, ...]
    image_id: str | None

    def passes(self, hosts: HostView) -> np.ndarray:
        return hosts.on_hosts(self.isolated_hosts)

    def reason(self, host: HostState) -> str:
        return f"image {self.image_id} isolated, host is not"


@dataclass(frozen=True)
class _NotIsolated(Judge):
    isolated_hosts: tuple[str, ...]
    image_id: str | None

    def passes(self, hosts: HostView) -> np.ndarray:
        return ~hosts.on_hosts(self.isolated_hosts)

    def reason(self, host: HostState) -> str:
        return f"isolated host, image {self.image_id} not isolated"


class RetryFilter(HostFilter):
    """Passes hosts whose (host, node) is not among those that the request's ``retry`` lists."""

    nova_modules = ("retry_filter",)
    removed_from_nova = True

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        retry = request.spec.retry
        nodes = retry.hosts if retry and "hosts" in retry else ()
        tried = frozenset((node.host, node.hypervisor_hostname) for node in nodes)
        return _NotTried(tried) if tried else None


@dataclass(frozen=True)
class _NotTried(Judge):
    tried: frozenset[tuple[str, str]]

    def passes(self, hosts: HostView) -> np.ndarray:
        passed = all_pass(hosts)
        for index in np.flatnonzero(hosts.on_hosts(host for host, _ in self.tried)).tolist():
            row = hosts.row(index)
            passed[index] = (row.host, row.nodename) not in self.tried
        return passed

    def reason(self, host: HostState) -> str:
        return "tried before"
