"""Room for large flavors: hosts that have none, or whose use costs none of it, come first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scheduler.hosts.free_amounts import MIB_PER_GIB, free_disk, free_memory, free_vcpus
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights.added import AddedWeigher
from scheduler.weights.base import Scorer

ENOUGH = float(1 << 40)
"""MiB of disk of a host that has none of its own: disks of its instances are elsewhere."""


class Size(NamedTuple):
    """What one instance takes: vCPUs, and MiB of memory and of disk."""

    vcpus: int
    ram: int
    disk: int


class KeepRoomWeigher(AddedWeigher):
    """Raw weight: minus the instances of the flavors in ``keep_room_for`` that a host has room for no more.

    ``keep_room_weight_multiplier`` (1.0). Without flavors it weighs nothing.
    """

    option = "keep_room_weight_multiplier"

    def configured_multiplier(self) -> float:
        return super().configured_multiplier() if self.conf.berth.keep_room_for else 0.0

    def scorer(self, request: SchedulingRequest) -> Scorer:
        flavor = request.flavor
        disk = (flavor.root_gb + flavor.ephemeral_gb) * MIB_PER_GIB
        wanted = Size(flavor.vcpus, flavor.memory_mb, disk)
        return _RoomLost(wanted, tuple(sizes(self.conf.berth.keep_room_for)))


def sizes(settings: Iterable[str]) -> Iterable[Size]:
    """Yield the sizes of flavors given as ``NAME=VCPUS:RAM_MIB:DISK_GIB``."""
    for setting in settings:
        vcpus, ram, disk = map(int, setting.rpartition("=")[2].split(":"))
        yield Size(vcpus, ram, disk * MIB_PER_GIB)


@dataclass(frozen=True)
class _RoomLost(Scorer):
    wanted: Size
    kept: tuple[Size, ...]

    def weigh(self, hosts: HostView) -> np.ndarray:
        number = hosts.expected
        has_disk, disk = number("total_usable_disk_gb") > 0, free_disk(number)
        free = [free_vcpus(number), free_memory(number), np.where(has_disk, disk, ENOUGH)]
        left = [
            free[0] - self.wanted.vcpus,
            free[1] - self.wanted.ram,
            np.where(has_disk, disk - self.wanted.disk, ENOUGH),
        ]
        lost = np.zeros(len(hosts))
        for size in self.kept:
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
