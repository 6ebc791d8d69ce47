"""What a weigher is (spec: filters-and-weighers 1.9).

``scores`` calls, for each weigher in order: ``applies`` once a request, ``weigh`` for raw weights, clamps
them to ``minval`` and ``maxval``, normalises them over the hosts, and adds ``multiplier`` times the outcome
to the totals.
"""

from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView


class HostWeigher:
    """A preference over all hosts at once (array style).

    ``minval``, ``maxval``: bounds of the raw weights; None: the smallest (largest) that occurs.
    ``option``: the name of its multiplier in ``[filter_scheduler]``, also the aggregate metadata key that
    overrides it; empty: there is none, the multiplier is 1.0. ``local``: a host's raw weight depends on that
    host and the request alone. ``clamps``: whether raw weights outside the bounds are moved to them.
    """

    minval: float | None = None
    maxval: float | None = None
    option: str = ""
    local = True
    clamps = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    @property
    def name(self) -> str:
        return type(self).__name__

    def applies(self, request: Any) -> bool:
        """Whether the weights can differ from 0 for this request; if not, the weigher is skipped."""
        return True

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        """Raw weights: float64, shape (hosts,)."""
        raise NotImplementedError

    def configured_multiplier(self) -> float:
        """The multiplier of hosts whose aggregates say nothing."""
        return self.conf.filter_scheduler[self.option] if self.option else 1.0

    def multiplier(self, hosts: HostView) -> float | np.ndarray:
        """The factor of each host: one number for all, or float64 of shape (hosts,)."""
        configured = self.configured_multiplier()
        return by_aggregate(hosts, self.option, configured)


class BaseHostWeigher(HostWeigher):
    """A preference that looks at one host after the other, as nova's out-of-tree weighers do.

    Implement ``_weigh_object``; ``weight_multiplier`` defaults to 1.0.
    """

    local = False

    def __init__(self, conf: cfg.ConfigOpts | None = None) -> None:
        super().__init__(conf)

    def weight_multiplier(self, host_state: HostState) -> float:
        return 1.0

    def _weigh_object(self, host_state: HostState, weight_properties: Any) -> float:
        raise NotImplementedError

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        return np.array([self._weigh_object(host, request) for host in hosts.hosts()], dtype=np.float64)

    def multiplier(self, hosts: HostView) -> np.ndarray:
        return np.array([self.weight_multiplier(host) for host in hosts.hosts()], dtype=np.float64)


def by_aggregate(hosts: HostView, key: str, configured: float) -> float | np.ndarray:
    """``configured``, or what a host's aggregates store under ``key`` instead."""
    aggregates = hosts.coded("aggregates")
    if not any(value.raw(key) for value in aggregates.values):
        return configured
    return aggregates.spread(lambda value: value.smallest(key, float, configured), np.float64)
