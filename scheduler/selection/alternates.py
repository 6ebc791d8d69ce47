"""Other hosts that a build can fall back to (spec: placement-and-workflow 5.5)."""

from collections.abc import Collection, Iterable

from scheduler.hosts.view import HostView


def alternates(
    hosts: HostView, order: Iterable[int], cell_uuid: str, chosen: Collection[str], at_most: int
) -> list[int]:
    """Indices of up to ``at_most`` hosts of a cell, best first.

    ``chosen``: uuids of the compute nodes selected for any instance of the request, which are left out, as
    are hosts without a candidate to claim.
    """
    found: list[int] = []
    for index in order:
        if len(found) >= at_most:
            break
        row = hosts.row(index)
        if row.cell_uuid == cell_uuid and row.uuid not in chosen and hosts.candidates(index):
            found.append(index)
    return found
