"""Changes of a cloud while requests are served: instances, usage, aggregates, services, whole hosts."""

from collections.abc import Callable, Sequence
import random
import threading
import uuid

import sqlalchemy as sa

from conductor_client.client import SchedulerClient
from scheduler import objects
from scheduler.nova_db import schema
from scheduler.rpc.context import RequestContext
from tools.rig.cloud import Cloud
from tools.rig.fleet import Host, compute_node_row, service_row
from tools.rig.load import Flavor
from tools.rig.providers import create_fleet, send
from tools.rig.rows import Computes, set_disabled

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

    def __init__(self, cloud: Cloud, scheduler: SchedulerClient, rng: random.Random) -> None:
        """Change a cloud; ``scheduler`` sends the casts, ``rng`` makes all choices."""
        self.hosts = {host.name: host for host in cloud.fleet.hosts}
        self.added = 0
        self._cloud = cloud
        self._fleet = cloud.fleet
        self._computes = Computes(cloud.fleet)
        cloud.callback(self._computes.close)
        self._scheduler = scheduler
        self._rng = rng
        self._lock = threading.RLock()
        self._disabled: Host | None = None
        self._newest: Host | None = None
        self._leaving: list[Host] = []
        self._aggregate_ids = len(self._fleet.aggregates)
        self._steps: Sequence[Callable[[], None]] = (
            self._sync_instances,
            self._change_metadata,
            self._replace_aggregate,
            self._disable_service,
            self._replace_host,
        )

    def built(self, host_name: str, instance: str, flavor: Flavor) -> None:
        """Record an instance that was built, and the usage of its host."""
        with self._lock:
            host = self.hosts.get(host_name)
            if host is None:
                return
            self._computes.built(host, instance, flavor)
        instances = objects.InstanceList(objects=[objects.Instance(uuid=instance)])
        self._scheduler.update_instance_info(OPERATOR, host_name, instances)

    def deleted(self, host_name: str, instance: str) -> None:
        """Remove an instance, and its usage from its host."""
        with self._lock:
            host = self.hosts.get(host_name)
            if host is None:
                return
            self._computes.deleted(host, instance)
        self._scheduler.delete_instance_info(OPERATOR, host_name, instance)

    def step(self) -> None:
        """Make one change that is chosen at random."""
        with self._lock:
            self._rng.choice(self._steps)()

    # -- one change each

    def _sync_instances(self) -> None:
        host = self._some_host()
        here = sa.select(schema.instances.c.uuid).where(schema.instances.c.host == host.name)
        with self._cloud.connection(host.cell.name) as connection:
            uuids = list(connection.scalars(here))
        self._scheduler.sync_instance_info(OPERATOR, host.name, uuids)

    def _change_metadata(self) -> None:
        value = str(self._rng.randrange(10**6))
        number = len(self._fleet.aggregates)  # the last one, which is no zone
        row = schema.aggregate_metadata
        with self._cloud.connection("api") as connection:
            connection.execute(sa.delete(row).where(row.c.aggregate_id == number, row.c.key == "round"))
            connection.execute(sa.insert(row).values(aggregate_id=number, key="round", value=value))
        self._cast_aggregate(number, self._fleet.aggregates[-1].name, {"round": value}, [])

    def _replace_aggregate(self) -> None:
        self._aggregate_ids += 1
        name = f"short-lived-{self._aggregate_ids}"
        self._cast_aggregate(self._aggregate_ids, name, {"made": name}, [self._some_host().name])
        self._scheduler.delete_aggregate(OPERATOR, objects.Aggregate(id=self._aggregate_ids, name=name))

    def _cast_aggregate(self, number: int, name: str, metadata: dict[str, str], hosts: list[str]) -> None:
        identity = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
        found = objects.Aggregate(id=number, uuid=identity, name=name, hosts=hosts, metadata=metadata)
        self._scheduler.update_aggregates(OPERATOR, [found])

    def _disable_service(self) -> None:
        """Disable a service, and enable the one that was disabled before it."""
        if self._disabled:
            set_disabled(self._cloud, self._disabled, disabled=False)
        self._disabled = self._some_host()
        set_disabled(self._cloud, self._disabled, disabled=True)

    def _replace_host(self) -> None:
        """Add a host, disable the one added before it, and remove the disabled ones that are empty."""
        self._leaving = [host for host in self._leaving if not self._remove_host(host)]
        if self._newest:
            set_disabled(self._cloud, self._newest, disabled=True)
            self._leaving.append(self._newest)
        number = FIRST_NEW_HOST + self.added
        self.added += 1
        self._newest = Host(number, self._fleet.cells[number % len(self._fleet.cells)], "az1")
        self._add_host(self._newest)

    def _add_host(self, host: Host) -> None:
        create_fleet(self._cloud.placement_url, [host.provider()])
        with self._cloud.connection(host.cell.name) as connection:
            connection.execute(sa.insert(schema.services).values(service_row(host)))
            connection.execute(sa.insert(schema.compute_nodes).values(compute_node_row(host)))
        cells = schema.cell_mappings.c
        with self._cloud.connection("api") as connection:
            number = connection.scalar(sa.select(cells.id).where(cells.uuid == host.cell.uuid))
            connection.execute(sa.insert(schema.host_mappings).values(host=host.name, cell_id=number))
        self.hosts[host.name] = host

    def _remove_host(self, host: Host) -> bool:
        """Remove a host that has no instance, and return whether it had none."""
        url = f"{self._cloud.placement_url}/resource_providers/{host.uuid}"
        answer = send("DELETE", url)
        if answer.status_code == 409:
            return False
        answer.raise_for_status()
        del self.hosts[host.name]
        with self._cloud.connection(host.cell.name) as connection:
            for table in (schema.services, schema.compute_nodes):
                gone = {"deleted": table.c.id, "deleted_at": schema.utcnow()}
                connection.execute(sa.update(table).where(table.c.host == host.name).values(gone))
        with self._cloud.connection("api") as connection:
            mappings = schema.host_mappings
            connection.execute(sa.delete(mappings).where(mappings.c.host == host.name))
        return True

    def _some_host(self) -> Host:
        return self._rng.choice(self._fleet.hosts)
