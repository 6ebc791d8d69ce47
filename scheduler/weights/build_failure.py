"""Hosts on which builds failed come last until one succeeds or they fade (spec: filters-and-weighers 3.8)."""

from collections.abc import Callable
import time

import numpy as np
from oslo_config import cfg

from scheduler.hosts.view import HostView
from scheduler.request.reading import read
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
    local = property(lambda self: not self.conf.berth.build_failure_half_life)

    def __init__(self, conf: cfg.ConfigOpts, wall_clock: Callable[[], float] = time.time) -> None:
        super().__init__(conf)
        self._wall_clock = wall_clock

    def multiplier(self, hosts: HostView) -> float | np.ndarray:
        return -1 * super().multiplier(hosts)

    def prepare(self, request: SchedulingRequest) -> Scorer:
        half_life = self.conf.berth.build_failure_half_life
        if not half_life:
            return Scorer(lambda hosts: hosts.numbers("failed_builds"))
        now, project = self._wall_clock(), read(request.spec, "project_id")

        def part(failed_at: np.ndarray) -> np.ndarray:
            """Return which part is left of failures of some time, above 0."""
            remaining: np.ndarray = 0.5 ** (np.maximum(now - failed_at, 0.0) / half_life)
            return remaining

        def weigh(hosts: HostView) -> np.ndarray:
            failures = hosts.numbers("failed_builds")
            if not failures.any():
                return failures
            # To whole failures: with a part of one the host would be excluded all the same.
            left = np.ceil(failures * part(hosts.numbers("failed_at")) - 0.5)
            own = hosts.reservations.failed_for(project)[hosts.positions]
            # Of those that failed for the project the latest comes last, whatever others have more failures.
            return np.where((own > 0) & (left > 0), left.max() + part(own), left)

        return Scorer(weigh)
