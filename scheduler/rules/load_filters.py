"""From ``available_filters`` and ``enabled_filters`` to filter objects (spec: filters-and-weighers 1.2)."""

from collections.abc import Callable, Iterable, Mapping

from oslo_config import cfg

from scheduler.errors import HostFilterNotFound
from scheduler.filters import builtin
from scheduler.filters.base import BaseFilter, HostFilter
from scheduler.rules import dotted_paths
from scheduler.rules.out_of_tree_filters import ForeignFilter, all_filters, guarded

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
