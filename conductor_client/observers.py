"""What a compute does beside building: it informs the schedulers and writes to the database of its cell.

An observer has ``built(context, instance_uuid, host, node, spec)``, ``moved`` with the same arguments, and
``failed(context, node)``.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
import json
import threading

import sqlalchemy as sa

from conductor_client.client import SchedulerClient
from scheduler import objects
from scheduler.rpc.context import RequestContext

_compute_nodes = sa.table(
    "compute_nodes",
    *map(
        sa.column,
        (
            "id",
            "hypervisor_hostname",
            "deleted",
            "vcpus_used",
            "memory_mb_used",
            "local_gb_used",
            "free_ram_mb",
            "free_disk_gb",
            "disk_available_least",
            "running_vms",
            "stats",
        ),
    ),
    sa.column("updated_at", sa.DateTime),
)
_instances = sa.table(
    "instances",
    *map(
        sa.column,
        (
            "uuid",
            "host",
            "node",
            "project_id",
            "user_id",
            "vm_state",
            "vcpus",
            "memory_mb",
            "root_gb",
            "ephemeral_gb",
            "deleted",
            "hidden",
        ),
    ),
    sa.column("created_at", sa.DateTime),
)


class InstanceReports:
    """Informs all schedulers about new instances (nova's ``[filter_scheduler]/track_instance_changes``)."""

    def __init__(self, scheduler: SchedulerClient) -> None:
        self._scheduler = scheduler

    def built(
        self, context: RequestContext, instance_uuid: str, host: str, node: str, spec: objects.RequestSpec
    ) -> None:
        """Report that an instance runs on the host."""
        instances = objects.InstanceList(objects=[objects.Instance(uuid=instance_uuid)])
        self._scheduler.update_instance_info(context, host, instances)

    moved = built

    def failed(self, context: RequestContext, node: str) -> None:
        """Do nothing: schedulers are not informed about failures."""


class CellRows:
    """Writes the instances and the usage of the cell's compute nodes, as computes do.

    spec: host-state-and-cells 1.5, 1.6, 3.8. nova's computes call their conductor for it.
    """

    def __init__(self, engine: sa.Engine) -> None:
        """Write with an engine of the cell's database."""
        self._engine = engine
        self._lock = threading.Lock()

    def built(
        self, context: RequestContext, instance_uuid: str, host: str, node: str, spec: objects.RequestSpec
    ) -> None:
        """Add an instance and its usage of the node, whose number of failed builds is zero then."""
        self._update(
            node,
            _usage(spec, 1),
            lambda stats: {**_counted(stats, 1), "failed_builds": "0"},
            [_instance_row(instance_uuid, host, node, spec)],
        )

    def moved(
        self, context: RequestContext, instance_uuid: str, host: str, node: str, spec: objects.RequestSpec
    ) -> None:
        """Note the host of an instance that was moved: its source is free of it, as after a confirmation."""
        here = (_instances.c.uuid == instance_uuid) & (_instances.c.deleted == 0)
        amounts = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")
        with self._lock, self._engine.begin() as connection:
            before = connection.execute(sa.select(_instances).where(here)).first()
            now = {name: getattr(spec, name) for name in amounts}
            connection.execute(sa.update(_instances).where(here).values(host=host, node=node, **now))
            self._change(connection, node, _usage(spec, 1), lambda stats: _counted(stats, 1))
            if before is not None:
                self._change(connection, before.node, _usage(before, -1), lambda stats: _counted(stats, -1))

    def deleted(self, instance_uuid: str) -> None:
        """Remove an instance and its usage of its node."""
        here = _instances.c.uuid == instance_uuid
        with self._lock, self._engine.begin() as connection:
            gone = connection.execute(sa.select(_instances).where(here)).first()
            if gone is not None:
                connection.execute(sa.delete(_instances).where(here))
                self._change(connection, gone.node, _usage(gone, -1), lambda stats: _counted(stats, -1))

    def failed(self, context: RequestContext, node: str) -> None:
        """Add one to the failed builds of the node."""
        self._update(node, {}, lambda stats: {"failed_builds": _more(stats, "failed_builds", 1)})

    def _update(
        self,
        node: str,
        changes: dict,
        change_stats: Callable[[dict], dict],
        instances: Sequence[dict[str, object]] = (),
    ) -> None:
        # one writer at a time: SQLite would refuse the second of two that have read before they write
        with self._lock, self._engine.begin() as connection:
            self._change(connection, node, changes, change_stats)
            for instance in instances:
                connection.execute(sa.insert(_instances).values(instance))

    def _change(
        self, connection: sa.Connection, node: str, changes: dict, change_stats: Callable[[dict], dict]
    ) -> None:
        row = _compute_nodes.c
        here = (row.hypervisor_hostname == node) & (row.deleted == 0)
        stats = json.loads(connection.scalar(sa.select(row.stats).where(here)) or "{}")
        stats |= change_stats(stats)
        changes |= {row.stats: json.dumps(stats), row.updated_at: _now()}
        connection.execute(sa.update(_compute_nodes).where(here).values(changes))


def _instance_row(instance_uuid: str, host: str, node: str, spec: objects.RequestSpec) -> dict[str, object]:
    return {
        "uuid": instance_uuid,
        "host": host,
        "node": node,
        "project_id": spec.project_id,
        "user_id": spec.user_id,
        "vm_state": "active",
        "vcpus": spec.vcpus,
        "memory_mb": spec.memory_mb,
        "root_gb": spec.root_gb,
        "ephemeral_gb": spec.ephemeral_gb,
        "deleted": 0,
        "hidden": False,
        "created_at": _now(),
    }


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _usage(instance: objects.RequestSpec | sa.Row, sign: int) -> dict:
    """Return what an instance changes in the row of its node, by column, as it comes (1) or goes (-1)."""
    disk_gb, row = instance.root_gb + instance.ephemeral_gb, _compute_nodes.c
    return {
        row.vcpus_used: row.vcpus_used + sign * instance.vcpus,
        row.memory_mb_used: row.memory_mb_used + sign * instance.memory_mb,
        row.local_gb_used: row.local_gb_used + sign * disk_gb,
        row.free_ram_mb: row.free_ram_mb - sign * instance.memory_mb,
        row.free_disk_gb: row.free_disk_gb - sign * disk_gb,
        row.disk_available_least: row.disk_available_least - sign * disk_gb,
        row.running_vms: row.running_vms + sign,
    }


def _counted(stats: dict, sign: int) -> dict:
    return {"num_instances": _more(stats, "num_instances", sign)}


def _more(stats: dict, name: str, by: int) -> str:
    """Return a counter with something added; numbers in ``stats`` are texts."""
    return str(int(stats.get(name) or 0) + by)
