"""Operators' own weighers, wrapped so that what they raise names them and ends only the request."""

import inspect
from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.hosts.view import HostView
from scheduler.plugins import blamed
from scheduler.weights.base import HostWeigher
from scheduler.weights.nova_style import WeighedHost


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
