"""Prefers hosts with more free RAM (spec: filters-and-weighers 3.1).

Prefers hosts with more free virtual CPUs (spec: filters-and-weighers 3.2).

Prefers hosts with more free disk (spec: filters-and-weighers 3.3).

Prefers hosts with fewer builds, migrations and the like under way (spec: filters-and-weighers 3.5).

Prefers hosts with more (or fewer) instances (spec: filters-and-weighers 3.11).

Prefers hosts with a newer hypervisor (spec: filters-and-weighers 3.10).

Avoids hosts whose builds have been failing (spec: filters-and-weighers 3.8).

Keeps hosts with PCI devices free for those who need them (spec: filters-and-weighers 3.6).
"""

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


class CPUWeigher(HostWeigher):
    """Raw weight: vCPUs x allocation ratio - vCPUs used, at least 0. ``cpu_weight_multiplier`` (1.0)."""

    minval = 0.0
    option = "cpu_weight_multiplier"

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        total = hosts.numbers("vcpus_total") * hosts.numbers("cpu_allocation_ratio")
        return total - hosts.expected("vcpus_used")


class DiskWeigher(HostWeigher):
    """Raw weight: free disk in MiB, at least 0. ``disk_weight_multiplier`` (1.0)."""

    minval = 0.0
    option = "disk_weight_multiplier"

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        return hosts.expected("free_disk_mb").astype(np.float64)


class IoOpsWeigher(HostWeigher):
    """Raw weight: I/O operations under way. ``io_ops_weight_multiplier`` (-1.0: prefers idle hosts)."""

    minval = 0.0
    option = "io_ops_weight_multiplier"

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        return hosts.numbers("num_io_ops").astype(np.float64)


class NumInstancesWeigher(HostWeigher):
    """Raw weight: instances on the host. ``num_instances_weight_multiplier`` (0.0: no effect)."""

    option = "num_instances_weight_multiplier"

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        return hosts.numbers("num_instances").astype(np.float64)


class HypervisorVersionWeigher(HostWeigher):
    """Raw weight: the hypervisor's version number, 0 if unknown. ``hypervisor_version_weight_multiplier``
    (1.0).
    """

    option = "hypervisor_version_weight_multiplier"

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        return hosts.numbers("hypervisor_version").astype(np.float64)


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
