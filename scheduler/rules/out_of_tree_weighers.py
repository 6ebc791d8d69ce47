"""Operators' own weighers, wrapped so that what they raise names them and ends only the request.

What operators' weighers find under nova's names where there is no nova (spec: filters-and-weighers 1.9).

These have nova's methods and nothing else, as a class of somebody else's may use any further name for itself.
``ForeignWeigher`` runs what derives from them.
"""

import abc
from collections.abc import Iterable, Sequence
import inspect
from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.hosts.aggregates import AggregateSet
from scheduler.hosts.view import HostView
from scheduler.rules.dotted_paths import blamed
from scheduler.weights import builtin, scores
from scheduler.weights.base import HostWeigher


class GuardedWeigher(HostWeigher):
    """A weigher that derives from Berth's classes, in either style."""

    def __init__(self, inner: HostWeigher, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self.inner = inner
        self.minval, self.maxval, self.local = inner.minval, inner.maxval, inner.local
        self.clamps = inner.clamps

    @property
    def name(self) -> str:
        return type(self.inner).__name__

    def applies(self, request: Any) -> bool:
        with blamed(self.name):
            return self.inner.applies(request)

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        with blamed(self.name):
            return np.asarray(self.inner.weigh(hosts, request), dtype=np.float64)

    def multiplier(self, hosts: HostView) -> float | np.ndarray:
        with blamed(self.name):
            return self.inner.multiplier(hosts)


class ForeignWeigher(GuardedWeigher):
    """A weigher that derives from nova's classes, or from those that stand in for them (``nova_style``).

    ``weigh_objects`` is called with wrapped host states, as nova does, and its weights are not clamped: its
    own base class does that, unless a subclass knows better. A ``weight_multiplier`` that takes no host, as
    those written before Stein, is accepted.
    """

    local = False
    clamps = False
    minval = property(lambda self: self.inner.minval)
    maxval = property(lambda self: self.inner.maxval)

    def __init__(self, inner: Any, conf: cfg.ConfigOpts) -> None:
        HostWeigher.__init__(self, conf)
        self.inner = inner
        self._takes_host = bool(inspect.signature(inner.weight_multiplier).parameters)

    def applies(self, request: Any) -> bool:
        return True

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        wrapped = [WeighedHost(host, 0.0) for host in hosts.hosts()]
        with blamed(self.name):
            return np.array(self.inner.weigh_objects(wrapped, request), dtype=np.float64)

    def multiplier(self, hosts: HostView) -> np.ndarray:
        ask = self.inner.weight_multiplier
        with blamed(self.name):
            factors = [ask(host) if self._takes_host else ask() for host in hosts.hosts()]
        return np.array(factors, dtype=np.float64)


class WeighedObject:
    """Something to be weighed, and its total so far."""

    def __init__(self, obj: Any, weight: float) -> None:
        self.obj = obj
        self.weight = weight

    def __repr__(self) -> str:
        return f"<WeighedObject '{self.obj}': {self.weight}>"


class WeighedHost(WeighedObject):
    """A host state to be weighed."""

    def to_dict(self) -> dict[str, Any]:
        return {"weight": self.weight, "host": self.obj.host}

    def __repr__(self) -> str:
        return f"WeighedHost [host: {self.obj!r}, weight: {self.weight}]"


class BaseWeigher(metaclass=abc.ABCMeta):
    """Implement ``_weigh_object``; ``minval`` and ``maxval`` bound what it returns, None is no bound."""

    minval: float | None = None
    maxval: float | None = None

    def weight_multiplier(self, host_state: Any) -> float:
        """The factor of a host."""
        return 1.0

    @abc.abstractmethod
    def _weigh_object(self, obj: Any, weight_properties: Any) -> float:
        """The raw weight of one host."""

    def weigh_objects(self, weighed_obj_list: Iterable[WeighedObject], weight_properties: Any) -> list[float]:
        """The raw weights of all hosts."""
        weights = [self._weigh_object(weighed.obj, weight_properties) for weighed in weighed_obj_list]
        low = -np.inf if self.minval is None else self.minval
        high = np.inf if self.maxval is None else self.maxval
        return [min(max(weight, low), high) for weight in weights]


class BaseHostWeigher(BaseWeigher):
    """A preference that looks at one host after the other."""


def all_weighers() -> list[type]:
    """The built-in weighers."""
    return list(builtin.ALL)


def normalize(
    weight_list: Sequence[float], minval: float | None = None, maxval: float | None = None
) -> list[float]:
    """Weights on the scale from ``minval`` to ``maxval`` (default: those that occur)."""
    normal = scores.normalize(np.array(list(weight_list), dtype=np.float64), minval, maxval)
    return [0.0] * len(weight_list) if normal is None else normal.tolist()


def get_weight_multiplier(host_state: Any, multiplier_name: str, multiplier_config: float) -> float:
    """The smallest number under a key of the host's aggregates; what is configured if any is no number."""
    return AggregateSet(host_state.aggregates).smallest(multiplier_name, float, multiplier_config)
