"""Hosts for certain images only (spec: filters-and-weighers 2.6)."""

from typing import Any

import numpy as np

from scheduler.filters.base import HostFilter, everybody
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView


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
