"""Far from the failure domains of the other members of a server group."""

from dataclasses import dataclass

import numpy as np

from scheduler.hosts.failure_domains import members_nearby
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import Progress, SchedulingRequest
from scheduler.weights.added import AddedWeigher
from scheduler.weights.base import Scorer

POLICIES = frozenset({"anti-affinity", "soft-anti-affinity"})


class FailureDomainWeigher(AddedWeigher):
    """Raw weight: minus the other members of the server group in the failure domains of the host.

    For groups with policy ``anti-affinity`` or ``soft-anti-affinity``. ``failure_domain_weight_multiplier``
    (0.0); ``failure_domain_key`` is the key of aggregate metadata that names the domain of a host.
    """

    option = "failure_domain_weight_multiplier"
    local = False
    needs = frozenset({"instances"})

    def scorer(self, request: SchedulingRequest) -> Scorer | None:
        group = request.server_group
        if group is None or group.policy not in POLICIES:
            return None
        members = tuple(dict.fromkeys(group.members))
        return _MembersNearby(self.conf.berth.failure_domain_key, request.progress, members)


@dataclass(frozen=True)
class _MembersNearby(Scorer):
    key: str
    progress: Progress
    instance_uuids: tuple[str, ...]

    def weigh(self, hosts: HostView) -> np.ndarray:
        others = [uuid for uuid in self.instance_uuids if uuid != self.progress.instance_uuid]
        return -members_nearby(hosts, self.key, others).astype(np.float64)
