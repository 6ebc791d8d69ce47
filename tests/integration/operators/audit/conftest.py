"""A Placement for audits alone, since an audit looks at all of it, and nova's databases on each kind of server."""

import contextlib
from datetime import timedelta
import sqlite3
import uuid

from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
import pytest

from scheduler.nova_db import schema
from scheduler.nova_db.cells import CELL0
from scheduler.placement.client import PlacementClient
from scheduler.placement.session import Timeouts
from tests.support.nova_databases import NovaDatabases
from tools.rig.placement import PlacementProcess
from tools.rig.providers import PlacementAdmin, Provider, create_fleet, empty

INVENTORIES = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 8192}}
RESOURCES = {"VCPU": 2, "MEMORY_MB": 1024}
DAY = timedelta(days=1)


@pytest.fixture(scope="session")
def placement(tmp_path_factory):
    """URL and database file."""
    path = tmp_path_factory.mktemp("audit") / "placement.db"
    with PlacementProcess(path) as url:
        yield url, path


@pytest.fixture
def client(placement):
    url, _ = placement
    session = Session(auth=token_endpoint.Token(url, "admin"))
    yield PlacementClient(
        Adapter(session, service_type="placement", raise_exc=False),
        Timeouts(connect=2.0, read=5.0, search=10.0),
    )
    session.session.close()


@pytest.fixture
def cloud(placement, make_database):
    with contextlib.closing(NovaDatabases(make_database)) as nova:
        cloud = Cloud(*placement, nova)
        nova.add_cell0()
        yield cloud
        nova.empty()
        cloud.empty()


class Cloud:
    """What nova and Placement have; faults are made with the calls that do not keep both in step."""

    def __init__(self, url, path, nova):
        self.url, self.admin = url, PlacementAdmin(url)
        self.nova = nova
        self.cell0 = CELL0
        self._path = path

    def host(self, name, *, cell=None, inventories=INVENTORIES, **kwargs):
        """A compute node and its provider; the UUID of both."""
        node = self.nova.add_host(name, cell=cell)
        self.provider(name, inventories, uuid=node, **kwargs)
        return node

    def provider(self, name, inventories=INVENTORIES, *, uuid=None, **kwargs):
        provider = Provider(name, uuid or new_uuid(), inventories, **kwargs)
        create_fleet(self.url, [provider])
        return provider.uuid

    def instance(self, host, *, age=None, **columns):
        """An instance in nova alone, a day old."""
        created = schema.utcnow() - (age or DAY)
        return self.nova.add_instance(host, **{"node": host, "created_at": created} | columns)

    def migration(self, instance, source, dest, status, *, cell=None, **columns):
        """A migration in nova alone; its UUID."""
        values = {
            "uuid": new_uuid(),
            "instance_uuid": instance,
            "source_compute": source,
            "source_node": source,
            "dest_compute": dest,
            "dest_node": dest,
            "status": status,
            "migration_type": "migration",
            "created_at": schema.utcnow() - DAY,
        } | columns
        self.nova.insert(schema.migrations, cell=cell, **values)
        return values["uuid"]

    def mapping(self, instance, cell=None, **columns):
        """An instance mapping; ``cell`` is a UUID."""
        cells = {row.uuid: row.id for row in self.nova.rows(schema.cell_mappings, api=True)}
        values = {"created_at": schema.utcnow() - DAY, "project_id": "project"} | columns
        self.nova.insert_api(
            schema.instance_mappings, instance_uuid=instance, cell_id=cells.get(cell), **values
        )

    def holds(self, consumer, *providers, resources=RESOURCES):
        """Let a consumer hold these resources on each of the providers."""
        return self.holds_each(consumer, dict.fromkeys(providers, resources))

    def holds_each(self, consumer, amounts):
        assert self.admin.allocate(consumer, amounts)
        return consumer

    def held(self, consumer):
        return self.admin.read(f"/allocations/{consumer}")["allocations"]

    def shrink(self, provider, **totals):
        """Change the inventories as an operator's new ratio does."""
        assert self.admin.edit(
            provider, "inventories", lambda _now: {name: {"total": total} for name, total in totals.items()}
        )

    def hide(self, consumer):
        """Take away the record of a consumer, as two simultaneous claims may."""
        with contextlib.closing(sqlite3.connect(self._path, timeout=10)) as connection, connection:
            connection.execute("DELETE FROM consumers WHERE uuid = ?", [consumer])

    def empty(self):
        """Take everything out of Placement."""
        empty(self._path)


def new_uuid():
    return str(uuid.uuid4())
