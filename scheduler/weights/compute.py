"""Avoids hosts whose builds have been failing (spec: filters-and-weighers 3.8)."""

from typing import Any

import numpy as np

from scheduler.hosts.view import HostView
from scheduler.weights.base import HostWeigher


class BuildFailureWeigher(HostWeigher):
    """Raw weight: builds that failed since the last success.

    ``build_failure_weight_multiplier`` (1000000.0) is used negated, after the smallest of the aggregates'
    values was taken. The penalty is relative: one failure on one host and none elsewhere costs that host all
    of it.
    """

    option = "build_failure_weight_multiplier"

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        return hosts.numbers("failed_builds").astype(np.float64)

    def multiplier(self, hosts: HostView) -> float | np.ndarray:
        return -1 * super().multiplier(hosts)
