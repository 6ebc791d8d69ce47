"""What nova's other services write to its databases while instances are built."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa

from conductor_client.cell_rows import ComputeRows
from scheduler.nova_db import schema
from scheduler.nova_db.schema import build_requests, cell_mappings, instance_mappings
from tools.rig.fleet import Cell, Fleet, Host
from tools.rig.load import PROJECT, USER, Flavor
from tools.rig.world import RunningWorld


class ApiRows:
    """What API and super-conductor write to the API database: which instances still wait for hosts."""

    def __init__(self, engine: sa.Engine) -> None:
        """Write with an engine of the API database."""
        self._engine = engine

    def requested(self, uuids: Sequence[str]) -> None:
        """Write that hosts are looked for, as the API does before a build."""
        rows = [{"instance_uuid": uuid, "project_id": PROJECT} for uuid in uuids]
        with self._engine.begin() as connection:
            connection.execute(instance_mappings.insert(), rows)
            connection.execute(build_requests.insert(), rows)

    def ended(self, uuids: Sequence[str], placed: Sequence[str] = (), cell: Cell | None = None) -> None:
        """Write that no hosts are looked for any more; those that were ``placed`` are in that cell."""
        found = sa.select(sa.func.max(cell_mappings.c.id))
        cell_id = (found.where(cell_mappings.c.uuid == cell.uuid) if cell else found).scalar_subquery()
        mapped = instance_mappings.update().where(instance_mappings.c.instance_uuid.in_(placed))
        with self._engine.begin() as connection:
            connection.execute(mapped.values(cell_id=cell_id))
            connection.execute(build_requests.delete().where(build_requests.c.instance_uuid.in_(uuids)))


def set_service(cloud: RunningWorld, host: Host, **columns: Any) -> None:
    """Write columns of the compute service of a host, such as ``disabled`` and ``forced_down``."""
    row = schema.services
    changed = sa.update(row).where(row.c.host == host.name, row.c.deleted == 0)
    with cloud.connection(host.cell.name) as connection:
        connection.execute(changed.values(columns | {"updated_at": schema.utcnow()}))


class Computes:
    """The instances of hosts, and what they use of these, in the databases of the cells.

    Any thread may use it.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._engines = {cell: sa.create_engine(cell.database_url) for cell in fleet.cells}
        self._rows = {cell: ComputeRows(engine) for cell, engine in self._engines.items()}

    def built(self, host: Host, instance: str, flavor: Flavor) -> None:
        """Write that an instance runs on a host."""
        amounts = {"vcpus": flavor.vcpus, "memory_mb": flavor.memory_mb, "root_gb": flavor.root_gb}
        spec = SimpleNamespace(project_id=PROJECT, user_id=USER, ephemeral_gb=0, **amounts)
        self._rows[host.cell].built(instance, host.name, host.nodename, spec)

    def deleted(self, host: Host, instance: str) -> None:
        """Write that an instance is gone from a host."""
        self._rows[host.cell].deleted(instance)

    def close(self) -> None:
        """Close the connections."""
        for engine in self._engines.values():
            engine.dispose()
