"""Keeps the members of a server group together, or apart, as far as possible (spec: filters-and-weighers
3.7).

Keeps moves inside their cell where that is possible (spec: filters-and-weighers 3.9).
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


class CrossCellWeigher(HostWeigher):
    """Raw weight: 1 inside the preferred cell, -1 outside; of no effect unless the request may cross cells.

    ``cross_cell_move_weight_multiplier`` (1000000.0); negative prefers other cells.
    """

    option = "cross_cell_move_weight_multiplier"

    def applies(self, request: Any) -> bool:
        wanted = request.requested_destination
        return bool(wanted and "cell" in wanted and wanted.cell and wanted.allow_cross_cell_move)

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        preferred = request.requested_destination.cell.uuid
        return hosts.coded("cell").spread(lambda cell: 1.0 if cell == preferred else -1.0, np.float64)
