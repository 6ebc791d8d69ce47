"""Compute nodes, instances and migrations, read from nova's databases, and what Placement has.

A database that cannot be read ends the audit: what is not read is never taken for empty. Each
statement names a bounded number of rows, and the wait for each cell is bounded by ``[berth]
cell_timeout``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from scheduler.errors import BerthError, ConfigError
from scheduler.logs import brief
from scheduler.nova_db.cells import CELL0, UNREADABLE, Cell, read_cells
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import (
    build_requests,
    cell_mappings,
    compute_nodes,
    instance_mappings,
    instances,
    migrations,
    rows_with,
    services,
)
from scheduler.operators.audit.values import (
    AuditedState,
    ConsumerRecords,
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
        query = _instances_query().where(instances.c.host.is_not(None))
        for cell, rows in self._pages(query, instances.c.id):
            yield [_instance(cell, row) for row in rows]

    def nodes_at(self, hosts: Iterable[str]) -> list[NodeRecord]:
        """Return the compute nodes of these service hosts as they are now."""
        wanted = sorted(set(hosts))
        found = self._ask(
            self._cells, lambda cell: self._rows(cell, _nodes_query(), compute_nodes.c.host, wanted)
        )
        return [_node(cell, row) for cell, rows in found for row in rows]

    def records(self, uuids: Iterable[str]) -> dict[str, ConsumerRecords]:
        """Return what the databases say about each of these consumers."""
        found = {uuid: ConsumerRecords(uuid) for uuid in uuids}
        moves = sa.select(migrations).where(migrations.c.deleted == 0)

        def read(cell: Cell) -> tuple[list[sa.Row], list[sa.Row]]:
            rows = self._rows(cell, _instances_query(), instances.c.uuid, found)
            columns = migrations.c.uuid, migrations.c.instance_uuid
            return rows, [row for column in columns for row in self._rows(cell, moves, column, found)]

        for cell, (rows, moved) in self._ask(self._cells, read):
            for row in rows:
                found[row.uuid].instances.append(_instance(cell, row))
            for move in (_migration(cell, row) for row in moved):
                for uuid in {move.uuid, move.instance} & found.keys():
                    if move not in found[uuid].migrations:
                        found[uuid].migrations.append(move)
        absent = [uuid for uuid, one in found.items() if not one.instances and not one.own_migrations]
        if absent:
            self._add_api(found, absent)
        self._add_deleted(found, absent)
        return found

    def _add_deleted(self, found: dict[str, ConsumerRecords], absent: list[str]) -> None:
        """Add since when instances are deleted: consumers, and those of migrations in flight."""
        own = [move for one in found.values() for move in one.own_migrations]
        moved = {move.instance for move in own if move.in_flight}
        columns = instances.c
        query = sa.select(columns.uuid, columns.deleted, columns.deleted_at)
        wanted = sorted(moved.union(absent))
        alive, gone = set[str](), dict[str, datetime | None]()
        for _, rows in self._ask(self._cells, lambda cell: self._rows(cell, query, columns.uuid, wanted)):
            alive |= {row.uuid for row in rows if not row.deleted}
            gone |= {row.uuid: _moment(row.deleted_at) for row in rows if row.deleted}
        for uuid in absent:
            found[uuid].deleted_at = gone.get(uuid)
        for move in own:
            if move.instance in moved - alive:
                move.instance_gone, move.gone_since = True, gone.get(move.instance)

    def _add_api(self, found: dict[str, ConsumerRecords], absent: list[str]) -> None:
        mapped, requested = instance_mappings.c, build_requests.c
        mappings = sa.select(
            mapped.instance_uuid, mapped.created_at, mapped.updated_at, cell_mappings.c.uuid
        ).join_from(instance_mappings, cell_mappings, isouter=True)
        builds = sa.select(requested.instance_uuid, requested.created_at, requested.updated_at)
        known = {None, *(cell.uuid for cell in self._cells)}
        with self._api() as connection:
            for row in rows_with(connection, mappings, mapped.instance_uuid, absent):
                if row.uuid not in known:
                    raise NovaUnreadable(f"Cell {row.uuid} was added during the audit: run it again")
                found[row.instance_uuid].mapped_at = _changed_at(row)
            for row in rows_with(connection, builds, requested.instance_uuid, absent):
                one = found[row.instance_uuid]
                one.build_requested, one.build_requested_at = True, _changed_at(row)

    @contextmanager
    def _api(self) -> Iterator[sa.Connection]:
        try:
            with self._engines.api().connect() as connection:
                yield connection
        except UNREADABLE as error:
            raise NovaUnreadable(f"Cannot read the API database: {brief(error)}") from error

    # -- cells

    def _ask(self, cells: Sequence[Cell], read: Callable[[Cell], Any]) -> list[tuple[Cell, Any]]:
        """Return what is read of each cell."""
        answers = self._calls.scatter_gather(cells, read)
        for cell in cells:
            if error := answers[cell.uuid].error:
                raise NovaUnreadable(f"Cannot read the database of cell {cell}: {brief(error)}") from error
        return [(cell, answers[cell.uuid].value) for cell in cells]

    def _pages(self, query: sa.Select, number: sa.Column) -> Iterator[tuple[Cell, list[sa.Row]]]:
        def read(cell: Cell) -> list[sa.Row]:
            with self._connect(cell) as connection:
                return list(connection.execute(query.where(number > last).order_by(number).limit(PAGE)))

        for cell in self._cells:
            last = 0
            while cell.uuid != CELL0 and (rows := self._ask([cell], read)[0][1]):
                last = rows[-1].id
                yield cell, rows

    def _rows(self, cell: Cell, query: sa.Select, column: sa.Column, values: Iterable[str]) -> list[sa.Row]:
        with self._connect(cell) as connection:
            return rows_with(connection, query, column, values)

    def _connect(self, cell: Cell) -> sa.Connection:
        if cell.url is None:
            raise ConfigError("it has no database connection")
        return self._engines.cell(cell.uuid, cell.url).connect()


def _nodes_query() -> sa.Select:
    columns = compute_nodes.c
    service = sa.exists().where(
        services.c.deleted == 0, services.c.binary == "nova-compute", services.c.host == columns.host
    )
    names = columns.id, columns.uuid, columns.host, columns.hypervisor_hostname, service.label("has_service")
    return sa.select(*names).where(columns.deleted == 0, columns.uuid.is_not(None), columns.host.is_not(None))


def _instances_query() -> sa.Select:
    columns = instances.c
    names = columns.id, columns.uuid, columns.host, columns.node, columns.vm_state
    return sa.select(*names, columns.created_at, columns.updated_at).where(columns.deleted == 0)


def _node(cell: Cell, row: sa.Row) -> NodeRecord:
    return NodeRecord(row.uuid, cell.uuid, row.host, row.hypervisor_hostname, bool(row.has_service))


def _instance(cell: Cell, row: sa.Row) -> InstanceRecord:
    return InstanceRecord(row.uuid, cell.uuid, row.host, row.node, row.vm_state, _changed_at(row))


def _migration(cell: Cell, row: sa.Row) -> MigrationRecord:
    source, dest = (row.source_compute, row.source_node), (row.dest_compute, row.dest_node)
    what = row.uuid, row.instance_uuid, cell.uuid, row.migration_type, row.status
    return MigrationRecord(*what, source, dest, _changed_at(row))


def _changed_at(row: sa.Row) -> datetime | None:
    moments = [moment for moment in map(_moment, (row.created_at, row.updated_at)) if moment]
    return max(moments, default=None)


def _moment(value: object) -> datetime | None:
    """Return a time; None for a value that is none, such as MySQL's zero date."""
    return value if isinstance(value, datetime) else None


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
