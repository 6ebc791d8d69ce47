"""Prefers hosts with more free disk (spec: filters-and-weighers 3.3)."""

from typing import Any

import numpy as np

from scheduler.hosts.view import HostView
from scheduler.weights.base import HostWeigher


class DiskWeigher(HostWeigher):
    """Raw weight: free disk in MiB, at least 0. ``disk_weight_multiplier`` (1.0)."""

    minval = 0.0
    option = "disk_weight_multiplier"

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        return hosts.expected("free_disk_mb").astype(np.float64)
