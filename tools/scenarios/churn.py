"""Changes of a cloud while requests are served: instances, usage, aggregates, services, whole hosts."""

from collections.abc import Callable, Mapping, Sequence
import random
import threading
import uuid

import requests
import sqlalchemy as sa

from conductor_client.client import SchedulerClient
from scheduler import objects
from scheduler.nova_db import schema
from scheduler.rpc.context import RequestContext
from tools.rig.fleet import Fleet, Host, compute_node_row, service_row
from tools.rig.providers import HEADERS, create_fleet

OPERATOR = RequestContext(user_id="user", project_id="operator")
#: The first number of hosts that are added; those of the fleet have smaller ones.
FIRST_NEW_HOST = 100_000


class Churn:
    """Changes the databases, and informs the schedulers as nova's services do.

    Any thread may call it; changes are made one after the other.

    Attributes:
        hosts: The hosts that there are, by service host.
        added: Number of hosts that were added.
    """

    def __init__(
        self,
        fleet: Fleet,
        engines: Mapping[str, sa.Engine],
        placement_url: str,
        scheduler: SchedulerClient,
        rng: random.Random,
    ) -> None:
        """Change a cloud.

        Args:
            fleet: The hosts at the start.
            engines: ``api``, and one for each cell by its name.
            placement_url: The URL of Placement.
            scheduler: Sends the casts.
            rng: Makes all choices.
        """
        self.hosts = {host.name: host for host in fleet.hosts}
        self.added = 0
        self._fleet = fleet
        self._engines = engines
        self._placement_url = placement_url
        self._scheduler = scheduler
        self._rng = rng
        self._lock = threading.RLock()
        self._disabled: Host | None = None
        self._newest: Host | None = None
        self._leaving: list[Host] = []
        self._aggregate_ids = len(fleet.aggregates)
        self._steps: Sequence[Callable[[], None]] = (
            self._sync_instances,
            self._change_metadata,
            self._replace_aggregate,
            self._disable_service,
            self._replace_host,
        )

    def built(self, host_name: str, instance: str, memory_mb: int) -> None:
        """Record an instance that was built, and the usage of its host."""
        with self._lock:
            host = self.hosts.get(host_name)
            if host is None:
                return
            row = {"uuid": instance, "host": host.name, "node": host.nodename, "vm_state": "active"}
            with self._engines[host.cell.name].begin() as connection:
                connection.execute(sa.insert(schema.instances).values(row))
                connection.execute(_usage(host, memory_mb))
        instances = objects.InstanceList(objects=[objects.Instance(uuid=instance)])
        self._scheduler.update_instance_info(OPERATOR, host_name, instances)

    def deleted(self, host_name: str, instance: str, memory_mb: int) -> None:
        """Remove an instance, and its usage from its host."""
        with self._lock:
            host = self.hosts.get(host_name)
            if host is None:
                return
            with self._engines[host.cell.name].begin() as connection:
                connection.execute(sa.delete(schema.instances).where(schema.instances.c.uuid == instance))
                connection.execute(_usage(host, -memory_mb))
        self._scheduler.delete_instance_info(OPERATOR, host_name, instance)

    def step(self) -> None:
        """Make one change that is chosen at random."""
        with self._lock:
            self._rng.choice(self._steps)()

    # -- one change each

    def _sync_instances(self) -> None:
        host = self._some_host()
        with self._engines[host.cell.name].connect() as connection:
            found = connection.scalars(
                sa.select(schema.instances.c.uuid).where(schema.instances.c.host == host.name)
            )
            uuids = list(found)
        self._scheduler.sync_instance_info(OPERATOR, host.name, uuids)

    def _change_metadata(self) -> None:
        value = str(self._rng.randrange(10**6))
        number = len(self._fleet.aggregates)  # the last one, which is no zone
        metadata = schema.aggregate_metadata
        with self._engines["api"].begin() as connection:
            connection.execute(
                sa.delete(metadata).where(metadata.c.aggregate_id == number, metadata.c.key == "round")
            )
            connection.execute(sa.insert(metadata).values(aggregate_id=number, key="round", value=value))
        self._cast_aggregate(number, self._fleet.aggregates[-1].name, {"round": value}, ())

    def _replace_aggregate(self) -> None:
        self._aggregate_ids += 1
        number, members = self._aggregate_ids, [self._some_host().name]
        name = f"short-lived-{number}"
        self._cast_aggregate(number, name, {"made": name}, members)
        gone = objects.Aggregate(id=number, name=name)
        self._scheduler.delete_aggregate(OPERATOR, gone)

    def _cast_aggregate(
        self, number: int, name: str, metadata: dict[str, str], members: Sequence[str]
    ) -> None:
        found = objects.Aggregate(
            id=number, uuid=_uuid(name), name=name, hosts=list(members), metadata=metadata
        )
        self._scheduler.update_aggregates(OPERATOR, [found])

    def _disable_service(self) -> None:
        """Disable a service, and enable the one that was disabled before it."""
        if self._disabled:
            self._set_disabled(self._disabled, disabled=False)
        self._disabled = self._some_host()
        self._set_disabled(self._disabled, disabled=True)

    def _set_disabled(self, host: Host, *, disabled: bool) -> None:
        services = schema.services
        here = (services.c.host == host.name) & (services.c.deleted == 0)
        with self._engines[host.cell.name].begin() as connection:
            connection.execute(
                sa.update(services).where(here).values(disabled=disabled, updated_at=schema.utcnow())
            )

    def _replace_host(self) -> None:
        """Add a host, disable the one added before it, and remove the disabled ones that are empty."""
        self._leaving = [host for host in self._leaving if not self._remove_host(host)]
        if self._newest:
            self._set_disabled(self._newest, disabled=True)
            self._leaving.append(self._newest)
        number = FIRST_NEW_HOST + self.added
        self.added += 1
        self._newest = Host(number, self._fleet.cells[number % len(self._fleet.cells)], "az1")
        self._add_host(self._newest)

    def _add_host(self, host: Host) -> None:
        create_fleet(self._placement_url, [host.provider()])
        with self._engines[host.cell.name].begin() as connection:
            connection.execute(sa.insert(schema.services).values(service_row(host)))
            connection.execute(sa.insert(schema.compute_nodes).values(compute_node_row(host)))
        with self._engines["api"].begin() as connection:
            cells = schema.cell_mappings
            number = connection.scalar(sa.select(cells.c.id).where(cells.c.uuid == host.cell.uuid))
            connection.execute(sa.insert(schema.host_mappings).values(host=host.name, cell_id=number))
        self.hosts[host.name] = host

    def _remove_host(self, host: Host) -> bool:
        """Remove a host that has no instance, and return whether it had none."""
        answer = requests.delete(
            f"{self._placement_url}/resource_providers/{host.uuid}", headers=HEADERS, timeout=30
        )
        if answer.status_code == requests.codes.conflict:
            return False
        answer.raise_for_status()
        del self.hosts[host.name]
        with self._engines[host.cell.name].begin() as connection:
            for table in (schema.services, schema.compute_nodes):
                gone = {"deleted": table.c.id, "deleted_at": schema.utcnow()}
                connection.execute(sa.update(table).where(table.c.host == host.name).values(gone))
        with self._engines["api"].begin() as connection:
            mappings = schema.host_mappings
            connection.execute(sa.delete(mappings).where(mappings.c.host == host.name))
        return True

    def _some_host(self) -> Host:
        return self._rng.choice(self._fleet.hosts)


def _usage(host: Host, memory_mb: int) -> sa.Update:
    nodes = schema.compute_nodes
    return (
        sa.update(nodes)
        .where(nodes.c.host == host.name, nodes.c.deleted == 0)
        .values(
            memory_mb_used=nodes.c.memory_mb_used + memory_mb,
            free_ram_mb=nodes.c.free_ram_mb - memory_mb,
            updated_at=schema.utcnow(),
        )
    )


def _uuid(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
