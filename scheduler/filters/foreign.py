"""Operators' own filters, wrapped so that what they raise names them and ends only the request."""

from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.errors import BerthError, PluginError
from scheduler.filters.base import HostFilter
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView


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
        return self._guard(self.inner.applies, request)

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        return np.asarray(self._guard(self.inner.passes, hosts, request), dtype=bool)

    def reason(self, host: HostState, request: Any) -> str:
        return self._guard(self.inner.reason, host, request)

    def _guard(self, method: Any, *args: Any) -> Any:
        try:
            return method(*args)
        except BerthError:
            raise
        except Exception as error:
            raise PluginError(f"{self.name} raised {type(error).__name__}: {error}") from error


class ForeignFilter(GuardedFilter):
    """A filter that derives from nova's classes, where nova is installed beside.

    Its ``filter_all`` is called with host states, as nova does; what it yields is kept.
    """

    def __init__(self, inner: Any, conf: cfg.ConfigOpts) -> None:
        HostFilter.__init__(self, conf)
        self.inner = inner
        self.local = False
        self.RUN_ON_REBUILD = getattr(inner, "RUN_ON_REBUILD", False)

    def applies(self, request: Any) -> bool:
        return True

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        states = hosts.hosts()
        kept = self._guard(lambda: {id(state) for state in self.inner.filter_all(states, request) or ()})
        return np.array([id(state) in kept for state in states], dtype=bool)

    def reason(self, host: HostState, request: Any) -> str:
        return "rejected"
