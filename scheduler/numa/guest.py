"""The NUMA cells of a guest, as values.

spec: numa-and-pci 1.3, wire-and-config 3.8
"""

from dataclasses import dataclass, replace

SMALL, LARGE, ANY = -1, -2, -3

DEDICATED, MIXED, SHARED = "dedicated", "mixed", "shared"
ISOLATE, REQUIRE, PREFER = "isolate", "require", "prefer"


@dataclass(frozen=True)
class GuestCell:
    """One NUMA node of a guest.

    ``cpuset`` are its floating vCPUs, ``pcpuset`` the pinned ones; ``memory`` is in MiB. ``pagesize`` is in
    KiB, SMALL, LARGE, ANY, or None. A fit turns ``id`` into the host cell's id, makes ``pagesize`` definite,
    and sets ``pins`` (vCPU, host CPU) and ``reserved`` (host CPUs for emulator threads).
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
        """May some of its vCPUs be pinned?"""
        return self.cpu_policy in (DEDICATED, MIXED)

    @property
    def has_floating(self) -> bool:
        """May some of its vCPUs float?"""
        return self.cpu_policy != DEDICATED


@dataclass(frozen=True)
class GuestTopology:
    """The cells of a guest; ``isolated_emulator``: its emulator threads get a host CPU of their own."""

    cells: tuple[GuestCell, ...]
    isolated_emulator: bool = False

    @property
    def cell_ids(self) -> frozenset[int]:
        """After a fit: the host cells that it uses."""
        return frozenset(cell.id for cell in self.cells)

    def with_cells(self, cells: tuple[GuestCell, ...]) -> "GuestTopology":
        return replace(self, cells=cells)


def guest_topology_from(obj: object | None) -> GuestTopology | None:
    """The plain topology of an InstanceNUMATopology object; None for None and for one without cells."""
    cells = _field(obj, "cells")
    if not cells:
        return None
    isolated = _field(obj, "emulator_threads_policy") == ISOLATE
    return GuestTopology(tuple(_cell_from(cell) for cell in cells), isolated)


def _cell_from(obj: object) -> GuestCell:
    policy = _field(obj, "cpu_policy")
    cpuset, pcpuset = frozenset(_field(obj, "cpuset") or ()), _field(obj, "pcpuset")
    if pcpuset is None and policy == DEDICATED:  # cells below 1.5 keep their pinned vCPUs in cpuset
        cpuset, pcpuset = frozenset(), cpuset
    pins, reserved = _field(obj, "cpu_pinning_raw"), _field(obj, "cpuset_reserved")
    return GuestCell(
        id=_field(obj, "id"),
        cpuset=cpuset,
        pcpuset=frozenset(pcpuset or ()),
        memory=_field(obj, "memory"),
        pagesize=_field(obj, "pagesize"),
        cpu_policy=policy,
        thread_policy=_field(obj, "cpu_thread_policy"),
        pins=None if pins is None else tuple(sorted((int(vcpu), cpu) for vcpu, cpu in pins.items())),
        reserved=None if reserved is None else frozenset(reserved),
    )


def _field(obj: object, name: str) -> object | None:
    # An unset field of a versioned object raises NotImplementedError, or tries to load itself.
    try:
        return getattr(obj, name, None)
    except NotImplementedError:
        return None
