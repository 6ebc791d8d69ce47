"""The reply: the Selection of each chosen host, and its alternates (spec: placement-and-workflow 5.5)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
import math
from typing import Any

from scheduler import objects
from scheduler.hosts.coordinates import ViewIndex
from scheduler.hosts.view import HostView
from scheduler.placement.answer import AllocationCandidate

NO_ALLOCATION = "null"
_LIMITS = ("numa_topology", "vcpu", "memory_mb", "disk_gb")

Selections = list[list[objects.Selection]]
"""For each instance of a request the chosen host, then its alternates."""


def alternates(
    hosts: HostView,
    order: Iterable[ViewIndex],
    cell_uuid: str,
    chosen: Collection[str],
    is_mapped: Callable[[str], bool],
) -> Iterator[ViewIndex]:
    """Yield the hosts of a cell that a build can fall back to, in the given order.

    Hosts without a candidate to claim are left out.

    Args:
        order: Indices of ``hosts``, best first.
        cell_uuid: The cell of the chosen host.
        chosen: Uuids of the compute nodes chosen for any instance of the request; they are left out.
        is_mapped: Whether conductors know the cell of a service host; others are left out.
    """
    for index in order:
        row = hosts.row(index)
        if row.cell_uuid != cell_uuid or row.uuid in chosen or not hosts.candidates(index):
            continue
        if is_mapped(row.host):
            yield index


def selection(
    hosts: HostView, index: ViewIndex, candidate: AllocationCandidate | None, default_zone: str
) -> objects.Selection:
    """Return the Selection of a host (spec: wire-and-config 3.13).

    Args:
        candidate: What was or can be claimed; None where the request claims nothing.
        default_zone: The availability zone of hosts that no aggregate puts in one.
    """
    row = hosts.row(index)
    return objects.Selection(
        compute_node_uuid=row.uuid,
        service_host=row.host,
        nodename=row.nodename,
        cell_uuid=row.cell_uuid,
        limits=scheduler_limits(hosts.limits(index)),
        allocation_request=NO_ALLOCATION if candidate is None else candidate.text(),
        allocation_request_version=None if candidate is None else candidate.version,
        availability_zone=hosts.coded("aggregates")[index].availability_zone(default_zone),
    )


def scheduler_limits(limits: Mapping[str, Any]) -> objects.SchedulerLimits:
    """Return what rules wrote for a host; amounts are cut to integers, unknown keys are left out.

    The same holds for an amount without a bound, as of a host whose allocation ratio is beyond all numbers.
    """
    known = {name: limits[name] for name in _LIMITS if limits.get(name) is not None}
    topology = known.pop("numa_topology", None)
    amounts = {name: int(value) for name, value in known.items() if math.isfinite(float(value))}
    return objects.SchedulerLimits.from_dict(amounts | {"numa_topology": topology})


def as_dicts(selections: Selections) -> list[dict[str, Any]]:
    """Return the form for callers that do not want objects: the chosen host of each instance."""
    return [chosen[0].to_dict() for chosen in selections]
