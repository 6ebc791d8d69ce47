"""Operators' own weighers, wrapped so that what they raise names them and ends only the request."""

from collections.abc import Callable
import inspect
from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.errors import BerthError, PluginError
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.weights.base import HostWeigher


class GuardedWeigher(HostWeigher):
    """A weigher that derives from Berth's classes, in either style."""

    def __init__(self, inner: HostWeigher, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self.inner = inner
        self.minval, self.maxval, self.local = inner.minval, inner.maxval, inner.local

    @property
    def name(self) -> str:
        return type(self.inner).__name__

    def applies(self, request: Any) -> bool:
        return self._guard(self.inner.applies, request)

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        return np.asarray(self._guard(self.inner.weigh, hosts, request), dtype=np.float64)

    def multiplier(self, hosts: HostView) -> float | np.ndarray:
        return self._guard(self.inner.multiplier, hosts)

    def _guard(self, method: Callable, *args: Any) -> Any:
        try:
            return method(*args)
        except BerthError:
            raise
        except Exception as error:
            raise PluginError(f"{self.name} raised {type(error).__name__}: {error}") from error


class Weighed:
    """What nova's weighers are given for each host: the host state, and the total so far."""

    def __init__(self, host_state: HostState) -> None:
        self.obj = host_state
        self.weight = 0.0


class ForeignWeigher(GuardedWeigher):
    """A weigher that derives from nova's classes, where nova is installed beside.

    ``weigh_objects`` is called with wrapped host states, as nova does. A ``weight_multiplier`` that takes no
    host, as those written before Stein, is accepted.
    """

    def __init__(self, inner: Any, conf: cfg.ConfigOpts) -> None:
        HostWeigher.__init__(self, conf)
        self.inner = inner
        self.minval, self.maxval, self.local = inner.minval, inner.maxval, False
        self._takes_host = bool(inspect.signature(inner.weight_multiplier).parameters)

    def applies(self, request: Any) -> bool:
        return True

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        wrapped = [Weighed(host) for host in hosts.hosts()]
        return np.array(self._guard(self.inner.weigh_objects, wrapped, request), dtype=np.float64)

    def multiplier(self, hosts: HostView) -> np.ndarray:
        ask = self.inner.weight_multiplier
        factors = [self._guard(ask, host) if self._takes_host else self._guard(ask) for host in hosts.hosts()]
        return np.array(factors, dtype=np.float64)
