"""Prefers hosts with more free RAM (spec: filters-and-weighers 3.1)."""

from typing import Any

import numpy as np

from scheduler.hosts.view import HostView
from scheduler.weights.base import HostWeigher


class RAMWeigher(HostWeigher):
    """Raw weight: free RAM in MiB, at least 0. ``ram_weight_multiplier`` (1.0); negative stacks."""

    minval = 0.0
    option = "ram_weight_multiplier"

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        return hosts.expected("free_ram_mb").astype(np.float64)
