"""The weighers that nova does not have, each with its multiplier in ``[berth]``."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from oslo_utils import strutils

from scheduler.hosts.aggregates import AggregateSet
from scheduler.hosts.failure_domains import members_nearby
from scheduler.hosts.free_amounts import MIB_PER_GIB, free_disk, free_memory, free_vcpus
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights.base import HostWeigher, Scorer

ANTI_AFFINITY = frozenset({"anti-affinity", "soft-anti-affinity"})

ENOUGH = float(1 << 40)
"""MiB of disk of a host that has none of its own: disks of its instances are elsewhere."""

LEAVING_KEY = "berth:leaving"


class AddedWeigher(HostWeigher):
    """A weigher of Berth's own; with the multiplier 0 it weighs nothing.

    The multiplier is the same for all hosts: aggregate metadata does not change it.
    """

    def configured_multiplier(self) -> float:
        return float(self.conf.berth[self.option])

    def multiplier(self, hosts: HostView) -> float:
        return self.configured_multiplier()

    def prepare(self, request: SchedulingRequest) -> Scorer | None:
        return self.scorer(request) if self.configured_multiplier() else None

    def scorer(self, request: SchedulingRequest) -> Scorer | None:
        """Return a scorer for the request; None if all weights would be alike."""
        raise NotImplementedError


class FailureDomainWeigher(AddedWeigher):
    """Raw weight: minus the other members of the server group in the failure domains of the host.

    For groups with policy ``anti-affinity`` or ``soft-anti-affinity``. ``failure_domain_weight_multiplier``
    (0.0); ``failure_domain_key`` is the key of aggregate metadata that names the domain of a host.
    """

    option = "failure_domain_weight_multiplier"
    local = False
    needs = frozenset({"instances"})

    def scorer(self, request: SchedulingRequest) -> Scorer | None:
        group, progress = request.server_group, request.progress
        if group is None or group.policy not in ANTI_AFFINITY:
            return None
        members = tuple(dict.fromkeys(group.members))

        def minus_nearby(hosts: HostView) -> np.ndarray:
            others = [uuid for uuid in members if uuid != progress.instance_uuid]
            return -members_nearby(hosts, self.conf.berth.failure_domain_key, others)

        return Scorer(minus_nearby, members)


class FreeShareWeigher(AddedWeigher):
    """Raw weight: the smallest free share of memory, vCPUs and disk, overcommit included; at least 0.

    Large and small hosts are filled evenly. What a host has nothing of does not count.
    ``free_share_weight_multiplier`` (0.0).
    """

    minval = 0.0
    option = "free_share_weight_multiplier"

    def scorer(self, request: SchedulingRequest) -> Scorer:
        return Scorer(free_shares)


def free_shares(hosts: HostView) -> np.ndarray:
    """Return the smallest free share of each host: float64, shape (hosts,)."""
    number = hosts.expected
    disk = number("total_usable_disk_gb") * number("disk_allocation_ratio") * MIB_PER_GIB
    shares = [
        _share(free_memory(number), number("total_usable_ram_mb") * number("ram_allocation_ratio")),
        _share(free_vcpus(number), number("vcpus_total") * number("cpu_allocation_ratio")),
        _share(free_disk(number), disk),
    ]
    return np.minimum.reduce(shares)


def _share(free: np.ndarray, total: np.ndarray) -> np.ndarray:
    return np.divide(free, total, out=np.ones(len(total)), where=total > 0)


class Size(NamedTuple):
    """What one instance takes: vCPUs, and MiB of memory and of disk."""

    vcpus: int
    ram: int
    disk: int


class KeepRoomWeigher(AddedWeigher):
    """Raw weight: minus the instances of the flavors in ``keep_room_for`` that a host has room for no more.

    Hosts that have no room for them, or whose use costs none of it, come first.
    ``keep_room_weight_multiplier`` (1.0). Without flavors it weighs nothing.
    """

    option = "keep_room_weight_multiplier"

    def configured_multiplier(self) -> float:
        return super().configured_multiplier() if self.conf.berth.keep_room_for else 0.0

    def scorer(self, request: SchedulingRequest) -> Scorer:
        flavor = request.flavor
        disk = (flavor.root_gb + flavor.ephemeral_gb) * MIB_PER_GIB
        wanted = Size(flavor.vcpus, flavor.memory_mb, disk)
        kept = tuple(sizes(self.conf.berth.keep_room_for))
        return Scorer(lambda hosts: minus_room_lost(hosts, wanted, kept))


def sizes(settings: Iterable[str]) -> Iterable[Size]:
    """Yield the sizes of flavors given as ``NAME=VCPUS:RAM_MIB:DISK_GIB``."""
    for setting in settings:
        vcpus, ram, disk = map(int, setting.rpartition("=")[2].split(":"))
        yield Size(vcpus, ram, disk * MIB_PER_GIB)


def minus_room_lost(hosts: HostView, wanted: Size, kept: Iterable[Size]) -> np.ndarray:
    """Return minus the instances of the kept sizes that do not fit once a wanted one is on the host."""
    number = hosts.expected
    has_disk, disk = number("total_usable_disk_gb") > 0, free_disk(number)
    free = [free_vcpus(number), free_memory(number), np.where(has_disk, disk, ENOUGH)]
    left = [free[0] - wanted.vcpus, free[1] - wanted.ram, np.where(has_disk, disk - wanted.disk, ENOUGH)]
    lost = np.zeros(len(hosts))
    for size in kept:
        lost += fitting(left, size) - fitting(free, size)
    return lost


def fitting(free: Sequence[np.ndarray], size: Size) -> np.ndarray:
    """Return how many instances of a size fit into free amounts: float64, shape (hosts,)."""
    numbers = [amount / each for amount, each in zip(free, size, strict=True) if each]
    if not numbers:
        return np.zeros(len(free[0]))
    least = numbers[0]
    for other in numbers[1:]:
        least = np.minimum(least, other)
    return np.floor(np.maximum(least, 0.0))


class SameHostWeigher(AddedWeigher):
    """Raw weight: 1 on the host that has the instance, 0 elsewhere; for instances that exist already.

    Callers name the host among those to ignore when it must be left, as for a migration or an evacuation.
    ``same_host_weight_multiplier`` (0.0).
    """

    option = "same_host_weight_multiplier"
    needs = frozenset({"instances"})

    def scorer(self, request: SchedulingRequest) -> Scorer | None:
        if not request.moves_instance:
            return None
        uuids = request.instance_uuids
        return Scorer(lambda hosts: hosts.count_instances(uuids) > 0, uuids)


class LeavingHostWeigher(AddedWeigher):
    """Raw weight: -1 for hosts with ``berth:leaving=true`` in an aggregate's metadata, 0 for others.

    They are to be emptied, and come last. ``leaving_host_weight_multiplier`` (0.0).
    """

    option = "leaving_host_weight_multiplier"

    def scorer(self, request: SchedulingRequest) -> Scorer:
        return Scorer(lambda hosts: -hosts.coded("aggregates").spread(is_leaving, np.int8))


def is_leaving(aggregates: AggregateSet) -> bool:
    """Return whether an aggregate of a host says that the host is to be emptied."""
    return any(map(strutils.bool_from_string, aggregates.raw(LEAVING_KEY)))
