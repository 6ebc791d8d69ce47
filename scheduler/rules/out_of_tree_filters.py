"""Operators' own filters, wrapped so that what they raise names them and ends only the request.

What operators' filters find under nova's names where there is no nova (spec: filters-and-weighers 1.3).

These have nova's methods and nothing else, as a class of somebody else's may use any further name for itself.
``ForeignFilter`` runs what derives from them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.filters import builtin
from scheduler.filters.base import HostFilter
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.rules.dotted_paths import blamed


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


class BaseFilter:
    """A filter that keeps every host."""

    run_filter_once_per_request = False

    def run_filter_for_index(self, index: int) -> bool:
        """Whether to ask for instance number ``index`` of the request."""
        return index == 0 or not self.run_filter_once_per_request

    def _filter_one(self, obj: Any, spec_obj: Any) -> bool:
        return True

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> Iterator[Any] | None:
        """Those to keep, in order. An override may return None: none, and ask no further filter."""
        return (obj for obj in filter_obj_list if self._filter_one(obj, spec_obj))


class BaseHostFilter(BaseFilter):
    """A filter that looks at one host after the other: implement ``host_passes``."""

    RUN_ON_REBUILD = False

    def _filter_one(self, obj: Any, spec_obj: Any) -> bool:
        if request_is_rebuild(spec_obj) and not self.RUN_ON_REBUILD:
            return True
        return self.host_passes(obj, spec_obj)

    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        """Truthy keeps the host."""
        raise NotImplementedError


class CandidateFilterMixin:
    """For filters that look at a host's allocation candidates."""

    def filter_candidates(self, host_state: Any, filter_func: Callable[[Any], bool]) -> list[Any]:
        """Leave the host the candidates that are accepted, be it none, and return them."""
        host_state.allocation_candidates = [c for c in host_state.allocation_candidates if filter_func(c)]
        return host_state.allocation_candidates


def all_filters() -> list[type]:
    """The built-in filters."""
    return list(builtin.ALL)


def request_is_rebuild(spec_obj: Any) -> bool:
    """Whether a request, if any, is the check of a rebuild."""
    return spec_obj is not None and spec_obj.is_rebuild
