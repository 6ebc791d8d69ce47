"""From ``weight_classes`` to weigher objects (spec: filters-and-weighers 1.2)."""

from oslo_config import cfg

from scheduler.rules import dotted_paths
from scheduler.rules.out_of_tree_weighers import ForeignWeigher, all_weighers, guarded
from scheduler.weights import builtin
from scheduler.weights.base import BaseWeigher, HostWeigher

BUILT_IN = {**builtin.BY_NOVA_PATH, f"{builtin.NOVA_PACKAGE}.all_weighers": all_weighers}


def load(conf: cfg.ConfigOpts) -> tuple[HostWeigher, ...]:
    """Return one weigher a class, in configured order; duplicates count twice.

    After them come those that nova does not have, if their options give them an effect.

    Raises:
        ClassNotFound: A path in ``weight_classes`` leads to no weigher.
    """
    paths = conf.filter_scheduler.weight_classes
    configured = [instantiate(conf, cls) for path in paths for cls in _classes(path)]
    added = [cls(conf) for cls in builtin.ADDED if cls not in map(type, configured)]
    return (*configured, *(each for each in added if each.configured_multiplier()))


def _classes(path: str) -> list[type]:
    return dotted_paths.resolve(path, BUILT_IN, is_weigher)


def is_weigher(cls: type) -> bool:
    """Return whether a class derives from one of the base classes of weighers."""
    return dotted_paths.derives_from(
        cls,
        HostWeigher,
        ("BaseHostWeigher", "BaseWeigher"),
        ("nova.scheduler.weights", "nova.weights", "scheduler.weights.base"),
    )


def instantiate(conf: cfg.ConfigOpts, cls: type[HostWeigher | BaseWeigher]) -> HostWeigher:
    """Return a built-in weigher as it is; an operator's own one so that its errors name it."""
    if cls in (*builtin.ALL, *builtin.ADDED):
        return cls(conf)
    if issubclass(cls, HostWeigher):
        return guarded(cls(conf))
    return ForeignWeigher(dotted_paths.made(cls, conf), conf)
