"""What a weigher is: a preference in two steps (spec: filters-and-weighers 1.9).

First ``prepare`` reads the request, once, and returns a scorer, or None if the preference has no effect on
the request. Then the scorer gives raw weights, for one instance of the request after the other. They are
clamped to ``minval`` and ``maxval``, normalised over the hosts, and added to the totals with ``multiplier``.

A weigher is shared by concurrent requests and keeps nothing of any of them. A scorer belongs to one request.
What it must know beyond the table of hosts is declared in ``needs`` and loaded before hosts are filtered and
weighed.
"""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest


class Scorer:
    """The raw weights of hosts for one request.

    Attributes:
        instance_uuids: Instances whose hosts the scorer asks the view for. They are located beforehand if the
            weigher needs ``"instances"``.
    """

    instance_uuids: Collection[str] = ()

    def weigh(self, hosts: HostView) -> np.ndarray:
        """Return raw weights: float64, shape (hosts,)."""
        raise NotImplementedError


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
        """Return the factor of each host: one number for all, or float64 of shape (hosts,)."""
        return by_aggregate(hosts, self.option, self.configured_multiplier())


class BaseHostWeigher(HostWeigher):
    """A preference that looks at one host after the other, as nova's out-of-tree weighers do.

    Implement ``_weigh_object``; ``weight_multiplier`` defaults to 1.0.
    """

    local = False

    def __init__(self, conf: cfg.ConfigOpts | None = None) -> None:
        self.conf = conf

    def weight_multiplier(self, host_state: HostState) -> float:
        return 1.0

    def _weigh_object(self, host_state: HostState, weight_properties: Any) -> float:
        """Return the raw weight of one host; ``weight_properties`` is the RequestSpec."""
        raise NotImplementedError

    def prepare(self, request: SchedulingRequest) -> Scorer:
        """Return a scorer that calls ``_weigh_object`` for each host."""
        return _OneByOne(self._weigh_object, request)

    def multiplier(self, hosts: HostView) -> np.ndarray:
        """Return the factor of each host: float64, shape (hosts,)."""
        return np.array([self.weight_multiplier(host) for host in hosts.hosts()], dtype=np.float64)


class _OneByOne(Scorer):
    def __init__(self, weigh_object: Callable[[HostState, Any], float], request: SchedulingRequest) -> None:
        self._weigh_object = weigh_object
        self._request = request

    def weigh(self, hosts: HostView) -> np.ndarray:
        self._request.write_progress()
        spec = self._request.spec
        return np.array([self._weigh_object(host, spec) for host in hosts.hosts()], dtype=np.float64)


def by_aggregate(hosts: HostView, key: str, configured: float) -> float | np.ndarray:
    """Return ``configured``, or what a host's aggregates store under ``key`` instead.

    Args:
        key: A metadata key; the smallest number under it counts.
        configured: For hosts whose aggregates have no number, or something else besides.
    """
    aggregates = hosts.coded("aggregates")
    if not any(value.raw(key) for value in aggregates.values):
        return configured
    return aggregates.spread(lambda value: value.smallest(key, float, configured), np.float64)
