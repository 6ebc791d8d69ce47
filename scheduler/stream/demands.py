"""What an instance needs of NUMA cells and PCI devices, as an entry of a record says it.

The bounds are those of what nova can ask for, with room: a wrong record costs one fit that is tried in vain.
"""

from typing import Annotated

import msgspec

from scheduler.numa.guest import GuestCell, GuestTopology
from scheduler.numa.topology import Limits, Network
from scheduler.numa.usage import InstanceDemand
from scheduler.pci.requests import PciRequest

LARGEST = 4096
"""Bytes of the largest needs that are kept; a guest with 256 CPUs has about 1,000."""

_encoder = msgspec.json.Encoder()

Text = Annotated[str, msgspec.Meta(max_length=255)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Cpus = Annotated[tuple[Count, ...], msgspec.Meta(max_length=4096)]
PageSize = Annotated[int, msgspec.Meta(ge=-3, le=1 << 40)]
Spec = Annotated[dict[Text, Text | None], msgspec.Meta(max_length=32)]
Ratio = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class Cell(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cell of the guest; the names are those of ``numa.guest.GuestCell``."""

    id: Count
    cpuset: Cpus = ()
    pcpuset: Cpus = ()
    memory: Count = 0
    pagesize: PageSize | None = None
    cpu_policy: Text | None = None
    thread_policy: Text | None = None


class Networks(msgspec.Struct, frozen=True, omit_defaults=True):
    """The networks of the guest."""

    physnets: Annotated[tuple[Text, ...], msgspec.Meta(max_length=64)] = ()
    tunneled: bool = False


class Ratios(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits on the host."""

    cpu: Ratio
    ram: Ratio
    network: Networks | None = None


class Devices(msgspec.Struct, frozen=True, omit_defaults=True):
    """A PCI request; the names are those of ``pci.requests.PciRequest``."""

    count: Count
    specs: Annotated[tuple[Spec, ...], msgspec.Meta(max_length=64)] = ()
    alias_name: Text | None = None
    request_id: Text | None = None
    numa_policy: Text = ""


class Needs(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one instance needs.

    Attributes:
        cells: The cells of its topology; empty for none.
        isolated_emulator: Whether emulator threads get a host CPU of their own.
        devices: Its PCI requests.
        providers: By request group, the resource providers that serve it; None: it has no groups.
    """

    cells: Annotated[tuple[Cell, ...], msgspec.Meta(max_length=64)] = ()
    isolated_emulator: bool = False
    limits: Ratios | None = None
    devices: Annotated[tuple[Devices, ...], msgspec.Meta(max_length=64)] = ()
    providers: dict[Text, tuple[Text, ...]] | None = None


def needs_of(demand: InstanceDemand | None) -> Needs | None:
    """Return a demand as an entry says it; None for none."""
    if demand is None:
        return None
    guest = demand.guest
    return Needs(
        tuple(map(_cell, guest.cells)) if guest else (),
        bool(guest and guest.isolated_emulator),
        _ratios(demand.limits),
        tuple(
            Devices(
                each.count,
                tuple(dict(spec) for spec in each.specs),
                each.alias_name,
                each.request_id,
                each.numa_policy,
            )
            for each in demand.requests or ()
        ),
        None
        if demand.mappings is None
        else {group: tuple(providers or ()) for group, providers in demand.mappings.items()},
    )


def demand_of(needs: Needs | None) -> InstanceDemand | None:
    """Return what an entry says as a demand; None for none, and for one that is too large to be kept."""
    if needs is None or len(_encoder.encode(needs)) > LARGEST:
        return None
    cells = tuple(
        GuestCell(
            cell.id,
            frozenset(cell.cpuset),
            frozenset(cell.pcpuset),
            cell.memory,
            cell.pagesize,
            cell.cpu_policy,
            cell.thread_policy,
        )
        for cell in needs.cells
    )
    requests = tuple(
        PciRequest(
            each.count,
            tuple(tuple(sorted(spec.items())) for spec in each.specs),
            each.alias_name,
            each.request_id,
            each.numa_policy,
        )
        for each in needs.devices
    )
    guest = GuestTopology(cells, needs.isolated_emulator) if cells else None
    return InstanceDemand(guest, _limits(needs.limits), requests, needs.providers)


def _cell(cell: GuestCell) -> Cell:
    return Cell(
        cell.id,
        tuple(sorted(cell.cpuset)),
        tuple(sorted(cell.pcpuset)),
        cell.memory,
        cell.pagesize,
        cell.cpu_policy,
        cell.thread_policy,
    )


def _ratios(limits: Limits | None) -> Ratios | None:
    if limits is None:
        return None
    network = limits.network
    networks = None if network is None else Networks(tuple(sorted(network.physnets)), network.tunneled)
    return Ratios(limits.cpu_ratio, limits.ram_ratio, networks)


def _limits(ratios: Ratios | None) -> Limits | None:
    if ratios is None:
        return None
    networks = ratios.network
    network = None if networks is None else Network(frozenset(networks.physnets), networks.tunneled)
    return Limits(ratios.cpu, ratios.ram, network)
