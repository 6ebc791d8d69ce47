"""Other hosts that a build can fall back to (spec: placement-and-workflow 5.5)."""

from collections.abc import Callable, Collection, Iterable, Iterator

from scheduler.hosts.view import HostView


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
