"""Preferences for more, or less, of one number of a host, whatever the request.

The numbers are free RAM (spec: filters-and-weighers 3.1), free vCPUs (3.2), free disk (3.3), builds,
migrations and the like in progress (3.5), free PCI devices (3.6), the version of the hypervisor (3.10)
and instances (3.11); or any number, for ``[scheduler] driver = chance_scheduler``.
"""

import random
from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.hosts.free_amounts import free_vcpus
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights.base import HostWeigher, Scorer

MOST_DEVICES = 99  # so that the raw weight stays above 0; 99 free devices and more are alike


class NumberWeigher(HostWeigher):
    """A weigher of one number of each host: that of a column, or what ``amount`` returns."""

    column = ""

    def amount(self, hosts: HostView) -> np.ndarray:
        """Return the number of each host: int64 or float64, shape (hosts,)."""
        return hosts.expected(self.column)

    def prepare(self, request: SchedulingRequest) -> Scorer:
        return Scorer(self.amount)


class RAMWeigher(NumberWeigher):
    """Raw weight: free RAM in MiB, without overcommit. ``ram_weight_multiplier`` (1.0); negative stacks."""

    minval = 0.0
    option = "ram_weight_multiplier"
    column = "free_ram_mb"


class CPUWeigher(NumberWeigher):
    """Raw weight: vCPUs x allocation ratio - vCPUs used, at least 0. ``cpu_weight_multiplier`` (1.0)."""

    minval = 0.0
    option = "cpu_weight_multiplier"

    def amount(self, hosts: HostView) -> np.ndarray:
        return free_vcpus(hosts.expected)


class DiskWeigher(NumberWeigher):
    """Raw weight: free disk in MiB, at least 0. ``disk_weight_multiplier`` (1.0)."""

    minval = 0.0
    option = "disk_weight_multiplier"
    column = "free_disk_mb"


class IoOpsWeigher(NumberWeigher):
    """Raw weight: I/O operations in progress. ``io_ops_weight_multiplier`` (-1.0: prefers idle hosts)."""

    minval = 0.0
    option = "io_ops_weight_multiplier"
    column = "num_io_ops"


class NumInstancesWeigher(NumberWeigher):
    """Raw weight: instances on the host. ``num_instances_weight_multiplier`` (0.0: no effect)."""

    option = "num_instances_weight_multiplier"
    column = "num_instances"


class HypervisorVersionWeigher(NumberWeigher):
    """Raw weight: the hypervisor's version number, 0 if unknown.

    ``hypervisor_version_weight_multiplier`` (1.0).
    """

    option = "hypervisor_version_weight_multiplier"
    column = "hypervisor_version"


class PCIWeigher(NumberWeigher):
    """Raw weight: 100 - free PCI devices, whatever the request. ``pci_weight_multiplier`` (1.0)."""

    option = "pci_weight_multiplier"

    def amount(self, hosts: HostView) -> np.ndarray:
        free = hosts.coded("pci_stats").spread(free_devices, np.float64)
        return 100.0 - np.minimum(free, MOST_DEVICES)


def free_devices(pools: Any) -> int:
    """Return the free devices in all pools of a host; 0 where there are none or they could not be read."""
    return getattr(pools, "free_devices", 0)


class RandomWeigher(NumberWeigher):
    """Raw weight: a random number in [0, 1). It is no weigher of nova and cannot be configured."""

    def __init__(self, conf: cfg.ConfigOpts, source: random.Random | None = None) -> None:
        super().__init__(conf)
        self._source = source or random.Random()

    def multiplier(self, hosts: HostView) -> float:
        """Return 1 for all hosts, whatever their aggregates say."""
        return 1.0

    def amount(self, hosts: HostView) -> np.ndarray:
        return np.array([self._source.random() for _ in range(len(hosts))])
