"""What operators' weighers find under nova's names where there is no nova (spec: filters-and-weighers 1.9).

These have nova's methods and nothing else, as a class of somebody else's may use any further name for itself.
``ForeignWeigher`` runs what derives from them.
"""

import abc
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scheduler.hosts.aggregates import AggregateSet
from scheduler.weights import builtin, scores


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
