"""The NUMA topology of a guest, as plain values (spec: numa-and-pci 1.3, wire-and-config 3.8)."""

from dataclasses import dataclass, replace

from scheduler.errors import InvalidRequest
from scheduler.pci.wire import field, hash_once

SMALL, LARGE, ANY = -1, -2, -3

DEDICATED, MIXED = "dedicated", "mixed"
ISOLATE, REQUIRE = "isolate", "require"


@dataclass(frozen=True)
class GuestCell:
    """One cell of a guest.

    Attributes:
        id: Its number; after a fit, the id of its host cell.
        cpuset: The floating vCPUs.
        pcpuset: The pinned vCPUs.
        memory: In MiB.
        pagesize: In KiB, or SMALL, LARGE, ANY, or None; after a fit never one of these words.
        cpu_policy: dedicated, mixed, shared or None.
        thread_policy: prefer, isolate, require or None.
        pins: Pairs (vCPU, host CPU), set by a fit.
        reserved: Host CPUs for emulator threads, set by a fit.
    """

    id: int
    cpuset: frozenset[int] = frozenset()
    pcpuset: frozenset[int] = frozenset()
    memory: int = 0
    pagesize: int | None = None
    cpu_policy: str | None = None
    thread_policy: str | None = None
    pins: tuple[tuple[int, int], ...] | None = None
    reserved: frozenset[int] | None = None

    @property
    def has_pinned(self) -> bool:
        return self.cpu_policy in (DEDICATED, MIXED)

    @property
    def has_floating(self) -> bool:
        return self.cpu_policy != DEDICATED


@hash_once
@dataclass(frozen=True)
class GuestTopology:
    """The cells of a guest.

    Attributes:
        isolated_emulator: Whether emulator threads get a host CPU of their own.
    """

    cells: tuple[GuestCell, ...]
    isolated_emulator: bool = False

    @property
    def cell_ids(self) -> frozenset[int]:
        return frozenset(cell.id for cell in self.cells)

    def with_cells(self, cells: tuple[GuestCell, ...]) -> "GuestTopology":
        return replace(self, cells=cells)


def carried_state(guest: GuestTopology | None) -> tuple[tuple[int, int | None], ...] | None:
    """Return what a fit leaves in a guest that influences the next fit: ids and page sizes of its cells.

    The id of a single cell has no influence (spec: numa-and-pci 3.13).
    """
    if guest is None:
        return None
    several = len(guest.cells) > 1
    return tuple((cell.id if several else 0, cell.pagesize) for cell in guest.cells)


def guest_topology_from(obj: object | None) -> GuestTopology | None:
    """Return the plain topology of an InstanceNUMATopology object; None for None and without cells.

    Raises:
        InvalidRequest: A cell has no id, or no memory.
    """
    cells = field(obj, "cells")
    if not cells:
        return None
    isolated = field(obj, "emulator_threads_policy") == ISOLATE
    return GuestTopology(tuple(_cell_from(cell) for cell in cells), isolated)


def _cell_from(obj: object) -> GuestCell:
    policy = field(obj, "cpu_policy")
    cpuset, pcpuset = frozenset(field(obj, "cpuset") or ()), field(obj, "pcpuset")
    if pcpuset is None and policy == DEDICATED:  # before version 1.5, cpuset has the pinned vCPUs too
        cpuset, pcpuset = frozenset(), cpuset
    pins, reserved = field(obj, "cpu_pinning_raw"), field(obj, "cpuset_reserved")
    return GuestCell(
        id=_number_of(obj, "id"),
        cpuset=cpuset,
        pcpuset=frozenset(pcpuset or ()),
        memory=_number_of(obj, "memory"),
        pagesize=field(obj, "pagesize"),
        cpu_policy=policy,
        thread_policy=field(obj, "cpu_thread_policy"),
        pins=None if pins is None else tuple(sorted((int(vcpu), cpu) for vcpu, cpu in pins.items())),
        reserved=None if reserved is None else frozenset(reserved),
    )


def _number_of(cell: object, name: str) -> int:
    value = field(cell, name)
    if value is None:
        raise InvalidRequest(f"A cell of numa_topology has no {name}")
    return int(value)
