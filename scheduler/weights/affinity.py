"""Near or far from the other members of a server group, and from the cell that an instance leaves.

spec: filters-and-weighers 3.7, 3.9
"""

import numpy as np

from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights.base import HostWeigher, Scorer


class _GroupWeigher(HostWeigher):
    """Counts the members of the request's server group on each host, if the group has this policy."""

    policy = ""
    sign = 1
    local = False
    needs = frozenset({"instances"})

    def prepare(self, request: SchedulingRequest) -> Scorer | None:
        group = request.server_group
        if group is None or group.policy != self.policy:
            return None
        members = tuple(dict.fromkeys(group.members))
        return Scorer(lambda hosts: self.sign * hosts.count_instances(members), members)


class ServerGroupSoftAffinityWeigher(_GroupWeigher):
    """Raw weight: group members on the host. ``soft_affinity_weight_multiplier`` (1.0)."""

    policy = "soft-affinity"
    option = "soft_affinity_weight_multiplier"


class ServerGroupSoftAntiAffinityWeigher(_GroupWeigher):
    """Raw weight: minus the group members on the host. ``soft_anti_affinity_weight_multiplier`` (1.0)."""

    policy = "soft-anti-affinity"
    sign = -1
    option = "soft_anti_affinity_weight_multiplier"


class CrossCellWeigher(HostWeigher):
    """Raw weight: 1 inside the preferred cell, -1 outside; of no effect unless the request may cross cells.

    ``cross_cell_move_weight_multiplier`` (1000000.0); negative prefers other cells.
    """

    option = "cross_cell_move_weight_multiplier"

    def prepare(self, request: SchedulingRequest) -> Scorer | None:
        wanted = request.spec.requested_destination
        if not wanted or "cell" not in wanted or not wanted.cell or not wanted.allow_cross_cell_move:
            return None
        preferred = wanted.cell.uuid
        return Scorer(
            lambda hosts: hosts.coded("cell").spread(lambda cell: 1 if cell == preferred else -1, np.int8)
        )
