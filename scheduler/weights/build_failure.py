"""Hosts on which builds failed come last until one succeeds or they fade (spec: filters-and-weighers 3.8)."""

from collections.abc import Callable
from dataclasses import dataclass
import time

import numpy as np
from oslo_config import cfg

from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights.base import HostWeigher, Scorer


class BuildFailureWeigher(HostWeigher):
    """Raw weight: builds that failed since the last success.

    ``build_failure_weight_multiplier`` (1000000.0) is used negated, after the smallest of the aggregates'
    values was taken. The penalty is relative: one failure on one host and none elsewhere costs that host all
    of it. With ``[berth] build_failure_half_life`` failures fade, and the host that failed last for the
    project of the request comes last.
    """

    option = "build_failure_weight_multiplier"

    def __init__(self, conf: cfg.ConfigOpts, wall_clock: Callable[[], float] = time.time) -> None:
        super().__init__(conf)
        self._wall_clock = wall_clock

    def multiplier(self, hosts: HostView) -> float | np.ndarray:
        return -1 * super().multiplier(hosts)

    def prepare(self, request: SchedulingRequest) -> Scorer:
        half_life = self.conf.berth.build_failure_half_life
        return _Fading(half_life, self._wall_clock()) if half_life else _Failures()


class _Failures(Scorer):
    def weigh(self, hosts: HostView) -> np.ndarray:
        return hosts.numbers("failed_builds").astype(np.float64)


@dataclass(frozen=True)
class _Fading(Scorer):
    """Failures that are left, to whole ones: with a part of one the host would be excluded all the same."""

    half_life: float
    now: float

    def weigh(self, hosts: HostView) -> np.ndarray:
        age = np.maximum(self.now - hosts.numbers("failed_at"), 0.0)
        return np.ceil(hosts.numbers("failed_builds") * 0.5 ** (age / self.half_life) - 0.5)
