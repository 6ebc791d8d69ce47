"""Keeps the members of a server group together, or apart, as far as possible (spec: filters-and-weighers
3.7).
"""

from typing import Any

import numpy as np

from scheduler.hosts.view import HostView
from scheduler.weights.base import HostWeigher


class _GroupWeigher(HostWeigher):
    """Counts the members of the request's group on each host, if the group has this policy."""

    policy = ""
    local = False

    def applies(self, request: Any) -> bool:
        return bool(request.instance_group and request.instance_group.policy == self.policy)

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        return hosts.count_instances(set(request.instance_group.members or ())).astype(np.float64)


class ServerGroupSoftAffinityWeigher(_GroupWeigher):
    """Raw weight: group members on the host. ``soft_affinity_weight_multiplier`` (1.0)."""

    policy = "soft-affinity"
    option = "soft_affinity_weight_multiplier"


class ServerGroupSoftAntiAffinityWeigher(_GroupWeigher):
    """Raw weight: minus the group members on the host. ``soft_anti_affinity_weight_multiplier`` (1.0)."""

    policy = "soft-anti-affinity"
    option = "soft_anti_affinity_weight_multiplier"

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        return -super().weigh(hosts, request)
