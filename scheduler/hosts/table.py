"""The host table: one row a compute node, one column a fact, immutable once built.

Numbers are numpy arrays; everything else is dictionary-encoded, so that a rule runs once per distinct value
(names of both: ``hosts.columns``). Readers share a table without locks; a refresh builds the next one, and
takes over the columns in which nothing changed.
"""

from collections.abc import Iterable, Mapping
import copy
from functools import cached_property

import numpy as np

from scheduler.hosts import columns
from scheduler.hosts.aggregates import Aggregates
from scheduler.hosts.rows import HostRow, ServiceRow


class HostTable:
    """An immutable snapshot of all hosts.

    ``rows`` holds a ``HostRow`` a host; ``services`` the ``ServiceRow`` of each; ``numbers`` arrays of shape
    (hosts,) by column name, among them ``service_disabled``, ``service_forced_down`` (bool) and
    ``service_seen`` (seconds since the epoch, UTC; NaN if never); ``coded`` the dictionary-encoded columns,
    among them ``aggregates`` (``AggregateSet``), ``cell`` (uuid) and ``host_ip`` (text or None).
    """

    def __init__(
        self,
        rows: Iterable[HostRow],
        services: Mapping[tuple[str, str], ServiceRow],
        aggregates: Aggregates,
        disabled_cells: frozenset[str] = frozenset(),
        read_at: float = 0.0,
        previous: "HostTable | None" = None,
    ) -> None:
        """Build from the rows that have a service, keyed (cell uuid, service host); the others are left out.

        ``read_at``: monotonic seconds at which reading began, for age bounds. ``previous``: the table to take
        over what did not change from; rows and services that did not change must be the same objects in both.
        """
        pairs = [(row, services.get((row.cell_uuid, row.host))) for row in rows]
        self.rows = tuple([row for row, service in pairs if service is not None])
        self.services = tuple([service for _, service in pairs if service is not None])
        self.aggregates = aggregates
        self.disabled_cells = disabled_cells
        self.read_at = read_at
        if previous is None:
            changed = beaten = None
            numbers, coded = {}, {}
        else:
            changed = columns.differing(self.rows, previous.rows)
            beaten = columns.differing(self.services, previous.services)
            numbers, coded = previous.numbers, previous.coded
        self.numbers = columns.row_numbers(self.rows, numbers, changed)
        self.numbers |= columns.service_numbers(self.services, numbers, beaten)
        self.coded = columns.coded_columns(self.rows, coded, changed)
        self._index(previous, changed)

    def _index(self, previous: "HostTable | None", changed: np.ndarray | None) -> None:
        """What depends on where each row belongs; taken over if all are where they were."""
        if (
            previous is not None
            and changed is not None
            and all(_place(self.rows[i]) == _place(previous.rows[i]) for i in changed)
        ):
            self.row_of_uuid, self.rows_of_host = previous.row_of_uuid, previous.rows_of_host
            self.rows_named = previous.rows_named
            if self.aggregates is previous.aggregates:
                self.coded["aggregates"] = previous.coded["aggregates"]
                return
        self.coded["aggregates"] = columns.aggregate_column(self.rows, self.aggregates)

    def with_aggregates(self, aggregates: Aggregates) -> "HostTable":
        """The same hosts in other aggregates."""
        table = copy.copy(self)
        table.aggregates = aggregates
        table.coded = self.coded | {"aggregates": columns.aggregate_column(self.rows, aggregates)}
        return table

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def row_of_uuid(self) -> dict[str, int]:
        """Row number by compute node uuid (the root resource provider's uuid)."""
        return {row.uuid: number for number, row in enumerate(self.rows)}

    @cached_property
    def rows_of_host(self) -> dict[tuple[str, str], list[int]]:
        """Row numbers by (cell uuid, service host); several nodes for ironic."""
        found: dict[tuple[str, str], list[int]] = {}
        for number, row in enumerate(self.rows):
            found.setdefault((row.cell_uuid, row.host), []).append(number)
        return found

    def rows_beside(self, row: int) -> list[int]:
        """The rows of all nodes of the service host that this row belongs to, itself among them."""
        node = self.rows[row]
        return self.rows_of_host[node.cell_uuid, node.host]

    @cached_property
    def rows_named(self) -> dict[str, list[int]]:
        """Row numbers by service host name, whatever the cell."""
        found: dict[str, list[int]] = {}
        for number, row in enumerate(self.rows):
            found.setdefault(row.host, []).append(number)
        return found

    @cached_property
    def cell_enabled(self) -> np.ndarray:
        """Whether each row's cell takes part in searches that name no cell, shape (hosts,)."""
        return self.coded["cell"].spread(lambda cell: cell not in self.disabled_cells)

    def nodes(self, host: str | None, node: str | None, cell_uuid: str | None = None) -> list[HostRow]:
        """Compute nodes of a service host, by node name, or both; in one cell, or in all enabled ones."""
        return [
            row
            for row in self.rows
            if host in (None, row.host)
            and node in (None, row.nodename)
            and (
                row.cell_uuid not in self.disabled_cells if cell_uuid is None else row.cell_uuid == cell_uuid
            )
        ]

    def nodes_of_hosts(self, hosts: Iterable[str]) -> frozenset[str]:
        """Uuids of the compute nodes of these service hosts, whose names compare without case; disabled cells
        count too (spec: placement-and-workflow 4.6).
        """
        names = {host.lower() for host in hosts}
        return frozenset(row.uuid for row in self.rows if row.host.lower() in names) if names else frozenset()

    def find(self, uuids: Iterable[str], cell_uuid: str | None = None) -> np.ndarray:
        """Row numbers of the compute nodes among ``uuids``, in their order; unknown ones drop out.

        A named cell is used even if it is disabled; without one, all enabled cells are (spec:
        host-state-and-cells 2.1).
        """
        index = self.row_of_uuid
        found = [number for number in map(index.get, uuids) if number is not None]
        numbers = np.array(found, dtype=np.int64)
        if cell_uuid is None:
            return numbers[self.cell_enabled[numbers]] if self.disabled_cells else numbers
        return numbers[self.coded["cell"].take(numbers).spread(cell_uuid.__eq__)]


def _place(row: HostRow) -> tuple[str, str, str]:
    return row.uuid, row.cell_uuid, row.host
