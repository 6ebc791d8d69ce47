"""Prefers hosts with more (or fewer) instances (spec: filters-and-weighers 3.11)."""

from typing import Any

import numpy as np

from scheduler.hosts.view import HostView
from scheduler.weights.base import HostWeigher


class NumInstancesWeigher(HostWeigher):
    """Raw weight: instances on the host. ``num_instances_weight_multiplier`` (0.0: no effect)."""

    option = "num_instances_weight_multiplier"

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        return hosts.numbers("num_instances").astype(np.float64)
