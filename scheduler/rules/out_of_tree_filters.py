"""Operators' own filters: adapters for them, and what they find under nova's names besides the bases.

The adapters make sure that what an operator's class raises names the class, and ends only the request.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.filters import builtin
from scheduler.filters.base import BaseFilter, HostFilter, Judge
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rules.dotted_paths import blamed
from scheduler.rules.installed_nova import added_classes


def guarded(rule: HostFilter) -> HostFilter:
    """Return a filter over all hosts at once whose errors name its class."""
    guard = blamed(type(rule).__name__)
    prepare = guard(rule.prepare)

    def prepared(request: SchedulingRequest) -> Judge | None:
        judge = prepare(request)
        return judge and Judge(guard(_as_mask(judge.passes)), guard(judge.reason), judge.instance_uuids)

    rule.prepare = prepared  # type: ignore[method-assign]
    return rule


def _as_mask(passes: Callable[[HostView], np.ndarray | None]) -> Callable[[HostView], Any]:
    def mask(hosts: HostView) -> np.ndarray | None:
        verdict = passes(hosts)
        return None if verdict is None else np.asarray(verdict, dtype=bool)

    return mask


class ForeignFilter(HostFilter):
    """A filter that derives from nova's classes, or from ``BaseFilter``.

    Its ``filter_all`` is called with host states and the RequestSpec, as nova does; what it yields is kept.
    It is called for rebuilds too: there its own base class lets every host pass, unless a subclass overrides
    that.
    """

    RUN_ON_REBUILD = True
    local = False

    def __init__(self, inner: BaseFilter, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self.inner = inner

    @property
    def name(self) -> str:
        """The name of the operator's class."""
        return type(self.inner).__name__

    def run_filter_for_index(self, index: int) -> bool:
        """Return what the operator's class says."""
        return self.inner.run_filter_for_index(index)

    def prepare(self, request: SchedulingRequest) -> Judge:
        """Return a judge that calls ``filter_all``."""

        def passes(hosts: HostView) -> Any:
            states = hosts.hosts()
            request.write_progress()
            with blamed(self.name):
                left = self.inner.filter_all(list(states), request.spec)
                kept = None if left is None else {id(state) for state in left}
            return None if kept is None else np.array([id(state) in kept for state in states], dtype=bool)

        return Judge(passes)


class CandidateFilterMixin:
    """For filters that look at a host's allocation candidates."""

    def filter_candidates(self, host_state: HostState, filter_func: Callable[[object], bool]) -> list[object]:
        """Leave the host only the accepted candidates, if any, and return them."""
        host_state.allocation_candidates = [c for c in host_state.allocation_candidates if filter_func(c)]
        return host_state.allocation_candidates


def all_filters() -> list[type]:
    """Return the filters that nova ships, as built in here, and those that an installed nova has besides."""
    return [*builtin.SHIPPED, *added_classes(builtin.NOVA_PACKAGE, "all_filters", builtin.BY_NOVA_PATH)]
