"""The host that an instance is on, when it is resized."""

from dataclasses import dataclass

import numpy as np

from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights.added import AddedWeigher
from scheduler.weights.base import Scorer


class SameHostWeigher(AddedWeigher):
    """Raw weight: 1 on the host that has the instance, 0 elsewhere; for instances that exist already.

    Callers name the host among those to ignore when it must be left, as for a migration or an evacuation.
    ``same_host_weight_multiplier`` (0.0).
    """

    option = "same_host_weight_multiplier"
    needs = frozenset({"instances"})

    def scorer(self, request: SchedulingRequest) -> Scorer | None:
        return _IsThere(request.instance_uuids) if request.moves_instance else None


@dataclass(frozen=True)
class _IsThere(Scorer):
    instance_uuids: tuple[str, ...]

    def weigh(self, hosts: HostView) -> np.ndarray:
        return (hosts.count_instances(self.instance_uuids) > 0).astype(np.float64)
