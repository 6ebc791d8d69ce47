"""Other hosts that a build can fall back to (spec: placement-and-workflow 5.5).

Selections, as conductors expect them (spec: placement-and-workflow 5.5, wire-and-config 3.13).
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from scheduler.hosts.view import HostView
from scheduler.objects import SchedulerLimits, Selection


def alternates(
    hosts: HostView,
    order: Iterable[int],
    cell_uuid: str,
    chosen: Collection[str],
    mapped: Callable[[str], bool],
) -> Iterator[int]:
    """Indices of the hosts of a cell that can be offered, in the given order.

    ``chosen``: uuids of the compute nodes selected for any instance of the request, which are left out. So
    are hosts without a candidate to claim, and those that conductors do not know (``mapped`` is false).
    """
    for index in order:
        row = hosts.row(index)
        if row.cell_uuid != cell_uuid or row.uuid in chosen or not hosts.candidates(index):
            continue
        if mapped(row.host):
            yield index


NO_ALLOCATION = "null"
_LIMITS = ("numa_topology", "vcpu", "memory_mb", "disk_gb")


def selection(hosts: HostView, index: int, candidate: Any, default_zone: str) -> Selection:
    """The host at ``index`` with an allocation candidate of its own; None where nothing is to be claimed."""
    row = hosts.row(index)
    return Selection(
        compute_node_uuid=row.uuid,
        service_host=row.host,
        nodename=row.nodename,
        cell_uuid=row.cell_uuid,
        limits=scheduler_limits(hosts.limits(index)),
        allocation_request=NO_ALLOCATION if candidate is None else candidate.text(),
        allocation_request_version=None if candidate is None else candidate.version,
        availability_zone=hosts.coded("aggregates")[index].availability_zone(default_zone),
    )


def scheduler_limits(limits: dict[str, Any]) -> SchedulerLimits:
    """What rules wrote for a host; amounts are cut to integers, unknown keys dropped."""
    known = {name: limits[name] for name in _LIMITS if limits.get(name) is not None}
    whole = {name: value if name == "numa_topology" else int(value) for name, value in known.items()}
    return SchedulerLimits.from_dict(whole)


def as_dicts(selections: list[list[Selection]]) -> list[dict[str, Any]]:
    """The form for callers that did not ask for objects: the chosen host of each instance."""
    return [chosen[0].to_dict() for chosen in selections]
