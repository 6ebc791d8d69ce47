"""Operators' own filters, wrapped so that what they raise names them and ends only the request."""

from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.filters.base import HostFilter
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.plugins import blamed


class GuardedFilter(HostFilter):
    """A filter that derives from Berth's classes, in either style."""

    def __init__(self, inner: HostFilter, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self.inner = inner
        self.RUN_ON_REBUILD = inner.RUN_ON_REBUILD
        self.local = inner.local

    @property
    def name(self) -> str:
        return type(self.inner).__name__

    def run_filter_for_index(self, index: int) -> bool:
        return self.inner.run_filter_for_index(index)

    def applies(self, request: Any) -> bool:
        with blamed(self.name):
            return self.inner.applies(request)

    def passes(self, hosts: HostView, request: Any) -> np.ndarray | None:
        with blamed(self.name):
            verdict = self.inner.passes(hosts, request)
        return None if verdict is None else np.asarray(verdict, dtype=bool)

    def reason(self, host: HostState, request: Any) -> str:
        with blamed(self.name):
            return self.inner.reason(host, request)


class ForeignFilter(GuardedFilter):
    """A filter that derives from nova's classes, or from those that stand in for them (``nova_style``).

    Its ``filter_all`` is called with host states, as nova does; what it yields is kept. It is called for
    rebuilds too: there its own base class lets every host pass, unless a subclass knows better.
    """

    RUN_ON_REBUILD = True
    local = False

    def __init__(self, inner: Any, conf: cfg.ConfigOpts) -> None:
        HostFilter.__init__(self, conf)
        self.inner = inner

    def applies(self, request: Any) -> bool:
        return True

    def passes(self, hosts: HostView, request: Any) -> np.ndarray | None:
        states = hosts.hosts()
        with blamed(self.name):
            left = self.inner.filter_all(list(states), request)
            kept = None if left is None else {id(state) for state in left}
        return None if kept is None else np.array([id(state) in kept for state in states], dtype=bool)

    def reason(self, host: HostState, request: Any) -> str:
        return "rejected"
