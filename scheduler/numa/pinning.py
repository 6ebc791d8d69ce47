"""Which host CPUs the pinned vCPUs of a guest cell get.

The choice of cores, and how many threads of each, is what every later verdict depends on, here and on the
compute. Threads of one core are taken in ascending order.

spec: numa-and-pci 3.8
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from scheduler.numa.guest import ISOLATE, REQUIRE, GuestCell
from scheduler.numa.topology import HostCell

Cores = Sequence[tuple[int, ...]]


@dataclass(frozen=True)
class Pinning:
    """vCPU -> host CPU, and the host CPUs set aside for emulator threads."""

    pins: dict[int, int]
    reserved: frozenset[int] | None


def pin(cell: HostCell, guest: GuestCell, overhead: int) -> Pinning | None:
    """Place the pinned vCPUs of a guest cell and ``overhead`` (0 or 1) emulator CPUs; None if impossible."""
    if not cell.siblings:
        return None
    if guest.thread_policy == ISOLATE:
        return _on_cores_of_its_own(cell, guest, overhead)
    if guest.thread_policy == REQUIRE and not cell.has_threads:
        return None
    return _on_fullest_cores(cell, guest, overhead)


def _on_cores_of_its_own(cell: HostCell, guest: GuestCell, overhead: int) -> Pinning | None:
    whole = _with_threads(cell.free_cores, cell.threads_per_core)
    # With separate sets of dedicated and shared CPUs the other thread of a core could be anybody's.
    if not whole or (cell.has_threads and cell.pcpuset != cell.cpuset):
        return None
    pins = _assign(1, whole, guest)
    reserved = _reserve(cell.free_cores, pins, overhead, whole_cores=True)
    if not pins or (overhead and not reserved):
        return None
    return Pinning(pins, reserved)


def _on_fullest_cores(cell: HostCell, guest: GuestCell, overhead: int) -> Pinning | None:
    require = guest.thread_policy == REQUIRE
    most = max(map(len, cell.free_cores))
    pins, reserved = None, None
    for threads in range(most, 1 if require else 0, -1):
        pins = _assign(threads, _with_threads(cell.free_cores, threads), guest)
        reserved = _reserve(cell.free_cores, pins, overhead)
        if pins is not None and (not overhead or reserved):
            break
    if not pins and not require:
        single = [(thread,) for thread in chain.from_iterable(cell.free_cores)]
        pins = _assign(1, single, guest)
        reserved = _reserve(single, pins, overhead)
    if pins is None or (overhead and not reserved):
        return None
    return Pinning(pins, reserved)


def _with_threads(cores: Cores, threads: int) -> Cores:
    return [core for core in cores if len(core) >= threads]


def _assign(threads: int, cores: Cores, guest: GuestCell) -> dict[int, int] | None:
    """Fill cores in order with so many vCPUs each; None if they are too few, empty if nothing is pinned."""
    vcpus = sorted(guest.pcpuset)
    if threads * len(cores) < len(vcpus):
        return None
    # The cores hold more threads than there are vCPUs when the last one is not filled.
    return dict(zip(vcpus, chain.from_iterable(core[:threads] for core in cores), strict=False))


def _reserve(
    cores: Cores, pins: dict[int, int] | None, overhead: int, *, whole_cores: bool = False
) -> frozenset[int] | None:
    """The first free threads that the vCPUs left over; with ``whole_cores`` on cores that they do not use."""
    if not overhead or not pins:
        return None
    taken = set(pins.values())
    if whole_cores:
        cores = [core for core in cores if taken.isdisjoint(core)]
    left = [thread for core in cores for thread in core if thread not in taken]
    return frozenset(left[:overhead]) or None
