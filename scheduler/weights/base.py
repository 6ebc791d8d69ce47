"""What a weigher is: a preference in two steps (spec: filters-and-weighers 1.9).

First ``prepare`` reads the request, once, and returns a scorer, or None if the preference has no effect on
the request. Then the scorer gives raw weights, for one instance of the request after the other. They are
clamped to ``minval`` and ``maxval``, normalised over the hosts, and added to the totals with ``multiplier``.

A weigher is shared by concurrent requests and keeps nothing of any of them. A scorer belongs to one request.
What it must know beyond the table of hosts is declared in ``needs`` and loaded before hosts are filtered and
weighed.
"""

import abc
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.objects import RequestSpec
from scheduler.request.scheduling_request import SchedulingRequest


class Scorer:
    """The raw weights of hosts for one request: a function, or a class with this method.

    Attributes:
        instance_uuids: Instances whose hosts the scorer reads from the view. They are located beforehand if
            the weigher needs ``"instances"``.
    """

    instance_uuids: Collection[str] = ()
    _numbers: Callable[[HostView], np.ndarray] | None = None

    def __init__(
        self,
        numbers: Callable[[HostView], np.ndarray] | None = None,
        instance_uuids: Collection[str] = (),
    ) -> None:
        given = {"_numbers": numbers, "instance_uuids": instance_uuids}
        vars(self).update({name: value for name, value in given.items() if value})

    def weigh(self, hosts: HostView) -> np.ndarray:
        """Return raw weights: float64, shape (hosts,)."""
        if self._numbers is None:
            raise NotImplementedError
        return self._numbers(hosts).astype(np.float64)


class HostWeigher:
    """A preference over all hosts at once (array style).

    Attributes:
        minval: The lower bound of raw weights; None: the smallest that occurs.
        maxval: The upper bound; None: the largest that occurs.
        option: The name of the multiplier in ``[filter_scheduler]``, also the aggregate metadata key that
            overrides it; empty: there is none, the multiplier is 1.0.
        local: A host's raw weight depends on that host and the request alone.
        clamps: Whether raw weights outside the bounds are moved to them.
        needs: What is loaded before hosts are weighed: ``"instances"`` (the hosts of the scorer's
            ``instance_uuids``), ``"image_properties"`` (those of the instances on each host).
    """

    minval: float | None = None
    maxval: float | None = None
    option: str = ""
    local = True
    clamps = True
    needs: frozenset[str] = frozenset()

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf: Any = conf

    @property
    def name(self) -> str:
        """The class name, which is how operators know the weigher."""
        return type(self).__name__

    def prepare(self, request: SchedulingRequest) -> Scorer | None:
        """Return a scorer for the request; None if all weights would be alike."""
        raise NotImplementedError

    def configured_multiplier(self) -> float:
        """Return the multiplier of hosts whose aggregates have none."""
        return self.conf.filter_scheduler[self.option] if self.option else 1.0

    def multiplier(self, hosts: HostView) -> float | np.ndarray:
        """Return the factor of each host: one number for all, or float64 of shape (hosts,).

        The configured one counts where aggregates have no number under ``option``, or something else besides.
        """
        aggregates, configured = hosts.coded("aggregates"), self.configured_multiplier()
        if not any(value.raw(self.option) for value in aggregates.values):
            return configured
        return aggregates.spread(lambda value: value.smallest(self.option, float, configured), np.float64)


class BaseWeigher(metaclass=abc.ABCMeta):
    """A weigher as nova's are; nova's base class where nova is not installed.

    It has nova's methods and nothing else, as an operator's class may use any further name for itself.
    Implement ``_weigh_object``; ``minval`` and ``maxval`` bound what it returns, None is no bound.
    """

    minval: float | None = None
    maxval: float | None = None

    def weight_multiplier(self, host_state: HostState) -> float:
        """Return the factor of a host."""
        return 1.0

    @abc.abstractmethod
    def _weigh_object(self, obj: HostState, weight_properties: RequestSpec) -> float:
        """Return the raw weight of one host."""

    def weigh_objects(self, weighed_obj_list: Iterable[Any], weight_properties: RequestSpec) -> list[float]:
        """Return the raw weights of all hosts."""
        weights = [self._weigh_object(weighed.obj, weight_properties) for weighed in weighed_obj_list]
        low = -np.inf if self.minval is None else self.minval
        high = np.inf if self.maxval is None else self.maxval
        return [min(max(weight, low), high) for weight in weights]


class BaseHostWeigher(BaseWeigher):
    """A preference that looks at one host after the other."""
