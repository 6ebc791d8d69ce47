"""Prefers hosts with a newer hypervisor (spec: filters-and-weighers 3.10)."""

from typing import Any

import numpy as np

from scheduler.hosts.view import HostView
from scheduler.weights.base import HostWeigher


class HypervisorVersionWeigher(HostWeigher):
    """Raw weight: the hypervisor's version number, 0 if unknown. ``hypervisor_version_weight_multiplier``
    (1.0).
    """

    option = "hypervisor_version_weight_multiplier"

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        return hosts.numbers("hypervisor_version").astype(np.float64)
