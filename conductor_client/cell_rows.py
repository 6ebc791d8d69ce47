"""The rows of instances and compute nodes in the database of a cell, as computes write them."""

from collections.abc import Callable, Mapping
import json
import threading

import sqlalchemy as sa

from scheduler import objects
from scheduler.nova_db.schema import compute_nodes, instances, utcnow

AMOUNTS = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")


class ComputeRows:
    """Writes the instances and the usage of the cell's compute nodes, as computes do.

    spec: host-state-and-cells 1.5, 1.6, 3.8. nova's computes call their conductor for it.
    """

    def __init__(self, engine: sa.Engine) -> None:
        """Write with an engine of the cell's database."""
        self._engine = engine
        # one writer at a time: SQLite would refuse the second of two that have read before they write
        self._lock = threading.Lock()

    def built(self, instance_uuid: str, host: str, node: str, spec: objects.RequestSpec) -> None:
        """Add an instance and its usage of the node, whose number of failed builds is zero then."""
        row = {
            "uuid": instance_uuid,
            "host": host,
            "node": node,
            "project_id": spec.project_id,
            "user_id": spec.user_id,
            "vm_state": "active",
            **{name: getattr(spec, name) for name in AMOUNTS},
        }
        with self._lock, self._engine.begin() as connection:
            connection.execute(sa.insert(instances).values(row))
            _use(connection, node, spec, 1, failed_builds="0")

    def moved(self, instance_uuid: str, host: str, node: str, spec: objects.RequestSpec) -> None:
        """Note the host of an instance that was moved: its source is free of it, as after a confirmation."""
        here = (instances.c.uuid == instance_uuid) & (instances.c.deleted == 0)
        with self._lock, self._engine.begin() as connection:
            before = connection.execute(sa.select(instances).where(here)).first()
            now = {name: getattr(spec, name) for name in AMOUNTS}
            connection.execute(sa.update(instances).where(here).values(host=host, node=node, **now))
            _use(connection, node, spec, 1)
            if before is not None:
                _use(connection, before.node, before, -1)

    def deleted(self, instance_uuid: str) -> None:
        """Remove an instance and its usage of its node."""
        here = instances.c.uuid == instance_uuid
        with self._lock, self._engine.begin() as connection:
            gone = connection.execute(sa.select(instances).where(here)).first()
            if gone is not None:
                connection.execute(sa.delete(instances).where(here))
                _use(connection, gone.node, gone, -1)

    def failed(self, node: str) -> None:
        """Add one to the failed builds of the node."""
        with self._lock, self._engine.begin() as connection:
            _change(connection, node, lambda stats: {"failed_builds": _more(stats, "failed_builds", 1)})


def _use(
    connection: sa.Connection, node: str, instance: objects.RequestSpec | sa.Row, sign: int, **stats: str
) -> None:
    """Write what an instance changes in the row of its node, as it comes (1) or goes (-1)."""
    disk_gb, row = instance.root_gb + instance.ephemeral_gb, compute_nodes.c
    usage = {
        row.vcpus_used: row.vcpus_used + sign * instance.vcpus,
        row.memory_mb_used: row.memory_mb_used + sign * instance.memory_mb,
        row.local_gb_used: row.local_gb_used + sign * disk_gb,
        row.free_ram_mb: row.free_ram_mb - sign * instance.memory_mb,
        row.free_disk_gb: row.free_disk_gb - sign * disk_gb,
        row.disk_available_least: row.disk_available_least - sign * disk_gb,
        row.running_vms: row.running_vms + sign,
    }
    _change(
        connection, node, lambda old: {"num_instances": _more(old, "num_instances", sign), **stats}, usage
    )


def _change(
    connection: sa.Connection,
    node: str,
    change_stats: Callable[[dict[str, str]], dict[str, str]],
    usage: Mapping[sa.Column, object] = {},
) -> None:
    row = compute_nodes.c
    here = (row.hypervisor_hostname == node) & (row.deleted == 0)
    stats = json.loads(connection.scalar(sa.select(row.stats).where(here)) or "{}")
    stats |= change_stats(stats)
    changes = {**usage, row.stats: json.dumps(stats), row.updated_at: utcnow()}
    connection.execute(sa.update(compute_nodes).where(here).values(changes))


def _more(stats: Mapping[str, str], name: str, by: int) -> str:
    """Return a counter with something added; numbers in ``stats`` are texts."""
    return str(int(stats.get(name) or 0) + by)
