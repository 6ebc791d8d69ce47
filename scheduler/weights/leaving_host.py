"""Hosts that are to be emptied come last."""

import numpy as np
from oslo_utils import strutils

from scheduler.hosts.aggregates import AggregateSet
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights.added import AddedWeigher
from scheduler.weights.base import Scorer

KEY = "berth:leaving"


class LeavingHostWeigher(AddedWeigher):
    """Raw weight: -1 for hosts with ``berth:leaving=true`` in an aggregate's metadata, 0 for others.

    ``leaving_host_weight_multiplier`` (0.0).
    """

    option = "leaving_host_weight_multiplier"

    def scorer(self, request: SchedulingRequest) -> Scorer:
        return _Leaving()


class _Leaving(Scorer):
    def weigh(self, hosts: HostView) -> np.ndarray:
        return -hosts.coded("aggregates").spread(is_leaving, np.float64)


def is_leaving(aggregates: AggregateSet) -> bool:
    """Return whether an aggregate of a host says that it is to be emptied."""
    return any(map(strutils.bool_from_string, aggregates.raw(KEY)))
