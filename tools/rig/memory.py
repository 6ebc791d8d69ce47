"""A fleet in memory: the host table of a scheduler, from the rows that nova's databases would have."""

from types import SimpleNamespace

from scheduler.conf import new
from scheduler.hosts.aggregates import Aggregates, HostAggregate
from scheduler.hosts.rows import HostRow, ServiceRow
from scheduler.hosts.table import HostTable
from scheduler.nova_db.row_loader import NODE_COLUMNS, RowLoader
from tools.rig.fleet import Fleet, compute_node_row, service_row

_NULLS = dict.fromkeys(column.name for column in NODE_COLUMNS)


def host_table(fleet: Fleet) -> HostTable:
    """Return the host table of a fleet."""
    rows = host_rows(fleet)
    services = {
        (host.cell.uuid, host.name): ServiceRow(id=host.number + 1, **service_row(host))
        for host in fleet.hosts
    }
    return HostTable(rows, services, aggregates(fleet))


def host_rows(fleet: Fleet) -> list[HostRow]:
    """Return the loaded rows of the compute nodes of a fleet, in its order."""
    loader, held = RowLoader(new()), fleet.held()
    rows = {
        host: _NULLS | compute_node_row(host, held[host]) | {"id": host.number + 1} for host in fleet.hosts
    }
    loaded = (loader.node(SimpleNamespace(**row), host.cell.uuid, {}) for host, row in rows.items())
    return [row for row in loaded if row is not None]


def aggregates(fleet: Fleet) -> Aggregates:
    """Return the aggregates of a fleet."""
    return Aggregates(
        HostAggregate(
            number, each.uuid, each.name, frozenset(host.name for host in each.hosts), each.metadata
        )
        for number, each in enumerate(fleet.aggregates, 1)
    )
