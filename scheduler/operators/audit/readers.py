"""Compute nodes, instances and migrations, read from nova's databases, and what Placement has.

A database that cannot be read ends the audit: what is not read is never taken for empty. Each
statement names a bounded number of rows, and the wait for each cell is bounded by ``[berth]
cell_timeout``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from scheduler.errors import BerthError, ConfigError
from scheduler.logs import brief
from scheduler.nova_db.cells import CELL0, UNREADABLE, Cell, read_cells
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import (
    build_requests,
    cell_mappings,
    chunks,
    compute_nodes,
    instance_mappings,
    instances,
    migrations,
    services,
)
from scheduler.operators.audit.values import (
    AuditedState,
    ConsumerRecords,
    InstanceMapping,
    InstanceRecord,
    MigrationRecord,
    NodeRecord,
)
from scheduler.placement.allocations import AllocationReader, ConsumerAllocations
from scheduler.placement.client import PlacementClient
from scheduler.placement.providers import ListedProvider, list_path, read_list, read_provider

#: Rows read by one statement.
PAGE = 2000


class NovaUnreadable(BerthError):
    """A database of nova cannot be read, so that nothing can be said about what it has."""


class NovaReader:
    """Reads the API database and all cells, cell0 too. All methods raise NovaUnreadable."""

    def __init__(self, engines: Engines, calls: CellCalls, reference: str | None) -> None:
        """Read nothing yet.

        Args:
            reference: ``[database] connection``, which templates of the cells' URLs refer to.
        """
        self._engines = engines
        self._calls = calls
        self._reference = reference
        self._cells: tuple[Cell, ...] = ()

    def load_cells(self) -> None:
        """Read the list of cells; without it no cell can be read."""
        with self._api() as connection:
            self._cells = read_cells(connection, self._reference)
        if all(cell.uuid == CELL0 for cell in self._cells):
            # More likely the wrong database than a cloud without hosts.
            raise NovaUnreadable("The API database lists no cell besides cell0")

    def nodes(self) -> Iterator[list[NodeRecord]]:
        """Return the compute nodes of all cells, page by page."""
        for cell, rows in self._pages(_nodes_query(), compute_nodes.c.id):
            yield [_node(cell, row) for row in rows]

    def instances(self) -> Iterator[list[InstanceRecord]]:
        """Return the instances that are on a host, page by page."""
        for cell, rows in self._pages(
            _instances_query().where(instances.c.host.is_not(None)), instances.c.id
        ):
            yield [_instance(cell, row) for row in rows]

    def _pages(self, query: sa.Select, number: sa.Column) -> Iterator[tuple[Cell, list[sa.Row]]]:
        for cell in self._cells:
            last = 0
            while cell.uuid != CELL0:
                page = query.where(number > last).order_by(number).limit(PAGE)
                rows = self._ask([cell], partial(self._page, page))[cell.uuid]
                if not rows:
                    break
                last = rows[-1].id
                yield cell, rows

    def _page(self, query: sa.Select, cell: Cell) -> list[sa.Row]:
        with self._engine(cell).connect() as connection:
            return list(connection.execute(query))

    def nodes_at(self, hosts: Iterable[str]) -> list[NodeRecord]:
        """Return the compute nodes of these service hosts as they are now."""
        wanted = sorted(set(hosts))
        pages = self._ask(self._cells, lambda cell: self._nodes_of(cell, wanted))
        return [node for page in pages.values() for node in page]

    def records(self, uuids: Iterable[str]) -> dict[str, ConsumerRecords]:
        """Return what the databases say about each of these consumers."""
        found = {uuid: ConsumerRecords(uuid) for uuid in uuids}
        for records, moves in self._ask(
            self._cells, lambda cell: self._instances_and_moves(cell, list(found))
        ).values():
            for record in records:
                found[record.uuid].instances.append(record)
            for move in moves:
                for uuid in {move.uuid, move.instance} & found.keys():
                    if move not in found[uuid].migrations:
                        found[uuid].migrations.append(move)
        self._add_api(found)
        self._add_deleted(found)
        return found

    def _add_deleted(self, found: dict[str, ConsumerRecords]) -> None:
        """Add since when instances are deleted: consumers, and those of migrations in flight."""
        absent = {uuid for uuid, one in found.items() if not one.instances and not one.own_migrations}
        moved = {move.instance for one in found.values() for move in one.own_migrations if move.in_flight}
        wanted = sorted(absent | moved)
        rows: dict[str, datetime | None] = {}
        alive: set[str] = set()
        for live, deleted in self._ask(self._cells, lambda cell: self._life_of(cell, wanted)).values():
            alive |= live
            rows |= deleted
        for uuid in absent:
            found[uuid].deleted_at = rows.get(uuid)
        for move in (move for one in found.values() for move in one.own_migrations):
            if move.instance in moved - alive:
                move.instance_gone, move.gone_since = True, rows.get(move.instance)

    def _life_of(self, cell: Cell, uuids: list[str]) -> tuple[set[str], dict[str, datetime | None]]:
        """Return which instances have a live row in a cell, and when the others there were deleted."""
        columns = instances.c
        query = sa.select(columns.uuid, columns.deleted, columns.deleted_at)
        rows = self._rows(cell, query, columns.uuid, uuids)
        deleted = {
            row.uuid: row.deleted_at if isinstance(row.deleted_at, datetime) else None
            for row in rows
            if row.deleted
        }
        return {row.uuid for row in rows if not row.deleted}, deleted

    # -- the API database

    def _add_api(self, found: dict[str, ConsumerRecords]) -> None:
        missing = [uuid for uuid, one in found.items() if not one.instances and not one.own_migrations]
        mapped: dict[str, InstanceMapping] = {}
        requested: dict[str, datetime | None] = {}
        if missing:
            with self._api() as connection:
                mapped = _read_mappings(connection, missing)
                requested = _read_build_requests(connection, missing)
        cells = {None, *(cell.uuid for cell in self._cells)}
        if new := {one.cell for one in mapped.values()} - cells:
            raise NovaUnreadable(f"Cell {new.pop()} was added during the audit: run it again")
        for uuid in missing:
            one = found[uuid]
            one.mapping, one.build_requested = mapped.get(uuid), uuid in requested
            one.build_requested_at = requested.get(uuid)

    @contextmanager
    def _api(self) -> Iterator[sa.Connection]:
        try:
            with self._engines.api().connect() as connection:
                yield connection
        except UNREADABLE as error:
            raise NovaUnreadable(f"Cannot read the API database: {brief(error)}") from error

    # -- cells

    def _engine(self, cell: Cell) -> Engine:
        if cell.url is None:
            raise ConfigError("it has no database connection")
        return self._engines.cell(cell.uuid, cell.url)

    def _ask(self, cells: Sequence[Cell], read: Callable[[Cell], Any]) -> dict[str, Any]:
        answers = self._calls.scatter_gather(cells, read)
        for cell in cells:
            if error := answers[cell.uuid].error:
                raise NovaUnreadable(f"Cannot read the database of cell {cell}: {brief(error)}") from error
        return {uuid: answer.value for uuid, answer in answers.items()}

    def _nodes_of(self, cell: Cell, hosts: list[str]) -> list[NodeRecord]:
        return [_node(cell, row) for row in self._rows(cell, _nodes_query(), compute_nodes.c.host, hosts)]

    def _instances_and_moves(
        self, cell: Cell, uuids: list[str]
    ) -> tuple[list[InstanceRecord], list[MigrationRecord]]:
        found = [
            _instance(cell, row) for row in self._rows(cell, _instances_query(), instances.c.uuid, uuids)
        ]
        rows = [
            *self._rows(cell, _migrations_query(), migrations.c.uuid, uuids),
            *self._rows(cell, _migrations_query(), migrations.c.instance_uuid, uuids),
        ]
        return found, [_migration(cell, row) for row in rows]

    def _rows(self, cell: Cell, query: sa.Select, column: sa.Column, values: list[str]) -> list[sa.Row]:
        with self._engine(cell).connect() as connection:
            return _named_rows(connection, query, column, values)


def _nodes_query() -> sa.Select:
    columns = compute_nodes.c
    service = sa.exists().where(
        services.c.deleted == 0, services.c.binary == "nova-compute", services.c.host == columns.host
    )
    names = columns.id, columns.uuid, columns.host, columns.hypervisor_hostname, service.label("has_service")
    return sa.select(*names).where(columns.deleted == 0, columns.uuid.is_not(None), columns.host.is_not(None))


def _instances_query() -> sa.Select:
    columns = instances.c
    return sa.select(
        columns.id,
        columns.uuid,
        columns.host,
        columns.node,
        columns.vm_state,
        columns.created_at,
        columns.updated_at,
    ).where(columns.deleted == 0)


def _migrations_query() -> sa.Select:
    return sa.select(migrations).where(migrations.c.deleted == 0)


def _node(cell: Cell, row: sa.Row) -> NodeRecord:
    return NodeRecord(row.uuid, cell.uuid, row.host, row.hypervisor_hostname, bool(row.has_service))


def _instance(cell: Cell, row: sa.Row) -> InstanceRecord:
    return InstanceRecord(row.uuid, cell.uuid, row.host, row.node, row.vm_state, _changed_at(row))


def _migration(cell: Cell, row: sa.Row) -> MigrationRecord:
    return MigrationRecord(
        row.uuid,
        row.instance_uuid,
        cell.uuid,
        row.migration_type,
        row.status,
        (row.source_compute, row.source_node),
        (row.dest_compute, row.dest_node),
        _changed_at(row),
    )


def _changed_at(row: sa.Row) -> datetime | None:
    # A value that is no time, such as MySQL's zero date, counts as none.
    moments = [moment for moment in (row.created_at, row.updated_at) if isinstance(moment, datetime)]
    return max(moments, default=None)


def _read_mappings(connection: sa.Connection, uuids: list[str]) -> dict[str, InstanceMapping]:
    columns = instance_mappings.c
    query = sa.select(
        columns.instance_uuid, columns.created_at, columns.updated_at, cell_mappings.c.uuid
    ).join_from(instance_mappings, cell_mappings, isouter=True)
    rows = _named_rows(connection, query, columns.instance_uuid, uuids)
    return {row.instance_uuid: InstanceMapping(row.uuid, _changed_at(row)) for row in rows}


def _read_build_requests(connection: sa.Connection, uuids: list[str]) -> dict[str, datetime | None]:
    columns = build_requests.c
    query = sa.select(columns.instance_uuid, columns.created_at, columns.updated_at)
    rows = _named_rows(connection, query, columns.instance_uuid, uuids)
    return {row.instance_uuid: _changed_at(row) for row in rows}


def _named_rows(
    connection: sa.Connection, query: sa.Select, column: sa.Column, uuids: list[str]
) -> list[sa.Row]:
    return [row for piece in chunks(uuids) for row in connection.execute(query.where(column.in_(piece)))]


SHARING = "MISC_SHARES_VIA_AGGREGATE"


class PlacementReader:
    """Reads Placement with some requests at once. Every wait is bounded by the client.

    All methods raise PlacementError if there is no usable answer.
    """

    def __init__(self, client: PlacementClient, at_once: int) -> None:
        self._client = client
        self._consumers = AllocationReader(client)
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="placement")

    def close(self) -> None:
        """Stop; requests that were not yet sent are not sent."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def providers(self) -> dict[str, ListedProvider]:
        """Return all providers by UUID."""
        return {one.uuid: one for one in read_list(self._client, list_path())}

    def sharing(self) -> frozenset[str]:
        """Return the roots of the trees that share resources with other hosts."""
        sharing = read_list(self._client, list_path(required=[SHARING]))
        return frozenset(one.root_provider_uuid for one in sharing)

    def provider(self, provider: str) -> ListedProvider | None:
        """Return a provider, None if it does not exist."""
        path = f"/resource_providers?uuid={quote(provider, safe='')}"
        return next(iter(read_list(self._client, path)), None)

    def states(self, providers: Iterable[ListedProvider]) -> list[AuditedState | None]:
        """Return the state of each provider in order; None if it is gone."""
        return list(self._pool.map(self._state, providers))

    def holdings(self, consumers: Iterable[str]) -> list[ConsumerAllocations]:
        """Return what each consumer holds, in order."""
        return list(self._pool.map(self._consumers.read, consumers))

    def _state(self, provider: ListedProvider) -> AuditedState | None:
        # Allocations come before usages: one that is added between them raises the generation.
        held = read_provider(self._client, provider.uuid, "allocations")
        has = read_provider(self._client, provider.uuid, "usages", "inventories")
        if held is None or has is None:
            return None
        return AuditedState(
            provider,
            {name: one.capacity for name, one in has.inventories.items()},
            has.used,
            {uuid: one.resources for uuid, one in held.allocations.items()},
            consistent=held.generation == has.generation,
        )
