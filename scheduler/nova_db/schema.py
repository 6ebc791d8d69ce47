"""The tables and columns of nova's databases that Berth uses (spec: host-state-and-cells 1.2-1.5).

``API`` and ``CELL`` are the metadata of the two kinds of databases. The real tables are created by nova's
migrations; ``create_all`` creates what tests and the demo need. Defaults are those of the inserting program,
as in nova: no column has a default in the database. ``chunks`` cuts long lists for SQL statements. By hashes
of rows, which the database computes, changed rows are found without reading all of them.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import chain, islice
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql

API = sa.MetaData()
CELL = sa.MetaData()

MEDIUM_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
ADDRESS = sa.String(39).with_variant(postgresql.INET(), "postgresql")


# The service version of nova 27, the oldest release that is supported.
OLDEST_SUPPORTED = 66


def utcnow() -> datetime:
    """Return the current time in UTC without a zone, as nova's columns have it."""
    return datetime.now(UTC).replace(tzinfo=None)


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.Integer, primary_key=True)


def _stamps() -> list[sa.Column]:
    return [sa.Column("created_at", sa.DateTime, default=utcnow), sa.Column("updated_at", sa.DateTime)]


def _columns(names: str, kind: Any, **options: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, **options) for name in names.split()]


def _api_table(name: str, *columns: sa.schema.SchemaItem) -> sa.Table:
    """Return a table of the API database, whose deleted rows are gone."""
    items: list[sa.schema.SchemaItem] = [*_stamps(), _id(), *columns]
    return sa.Table(name, API, *items)


def _cell_table(name: str, *columns: sa.schema.SchemaItem) -> sa.Table:
    """Return a table of a cell's database, whose rows are live while ``deleted`` is 0."""
    deleted: list[sa.Column[Any]] = [
        sa.Column("deleted_at", sa.DateTime),
        sa.Column("deleted", sa.Integer, default=0),
    ]
    items: list[sa.schema.SchemaItem] = [*_stamps(), *deleted, _id(), *columns]
    return sa.Table(name, CELL, *items)


cell_mappings = _api_table(
    "cell_mappings",
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("name", sa.String(255)),
    *_columns("transport_url database_connection", sa.Text),
    sa.Column("disabled", sa.Boolean, default=False),
)

host_mappings = _api_table(
    "host_mappings",
    sa.Column("cell_id", sa.Integer, sa.ForeignKey("cell_mappings.id"), nullable=False),
    sa.Column("host", sa.String(255), nullable=False, unique=True),
)

instance_mappings = _api_table(
    "instance_mappings",
    sa.Column("instance_uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("cell_id", sa.Integer, sa.ForeignKey("cell_mappings.id")),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255)),
    sa.Column("queued_for_delete", sa.Boolean, default=False),
)

build_requests = _api_table(
    "build_requests",
    sa.Column("instance_uuid", sa.String(36), unique=True),
    sa.Column("project_id", sa.String(255), nullable=False),
)

request_specs = _api_table(
    "request_specs",
    sa.Column("instance_uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("spec", MEDIUM_TEXT, nullable=False),
)

flavors = _api_table(
    "flavors",
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    sa.Column("memory_mb", sa.Integer, nullable=False),
    sa.Column("vcpus", sa.Integer, nullable=False),
    *_columns("root_gb ephemeral_gb", sa.Integer),
    sa.Column("flavorid", sa.String(255), nullable=False, unique=True),
    sa.Column("swap", sa.Integer, nullable=False, default=0),
)

flavor_extra_specs = _api_table(
    "flavor_extra_specs",
    sa.Column("key", sa.String(255), nullable=False),
    sa.Column("value", sa.String(255)),
    sa.Column("flavor_id", sa.Integer, sa.ForeignKey("flavors.id"), nullable=False),
    sa.UniqueConstraint("flavor_id", "key"),
)

aggregates = _api_table(
    "aggregates",
    sa.Column("uuid", sa.String(36), index=True),
    sa.Column("name", sa.String(255), unique=True),
)

aggregate_hosts = _api_table(
    "aggregate_hosts",
    sa.Column("host", sa.String(255)),
    sa.Column("aggregate_id", sa.Integer, sa.ForeignKey("aggregates.id"), nullable=False),
    sa.UniqueConstraint("host", "aggregate_id"),
)

aggregate_metadata = _api_table(
    "aggregate_metadata",
    sa.Column("aggregate_id", sa.Integer, sa.ForeignKey("aggregates.id"), nullable=False),
    sa.Column("key", sa.String(255), nullable=False, index=True),
    sa.Column("value", sa.String(255), nullable=False),
    sa.UniqueConstraint("aggregate_id", "key"),
)

instance_groups = _api_table(
    "instance_groups",
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    *_columns("name user_id project_id", sa.String(255)),
)

instance_group_policy = _api_table(
    "instance_group_policy",
    sa.Column("policy", sa.String(255), index=True),
    sa.Column("group_id", sa.Integer, sa.ForeignKey("instance_groups.id"), nullable=False),
    sa.Column("rules", sa.Text),
)

instance_group_member = _api_table(
    "instance_group_member",
    sa.Column("instance_uuid", sa.String(255), index=True),
    sa.Column("group_id", sa.Integer, sa.ForeignKey("instance_groups.id"), nullable=False),
)

services = _cell_table(
    "services",
    sa.Column("uuid", sa.String(36), unique=True),
    *_columns("host binary topic disabled_reason", sa.String(255)),
    sa.Column("report_count", sa.Integer, nullable=False, default=0),
    sa.Column("disabled", sa.Boolean, default=False),
    sa.Column("last_seen_up", sa.DateTime),
    sa.Column("forced_down", sa.Boolean, default=False),
    sa.Column("version", sa.Integer, default=0),
    sa.UniqueConstraint("host", "topic", "deleted"),
    sa.UniqueConstraint("host", "binary", "deleted"),
)

compute_nodes = _cell_table(
    "compute_nodes",
    sa.Column("uuid", sa.String(36), unique=True),
    *_columns(
        "service_id free_ram_mb free_disk_gb disk_available_least current_workload running_vms", sa.Integer
    ),
    *_columns("host hypervisor_hostname", sa.String(255)),
    *_columns(
        "vcpus memory_mb local_gb vcpus_used memory_mb_used local_gb_used hypervisor_version",
        sa.Integer,
        nullable=False,
        default=0,
    ),
    sa.Column("hypervisor_type", MEDIUM_TEXT, nullable=False, default="fake"),
    sa.Column("cpu_info", MEDIUM_TEXT, nullable=False, default=""),
    sa.Column("host_ip", ADDRESS),
    *_columns("supported_instances metrics pci_stats stats numa_topology extra_resources", sa.Text),
    *_columns("cpu_allocation_ratio ram_allocation_ratio disk_allocation_ratio", sa.Float),
    sa.Column("mapped", sa.Integer, default=0),
    sa.UniqueConstraint("host", "hypervisor_hostname", "deleted"),
)

instances = _cell_table(
    "instances",
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    *_columns(
        "host node project_id user_id display_name vm_state task_state availability_zone", sa.String(255)
    ),
    *_columns("memory_mb vcpus root_gb ephemeral_gb", sa.Integer),
    sa.Column("cleaned", sa.Integer, default=0),
    sa.Column("hidden", sa.Boolean, default=False),
    sa.Index("instances_host_deleted_cleaned_idx", "host", "deleted", "cleaned"),
)

instance_system_metadata = _cell_table(
    "instance_system_metadata",
    sa.Column("instance_uuid", sa.String(36), sa.ForeignKey("instances.uuid"), nullable=False, index=True),
    sa.Column("key", sa.String(255), nullable=False),
    sa.Column("value", sa.String(255)),
)

instance_extra = _cell_table(
    "instance_extra",
    sa.Column("instance_uuid", sa.String(36), sa.ForeignKey("instances.uuid"), nullable=False, index=True),
    *_columns("flavor numa_topology pci_requests", sa.Text),
)

migrations = _cell_table(
    "migrations",
    sa.Column("uuid", sa.String(36), unique=True),
    sa.Column("instance_uuid", sa.String(36), sa.ForeignKey("instances.uuid")),
    *_columns("source_compute source_node dest_compute dest_node status", sa.String(255)),
    sa.Column("migration_type", sa.String(14)),
    sa.Index("migrations_instance_uuid_and_status_idx", "deleted", "instance_uuid", "status"),
)


Item = TypeVar("Item")

# Well below the limit of each database, and few enough for their planners to use the index.
CHUNK = 500


def chunks(items: Iterable[Item], size: int = CHUNK) -> Iterator[list[Item]]:
    """Yield the items in order, in lists of at most ``size``."""
    rest = iter(items)
    while piece := list(islice(rest, size)):
        yield piece


def rows_with(
    connection: sa.Connection, query: sa.Select, column: sa.ColumnElement, values: Iterable[Any]
) -> list[sa.Row]:
    """Return the rows of a query in which a column has one of many values; few statements ask for them."""
    return [row for piece in chunks(values) for row in connection.execute(query.where(column.in_(piece)))]


# Ends each column in the text of a row that is hashed.
SEPARATOR = "\x1f"


@cache  # SQLAlchemy needs milliseconds to put the expression together
def row_hash(dialect: str, columns: tuple[sa.Column, ...]) -> sa.ColumnElement[Any]:
    """Return the expression for a hash of these columns of a row, a number that the database computes.

    Two different rows have the same hash once in four billion times.

    Args:
        dialect: The name of the database's dialect.
    """
    if dialect == "sqlite":
        return sa.func.row_hash(*columns)  # which ``engines`` adds
    digest = sa.func.hashtext if dialect == "postgresql" else sa.func.crc32
    # concat_ws leaves out nulls, and no separator, since they are among the values
    return digest(sa.func.concat_ws("", *chain.from_iterable((column, SEPARATOR) for column in columns)))


def checksum(
    connection: sa.Connection, *columns: sa.Column, where: sa.ColumnElement[bool] | None = None
) -> tuple[int, int]:
    """Return the number of rows of a table, and the sum of their hashes.

    Args:
        where: Which rows; None: all.
    """
    digest = row_hash(connection.dialect.name, columns)
    query = sa.select(sa.func.count(), sa.func.sum(digest))
    count, total = connection.execute(query if where is None else query.where(where)).one()
    return count, int(total or 0)
