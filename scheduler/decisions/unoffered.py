"""Why Placement does not offer compute nodes to a request, as far as the host table shows."""

from collections.abc import Collection, Iterator

import numpy as np

from scheduler.decisions.constraint_names import RequestNames
from scheduler.hosts.rows import HostRow
from scheduler.hosts.table import HostTable
from scheduler.request.reading import read
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.request.targets import NamedTarget, named_target

#: A disabled compute sets this trait in Placement; each query forbids it.
DISABLED = "service disabled, hidden by trait COMPUTE_STATUS_DISABLED"


class Unoffered:
    """Explains the hosts that Placement did not offer to one request."""

    def __init__(self, table: HostTable, request: SchedulingRequest) -> None:
        destination = read(request.spec, "requested_destination")
        names = RequestNames(request.spec, table.aggregates)
        self._table = table
        self._request = request
        self._required = [
            (frozenset(uuids), f"not in {names.required(uuids)}")
            for uuids in (each.split(",") for each in read(destination, "aggregates", ()))
        ]
        self._forbidden = {
            uuid: f"in {names.forbidden([uuid])}" for uuid in read(destination, "forbidden_aggregates", ())
        }

    def disabled(self, offered: Collection[int]) -> list[int]:
        """Return the rows of hosts that only lack an enabled service."""
        disabled = np.flatnonzero(self._table.numbers["service_disabled"]).tolist()
        rows = set(disabled).difference(offered)
        return [row for row in sorted(rows) if list(self.reasons(row)) == [DISABLED]]

    def reasons(self, row: int) -> Iterator[str]:
        """Yield the reasons against the host in a row, except its inventory and traits."""
        host = self._table.rows[row]
        aggregates = self._table.coded["aggregates"][row].uuids
        target = named_target(self._request.spec)
        cell_uuid = self._request.cell_uuid
        if not self._table.cell_enabled[row] if cell_uuid is None else host.cell_uuid != cell_uuid:
            yield "in a cell that takes no part"
        if target and not _is_named(host, target):
            yield f"not the requested host {target.host or target.node}"
        for uuids, reason in self._required:
            if not uuids & aggregates:
                yield reason
        for uuid, reason in self._forbidden.items():
            if uuid in aggregates:
                yield reason
        if self._table.numbers["service_disabled"][row]:
            yield DISABLED


def _is_named(host: HostRow, target: NamedTarget) -> bool:
    """Return whether a request names a host; names of service hosts compare without case."""
    named = (target.host or host.host).lower() == host.host.lower()
    return named and target.node in (None, host.nodename)
