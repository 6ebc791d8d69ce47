"""From ``available_filters`` and ``enabled_filters`` to filter objects (spec: filters-and-weighers 1.2).

Adapters make sure that what an operator's class raises names the class, and ends only the request.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.errors import HostFilterNotFound
from scheduler.filters import builtin
from scheduler.filters.base import BaseFilter, HostFilter, Judge
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rules import dotted_paths
from scheduler.rules.dotted_paths import blamed
from scheduler.rules.installed_nova import added_classes


def all_filters() -> list[type]:
    """Return the filters that nova ships, as built in here, and those that an installed nova has besides."""
    return [*builtin.SHIPPED, *added_classes(builtin.NOVA_PACKAGE, "all_filters", builtin.BY_NOVA_PATH)]


#: By nova's paths, the classes, and the function that lists them all.
BUILT_IN: Mapping[str, type[HostFilter] | Callable[[], list[type]]] = {
    **builtin.BY_NOVA_PATH,
    f"{builtin.NOVA_PACKAGE}.all_filters": all_filters,
}

#: Why filters of nova are missing: an option that is set has no default any more.
NO_DEFAULT = "available_filters is set without nova.scheduler.filters.all_filters; give both values."


def load(conf: cfg.ConfigOpts) -> tuple[HostFilter, ...]:
    """Return the enabled filters in order.

    Raises:
        HostFilterNotFound: An enabled filter is not available.
        ClassNotFound: A path in ``available_filters`` leads to no filter.
    """
    options = conf.filter_scheduler
    classes = {cls.__name__: cls for cls in available(options.available_filters)}
    return enable(conf, options.enabled_filters, classes)


def available(paths: Iterable[str]) -> list[type]:
    """Return the classes that ``available_filters`` offers, in order; of equal names the later counts."""
    return [cls for path in paths for cls in dotted_paths.resolve(path, BUILT_IN, is_filter)]


def is_filter(cls: type) -> bool:
    """Return whether a class derives from one of the base classes of filters."""
    return dotted_paths.derives_from(
        cls,
        HostFilter,
        ("BaseHostFilter", "BaseFilter"),
        ("nova.scheduler.filters", "nova.filters", "scheduler.filters.base"),
    )


def enable(
    conf: cfg.ConfigOpts, names: Iterable[str] | str, classes: dict[str, type]
) -> tuple[HostFilter, ...]:
    """Return one object a name, the same one for a name that is listed twice.

    Args:
        names: Class names.
        classes: The available classes by name. Filters that nova has removed, and those that it never had,
            need not be among them; of equal names these count.

    Raises:
        HostFilterNotFound: Some names are unknown.
    """
    names = [names] if isinstance(names, str) else list(names)
    known = {cls.__name__: cls for cls in (*builtin.PAST, *builtin.ADDED)} | classes
    unknown = [name for name in names if name not in known]
    if unknown:
        shipped = {cls.__name__ for cls in builtin.SHIPPED}
        raise HostFilterNotFound(unknown, known, NO_DEFAULT if shipped.intersection(unknown) else "")
    objects = {name: instantiate(conf, known[name]) for name in dict.fromkeys(names)}
    return tuple(objects[name] for name in names)


def instantiate(conf: cfg.ConfigOpts, cls: type[HostFilter | BaseFilter]) -> HostFilter:
    """Return a built-in filter as it is; an operator's own one so that its errors name it."""
    if cls in builtin.ALL:
        return cls(conf)
    if issubclass(cls, HostFilter):
        return guarded(cls(conf))
    return ForeignFilter(dotted_paths.made(cls, conf), conf)


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
