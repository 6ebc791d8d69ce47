"""What a filter is.

``chain`` calls, for each enabled filter in configured order: ``applies`` once a request, then ``passes`` with
the hosts that are left, then (only if somebody wants to know) ``reason`` for hosts that were turned down.
Filter objects are shared by concurrent requests and keep nothing of any of them.
"""

from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView


class HostFilter:
    """A rule over all hosts at once (array style). Operators' own classes may derive from this or
    ``BaseHostFilter``.

    ``RUN_ON_REBUILD``: whether the rule judges rebuild checks; others let every host of one pass.
    ``run_filter_once_per_request``: ask for the first instance of a request only.
    ``local``: a host's verdict depends on that host and the request alone, so that after a choice only the
    chosen host is asked again; false if a choice elsewhere, or the uuid of the instance, can change it.
    """

    RUN_ON_REBUILD = False
    run_filter_once_per_request = False
    local = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    @property
    def name(self) -> str:
        """The class name: how operators know the filter."""
        return type(self).__name__

    def run_filter_for_index(self, index: int) -> bool:
        """Whether to ask for instance number ``index`` of the request."""
        return index == 0 or not self.run_filter_once_per_request

    def applies(self, request: Any) -> bool:
        """Whether the request (a RequestSpec) has anything for this rule to judge; if not, all hosts pass."""
        return True

    def passes(self, hosts: HostView, request: Any) -> np.ndarray | None:
        """Which hosts may have the instance: bool, shape (hosts,). None: no host, whatever others say."""
        raise NotImplementedError

    def reason(self, host: HostState, request: Any) -> str:
        """Why this host was turned down, in a few words without the filter's name (spec: filters-and-weighers
        5.4).
        """
        return "rejected"


class BaseHostFilter(HostFilter):
    """A rule that looks at one host after the other, as nova's out-of-tree filters do.

    Implement ``host_passes``. Slower than array style by orders of magnitude, and just as correct.
    """

    local = False

    def __init__(self, conf: cfg.ConfigOpts | None = None) -> None:
        super().__init__(conf)

    def host_passes(self, host_state: HostState, spec_obj: Any) -> bool:
        """Truthy keeps the host."""
        raise NotImplementedError

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        return np.array([bool(self.host_passes(host, request)) for host in hosts.hosts()], dtype=bool)


def everybody(hosts: HostView) -> np.ndarray:
    """The verdict of a rule that has no objection: all true, shape (hosts,)."""
    return np.ones(len(hosts), dtype=bool)
