"""Keeps hosts with PCI devices free for those who need them (spec: filters-and-weighers 3.6)."""

from typing import Any

import numpy as np

from scheduler.hosts.view import HostView
from scheduler.weights.base import HostWeigher

MOST_DEVICES = 99  # so that the raw weight stays above 0; 99 free devices and more are alike


class PCIWeigher(HostWeigher):
    """Raw weight: 100 - free PCI devices, the request not looked at. ``pci_weight_multiplier`` (1.0)."""

    option = "pci_weight_multiplier"

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        free = hosts.coded("pci_stats").spread(free_devices, np.float64)
        return 100.0 - np.minimum(free, MOST_DEVICES)


def free_devices(pools: Any) -> int:
    """Free devices in all pools of a host; 0 where there are none or they could not be read."""
    return getattr(pools, "free_devices", 0)
