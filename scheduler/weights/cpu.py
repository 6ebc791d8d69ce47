"""Prefers hosts with more free virtual CPUs (spec: filters-and-weighers 3.2)."""

from typing import Any

import numpy as np

from scheduler.hosts.view import HostView
from scheduler.weights.base import HostWeigher


class CPUWeigher(HostWeigher):
    """Raw weight: vCPUs x allocation ratio - vCPUs used, at least 0. ``cpu_weight_multiplier`` (1.0)."""

    minval = 0.0
    option = "cpu_weight_multiplier"

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        total = hosts.numbers("vcpus_total") * hosts.numbers("cpu_allocation_ratio")
        return total - hosts.expected("vcpus_used")
