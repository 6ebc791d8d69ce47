"""The host table: one row a compute node, one column a fact, immutable once built.

Numbers are numpy arrays. Everything else is dictionary-encoded, so that a rule runs once for each distinct
value (``columns`` has the names of both). Readers share a table without locks. A refresh builds the next
table and keeps the columns in which nothing changed.
"""

from collections.abc import Iterable, Mapping, Sequence
import copy
from datetime import datetime
from functools import cached_property
from itertools import compress

import numpy as np

from scheduler.hosts import columns
from scheduler.hosts.aggregates import Aggregates
from scheduler.hosts.coordinates import TableRow, TableRows
from scheduler.hosts.encoded_column import EncodedColumn
from scheduler.hosts.rows import HostRow, ServiceRow

#: The columns that computes report as their totals of resource classes.
_TOTALS = {
    "VCPU": "vcpus_total",
    "PCPU": "vcpus_total",
    "MEMORY_MB": "total_usable_ram_mb",
    "DISK_GB": "total_usable_disk_gb",
}


class HostTable:
    """An immutable snapshot of all hosts.

    Attributes:
        rows: A ``HostRow`` for each host.
        services: The ``ServiceRow`` of each host.
        without_service: The rows, by uuid, of the compute nodes that are no hosts since they have no service.
        aggregates: All host aggregates.
        disabled_cells: Uuids of the cells that take no part in searches that name no cell.
        unread_cells: Uuids of the cells whose hosts are missing, since their databases do not answer.
        read_at: Monotonic seconds at which reading began, for bounds on the age.
        seen_since: Since when services that are alive were seen: naive UTC; None if it is not known.
        numbers: Arrays of shape (hosts,) by column name, among them ``service_disabled``,
            ``service_forced_down`` (bool), ``service_seen`` (seconds since the epoch, UTC; NaN if
            never, infinite while the service is alive) and ``failed_at`` (when builds failed last, as far as
            it was seen; 0 without failed builds).
        coded: The dictionary-encoded columns by name, among them ``aggregates`` (``AggregateSet``), ``cell``
            (uuid) and ``host_ip`` (text or None).
    """

    def __init__(
        self,
        rows: Iterable[HostRow],
        services: Mapping[tuple[str, str], ServiceRow],
        aggregates: Aggregates,
        disabled_cells: frozenset[str] = frozenset(),
        read_at: float = 0.0,
        previous: "HostTable | None" = None,
        unread_cells: frozenset[str] = frozenset(),
        seen_since: datetime | None = None,
    ) -> None:
        """Build the table from the rows that have a service; the others are left out.

        Args:
            services: The services by (cell uuid, service host).
            previous: The table whose unchanged columns are kept. Rows and services that did not change must
                be the same objects in both tables.
        """
        # Thousands of pairs that live until the end would make the garbage collector run at each reading.
        rows = tuple(rows)
        found = [services.get((row.cell_uuid, row.host)) for row in rows]
        self.rows = rows if all(found) else tuple(compress(rows, found))
        self.services = tuple(filter(None, found))
        lost = () if all(found) else compress(rows, (service is None for service in found))
        self.without_service: Mapping[str, HostRow] = {row.uuid: row for row in lost}
        self.aggregates = aggregates
        self.disabled_cells = disabled_cells
        self.unread_cells = unread_cells
        self.read_at = read_at
        self.seen_since = seen_since
        changed_rows = changed_services = None
        numbers: columns.Numbers = {}
        coded: Mapping[str, EncodedColumn] = {}
        if previous is not None:
            changed_rows = columns.differing(self.rows, previous.rows)
            changed_services = columns.differing(self.services, previous.services)
            numbers, coded = previous.numbers, previous.coded
        self.numbers: columns.Numbers = columns.row_numbers(self.rows, numbers, changed_rows)
        self.numbers |= columns.service_numbers(self.services, numbers, changed_services)
        self.numbers["failed_at"] = self._failed_at(previous, changed_rows)
        self.coded: dict[str, EncodedColumn] = columns.coded_columns(self.rows, coded, changed_rows)
        self._set_indexes(previous, changed_rows)

    def _failed_at(self, previous: "HostTable | None", changed: TableRows | None) -> np.ndarray:
        """Return when builds failed last, as far as it was seen, of each host that has failed builds.

        Returns:
            Seconds since the epoch: the stamp with which the compute reported another number; 0 without any.
        """
        if previous is None or changed is None:
            column, rows = np.zeros(len(self.rows)), range(len(self.rows))
        elif not len(changed):
            return previous.numbers["failed_at"]
        else:
            column, rows = previous.numbers["failed_at"].copy(), changed.tolist()
            column[changed] = 0.0
        for number in rows:
            row = self.rows[number]
            if row.failed_builds:
                at = None if previous is None else previous.row_of_uuid.get(row.uuid)
                if previous is None or at is None or previous.rows[at].failed_builds != row.failed_builds:
                    column[number] = columns.epoch(row.updated)
                else:
                    column[number] = previous.numbers["failed_at"][at]
        return column

    def _set_indexes(self, previous: "HostTable | None", changed: TableRows | None) -> None:
        """Keep the indexes and aggregates of the previous table if every row has the same place there."""
        if (
            previous is not None
            and changed is not None
            and all(_place(self.rows[row]) == _place(previous.rows[row]) for row in changed)
        ):
            self.row_of_uuid, self.rows_of_host = previous.row_of_uuid, previous.rows_of_host
            self.rows_named, self.hosts_in_lower_case = previous.rows_named, previous.hosts_in_lower_case
            if self.aggregates is previous.aggregates:
                self.coded["aggregates"] = previous.coded["aggregates"]
                return
        self.coded["aggregates"] = columns.aggregate_column(self.rows, self.aggregates)

    def with_aggregates(self, aggregates: Aggregates) -> "HostTable":
        """Return a table of the same hosts in other aggregates."""
        table = copy.copy(self)
        table.aggregates = aggregates
        table.coded = self.coded | {"aggregates": columns.aggregate_column(self.rows, aggregates)}
        return table

    def read_again(self, read_at: float, seen_since: datetime | None = None) -> "HostTable":
        """Return the same table, for a reading that has found no change."""
        table = copy.copy(self)
        table.read_at, table.seen_since = read_at, seen_since
        return table

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def row_of_uuid(self) -> dict[str, TableRow]:
        """The row of each compute node, by its uuid (which its root resource provider has too)."""
        return {row.uuid: TableRow(number) for number, row in enumerate(self.rows)}

    @cached_property
    def rows_of_host(self) -> dict[tuple[str, str], list[TableRow]]:
        """The rows of each service host, by (cell uuid, host name); several nodes for ironic."""
        rows: dict[tuple[str, str], list[TableRow]] = {}
        for number, row in enumerate(self.rows):
            rows.setdefault((row.cell_uuid, row.host), []).append(TableRow(number))
        return rows

    def rows_beside(self, row: TableRow) -> list[TableRow]:
        """Return the rows of all nodes of the service host of this row, with this row."""
        node = self.rows[row]
        return self.rows_of_host[node.cell_uuid, node.host]

    @cached_property
    def rows_named(self) -> dict[str, list[TableRow]]:
        """The rows of all service hosts of a name, in whatever cell."""
        rows: dict[str, list[TableRow]] = {}
        for number, row in enumerate(self.rows):
            rows.setdefault(row.host, []).append(TableRow(number))
        return rows

    @cached_property
    def hosts_in_lower_case(self) -> dict[str, list[str]]:
        """The names of service hosts by what they are in lower case."""
        names: dict[str, list[str]] = {}
        for name in self.rows_named:
            names.setdefault(name.lower(), []).append(name)
        return names

    @cached_property
    def cell_enabled(self) -> np.ndarray:
        """Whether each row's cell takes part in searches that name no cell: bool, shape (hosts,)."""
        return self.coded["cell"].spread(lambda cell: cell not in self.disabled_cells)

    def nodes(self, host: str | None, node: str | None, cell_uuid: str | None = None) -> list[HostRow]:
        """Return compute nodes by service host, by node name, or by both, also those without a service.

        Args:
            host: The name of the service host; None for any.
            node: The name of the node; None for any.
            cell_uuid: The cell to search; None for all enabled cells.
        """
        return [
            row
            for row in (*self.rows, *self.without_service.values())
            if host in (None, row.host)
            and node in (None, row.nodename)
            and (
                row.cell_uuid not in self.disabled_cells if cell_uuid is None else row.cell_uuid == cell_uuid
            )
        ]

    def only(self, name: str) -> "HostTable":
        """Return a table of the compute nodes of a service host, by its name, that of a node or a UUID."""
        nodes = [
            row
            for row in (*self.rows, *self.without_service.values())
            if name in (row.host, row.nodename, row.uuid)
        ]
        services = {
            (row.cell_uuid, row.host): service
            for row, service in zip(self.rows, self.services, strict=True)
            if row in nodes
        }
        return HostTable(
            nodes,
            services,
            self.aggregates,
            self.disabled_cells,
            self.read_at,
            unread_cells=self.unread_cells,
            seen_since=self.seen_since,
        )

    def nodes_of_hosts(self, hosts: Iterable[str]) -> frozenset[str]:
        """Return the uuids of the compute nodes of these service hosts.

        Names compare without case; disabled cells count too (spec: placement-and-workflow 4.6).
        """
        named = (name for host in hosts for name in self.hosts_in_lower_case.get(host.lower(), ()))
        return frozenset(self.rows[row].uuid for name in named for row in self.rows_named[name])

    def find(self, uuids: Iterable[str], cell_uuid: str | None = None) -> TableRows:
        """Return the rows of the compute nodes among ``uuids``, in their order.

        A named cell is searched even if it is disabled; without a name all enabled cells are
        (spec: host-state-and-cells 2.1).
        """
        index = self.row_of_uuid
        rows = [row for row in map(index.get, uuids) if row is not None]
        return self.in_cell(TableRows(np.array(rows, dtype=np.int64)), cell_uuid)

    def in_cell(self, rows: TableRows, cell_uuid: str | None) -> TableRows:
        """Return those of the rows that are in a cell, or in any enabled one; as ``find``."""
        if cell_uuid is None:
            return TableRows(rows[self.cell_enabled[rows]]) if self.disabled_cells else rows
        return TableRows(rows[self.coded["cell"].take(rows).spread(cell_uuid.__eq__)])

    def totals(self, uuids: Sequence[str], classes: Sequence[str]) -> np.ndarray:
        """Return the totals of nodes by resource class; -1 for an unknown node; int64, (classes, nodes)."""
        rows = np.fromiter((self.row_of_uuid.get(uuid, -1) for uuid in uuids), np.int64, len(uuids))
        if not len(self):
            return np.full((len(classes), len(uuids)), -1, np.int64)
        return np.array([np.where(rows >= 0, self.numbers[_TOTALS[name]][rows], -1) for name in classes])

    def with_totals(self, rows: TableRows, amounts: Mapping[str, int]) -> TableRows:
        """Return those of the rows whose totals reach these amounts of one instance, by resource class.

        A compute reports its total as the most that one instance may have of a class.
        """
        cpus = amounts.get("VCPU", 0) + amounts.get("PCPU", 0)
        enough = (
            (self.numbers["vcpus_total"][rows] >= cpus)
            & (self.numbers["total_usable_ram_mb"][rows] >= amounts.get("MEMORY_MB", 0))
            & (self.numbers["total_usable_disk_gb"][rows] >= amounts.get("DISK_GB", 0))
        )
        return TableRows(rows[enough])


def _place(row: HostRow) -> tuple[str, str, str]:
    return row.uuid, row.cell_uuid, row.host
