"""Rules on the names of hosts alone, whatever the hosts report.

All names pass (spec: filters-and-weighers 2.2), configured names go with configured images (2.6), names that
were tried before are out (2.21).
"""

import numpy as np

from scheduler.filters.base import HostFilter, Judge, all_pass
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest


class AllHostsFilter(HostFilter):
    """Passes every host."""

    run_filter_once_per_request = True

    def prepare(self, request: SchedulingRequest) -> None:
        return None


class IsolatedHostsFilter(HostFilter):
    """The images of ``isolated_images`` run on ``isolated_hosts`` alone.

    Other images may run there too if ``restrict_isolated_hosts_to_isolated_images`` (true) is off. An
    instance without image id, as one booted from a volume, counts as another image. Names are exact.
    """

    RUN_ON_REBUILD = True
    run_filter_once_per_request = True

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        options = self.conf.filter_scheduler
        image = request.spec.image
        image_id = image.id if image and "id" in image else None
        isolated = tuple(options.isolated_hosts)
        if image_id in options.isolated_images:
            return Judge(
                lambda hosts: hosts.on_hosts(isolated),
                lambda _host: f"image {image_id} isolated, host is not",
            )
        if isolated and options.restrict_isolated_hosts_to_isolated_images:
            return Judge(
                lambda hosts: ~hosts.on_hosts(isolated),
                lambda _host: f"isolated host, image {image_id} not isolated",
            )
        return None


class RetryFilter(HostFilter):
    """Passes hosts whose (host, node) is not among those that the request's ``retry`` lists."""

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        retry = request.spec.retry
        nodes = retry.hosts if retry and "hosts" in retry else ()
        tried = frozenset((node.host, node.hypervisor_hostname) for node in nodes)

        def passes(hosts: HostView) -> np.ndarray:
            passed = all_pass(hosts)
            for index in np.flatnonzero(hosts.on_hosts(host for host, _ in tried)).tolist():
                row = hosts.row(index)
                passed[index] = (row.host, row.nodename) not in tried
            return passed

        return Judge(passes, lambda _host: "tried before") if tried else None
