"""Prefers hosts with fewer builds, migrations and the like under way (spec: filters-and-weighers 3.5)."""

from typing import Any

import numpy as np

from scheduler.hosts.view import HostView
from scheduler.weights.base import HostWeigher


class IoOpsWeigher(HostWeigher):
    """Raw weight: I/O operations under way. ``io_ops_weight_multiplier`` (-1.0: prefers idle hosts)."""

    minval = 0.0
    option = "io_ops_weight_multiplier"

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        return hosts.numbers("num_io_ops").astype(np.float64)
