"""From ``weight_classes`` to weigher objects (spec: filters-and-weighers 1.2, 1.9).

Adapters make sure that what an operator's class raises names the class, and ends only the request.
"""

from collections.abc import Callable, Sequence
import inspect

import numpy as np
from oslo_config import cfg

from scheduler.hosts.host_state import HostState, aggregate_set
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rules import dotted_paths
from scheduler.rules.dotted_paths import blamed
from scheduler.rules.installed_nova import added_classes
from scheduler.weights import builtin, scores
from scheduler.weights.base import BaseWeigher, HostWeigher, Scorer


def all_weighers() -> list[type]:
    """Return the built-in weighers, and those that an installed nova has besides."""
    return [*builtin.ALL, *added_classes(builtin.NOVA_PACKAGE, "all_weighers", builtin.BY_NOVA_PATH)]


BUILT_IN = {**builtin.BY_NOVA_PATH, f"{builtin.NOVA_PACKAGE}.all_weighers": all_weighers}


def load(conf: cfg.ConfigOpts) -> tuple[HostWeigher, ...]:
    """Return one weigher a class, in configured order; duplicates count twice.

    After them come those that nova does not have, if their options give them an effect.

    Raises:
        ClassNotFound: A path in ``weight_classes`` leads to no weigher.
    """
    paths = conf.filter_scheduler.weight_classes
    configured = [
        instantiate(conf, cls) for path in paths for cls in dotted_paths.resolve(path, BUILT_IN, is_weigher)
    ]
    added = [cls(conf) for cls in builtin.ADDED if cls not in map(type, configured)]
    return (*configured, *(each for each in added if each.configured_multiplier()))


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


def guarded(rule: HostWeigher) -> HostWeigher:
    """Return a weigher over all hosts at once whose errors name its class."""
    guard = blamed(type(rule).__name__)
    prepare = guard(rule.prepare)

    def prepared(request: SchedulingRequest) -> Scorer | None:
        scorer = prepare(request)
        if scorer is None:
            return None
        weigh = scorer.weigh
        return Scorer(guard(lambda hosts: np.asarray(weigh(hosts), np.float64)), scorer.instance_uuids)

    rule.prepare = prepared  # type: ignore[method-assign]
    rule.multiplier = guard(rule.multiplier)  # type: ignore[method-assign]
    return rule


class ForeignWeigher(HostWeigher):
    """A weigher that derives from nova's classes, or from ``BaseWeigher``.

    ``weigh_objects`` is called with wrapped host states and the RequestSpec, as nova does, and its weights
    are not clamped: its own base class does that, unless a subclass overrides it. A ``weight_multiplier``
    that takes no host, as in classes written before Stein, is accepted.
    """

    local = False
    clamps = False
    minval = property(lambda self: self.inner.minval)
    maxval = property(lambda self: self.inner.maxval)

    def __init__(self, inner: BaseWeigher, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self.inner = inner
        self._takes_host = bool(inspect.signature(inner.weight_multiplier).parameters)

    @property
    def name(self) -> str:
        """The name of the operator's class."""
        return type(self.inner).__name__

    def prepare(self, request: SchedulingRequest) -> Scorer:
        """Return a scorer that calls ``weigh_objects``."""

        def weigh(hosts: HostView) -> np.ndarray:
            wrapped = [WeighedHost(host, 0.0) for host in hosts.hosts()]
            request.write_progress()
            with blamed(self.name):
                return np.array(self.inner.weigh_objects(wrapped, request.spec), dtype=np.float64)

        return Scorer(weigh)

    def multiplier(self, hosts: HostView) -> np.ndarray:
        """Return what ``weight_multiplier`` gives for each host."""
        factor_of: Callable[..., float] = self.inner.weight_multiplier
        with blamed(self.name):
            factors = [factor_of(host) if self._takes_host else factor_of() for host in hosts.hosts()]
        return np.array(factors, dtype=np.float64)


class WeighedObject:
    """Something to be weighed, and its total so far."""

    def __init__(self, obj: HostState, weight: float) -> None:
        self.obj = obj
        self.weight = weight

    def __repr__(self) -> str:
        return f"<WeighedObject '{self.obj}': {self.weight}>"


class WeighedHost(WeighedObject):
    """A host state to be weighed."""

    def to_dict(self) -> dict[str, object]:
        return {"weight": self.weight, "host": self.obj.host}

    def __repr__(self) -> str:
        return f"WeighedHost [host: {self.obj!r}, weight: {self.weight}]"


def normalize(
    weight_list: Sequence[float], minval: float | None = None, maxval: float | None = None
) -> list[float]:
    """Return weights on the scale from ``minval`` to ``maxval`` (default: those that occur).

    They are not clamped: with a bound given, results can leave [0, 1].
    """
    raw = np.array(list(weight_list), dtype=np.float64)
    low, high = scores.scale_of(raw, minval, maxval) if len(raw) else (0.0, 0.0)
    return [0.0] * len(raw) if low == high else ((raw - low) / (high - low)).tolist()


def get_weight_multiplier(host_state: HostState, multiplier_name: str, multiplier_config: float) -> float:
    """Return the smallest number under a key of the host's aggregates.

    What is configured if there is none, or if one of the values is no number.
    """
    return aggregate_set(host_state).smallest(multiplier_name, float, multiplier_config)
