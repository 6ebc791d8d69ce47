"""From ``available_filters`` and ``enabled_filters`` to filter objects (spec: filters-and-weighers 1.2)."""

from collections.abc import Iterable

from oslo_config import cfg

from scheduler.errors import HostFilterNotFound
from scheduler.filters import builtin
from scheduler.filters.base import BaseHostFilter, HostFilter
from scheduler.rules import dotted_paths
from scheduler.rules.out_of_tree_filters import ForeignFilter, GuardedFilter, all_filters

BUILT_IN = {**builtin.BY_NOVA_PATH, "nova.scheduler.filters.all_filters": all_filters}


def load(conf: cfg.ConfigOpts) -> tuple[HostFilter, ...]:
    """The enabled filters in order. Raises ``HostFilterNotFound`` or ``ClassNotFound``."""
    options = conf.filter_scheduler
    classes = {cls.__name__: cls for cls in available(options.available_filters)}
    return enable(conf, options.enabled_filters, classes)


def available(paths: Iterable[str]) -> list[type]:
    """The classes that ``available_filters`` offers, in order; of equal names the later counts."""
    return [cls for path in paths for cls in dotted_paths.resolve(path, BUILT_IN, is_filter)]


def is_filter(cls: type) -> bool:
    return dotted_paths.derives_from(
        cls,
        HostFilter,
        ("BaseHostFilter", "BaseFilter"),
        ("nova.scheduler.filters", "nova.filters", "scheduler.rules.out_of_tree_filters"),
    )


def enable(
    conf: cfg.ConfigOpts, names: Iterable[str] | str, classes: dict[str, type]
) -> tuple[HostFilter, ...]:
    """One object a name, the same one for a name that is listed twice."""
    names = [names] if isinstance(names, str) else list(names)
    known = {cls.__name__: cls for cls in builtin.PAST} | classes
    unknown = [name for name in names if name not in known]
    if unknown:
        raise HostFilterNotFound(unknown)
    objects = {name: instantiate(conf, known[name]) for name in dict.fromkeys(names)}
    return tuple(objects[name] for name in names)


def instantiate(conf: cfg.ConfigOpts, cls: type) -> HostFilter:
    """A built-in filter as it is; an operator's own one so that its errors name it."""
    if cls in builtin.ALL or cls in builtin.PAST:
        return cls(conf)
    if not issubclass(cls, HostFilter):
        return ForeignFilter(cls(), conf)
    return GuardedFilter(dotted_paths.made(cls, conf) if issubclass(cls, BaseHostFilter) else cls(conf), conf)
