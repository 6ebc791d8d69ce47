"""nova's databases with something in them, written as nova's services write it."""

from datetime import timedelta
import itertools
import uuid

import sqlalchemy as sa

from scheduler import conf as options
from scheduler.nova_db import schema
from scheduler.nova_db.cells import CELL0
from scheduler.nova_db.engines import Engines


class NovaDatabases:
    """An API database and any number of cells; the first cell is the local database too."""

    def __init__(self, make_database):
        """``make_database``: from a name to the URL of an empty database."""
        self.make_database = make_database
        self._ids = itertools.count(1)
        self.conf = options.new()
        self.conf([], default_config_files=[])
        self.conf.set_override("host", "controller")
        for group in ("database", "api_database"):
            self.conf.set_override("sqlite_synchronous", False, group)
        self.conf.set_override("connection", make_database("api"), "api_database")
        self.conf.set_override("connection", make_database("cell1"), "database")
        self.engines = Engines(self.conf)
        self.cells = {}
        schema.API.create_all(self.engines.api())
        self.add_cell("cell1", self.conf.database.connection)

    def close(self):
        self.engines.dispose()

    def empty(self):
        """Take everything out of the databases."""
        _empty(self.engines.api(), schema.API)
        for engine in self.cells.values():
            _empty(engine, schema.CELL)

    def add_cell(self, name, url=None, *, reachable=True, **columns):
        """Make a cell; its uuid. An unreachable one has a database URL that leads nowhere."""
        cell_uuid = columns.pop("uuid", None) or str(uuid.uuid4())
        if reachable:
            url = url or self.make_database(name)
            self.cells[cell_uuid] = self.engines.cell(cell_uuid, url)
            schema.CELL.create_all(self.cells[cell_uuid])
        else:
            url = "mysql+pymysql://nova:nova@127.0.0.1:1/nova"
        self.insert_api(
            schema.cell_mappings,
            uuid=cell_uuid,
            name=name,
            database_connection=url,
            transport_url="none:///",
            **columns,
        )
        return cell_uuid

    def add_cell0(self):
        return self.add_cell("cell0", uuid=CELL0)

    @property
    def cell1(self):
        return next(iter(self.cells))

    # -- rows

    def insert_api(self, table, **columns):
        with self.engines.api().begin() as connection:
            return connection.execute(sa.insert(table).values(**columns)).inserted_primary_key[0]

    def insert(self, table, *, cell=None, **columns):
        with self.cells[cell or self.cell1].begin() as connection:
            return connection.execute(sa.insert(table).values(**columns)).inserted_primary_key[0]

    def update(self, table, where, *, cell=None, stamped=True, **columns):
        """Write as nova does: with a stamp, which is not ``updated_at`` if rows are deleted."""
        if stamped:
            deleted = columns.get("deleted", 0) != 0
            columns = {"deleted_at" if deleted else "updated_at": schema.utcnow()} | columns
        with self.cells[cell or self.cell1].begin() as connection:
            return connection.execute(sa.update(table).where(where).values(**columns)).rowcount

    def rows(self, table, *, cell=None, api=False):
        engine = self.engines.api() if api else self.cells[cell or self.cell1]
        with engine.connect() as connection:
            return connection.execute(sa.select(table).order_by(table.c.id)).all()

    # -- what nova has

    def add_host(self, host, *, cell=None, mapped=True, service=None, **columns):
        """A compute service and its node; the node's uuid. ``service``: columns of it, False for none."""
        cell = cell or self.cell1
        if service is not False:
            self.add_service(host, cell=cell, **(service or {}))
        if mapped:
            self.map_host(host, cell)
        return self.add_node(host, cell=cell, **columns)

    def add_node(self, host, *, cell=None, **columns):
        values = {
            "uuid": str(uuid.uuid4()),
            "host": host,
            "hypervisor_hostname": host,
            "vcpus": 16,
            "memory_mb": 32768,
            "local_gb": 100,
            "free_ram_mb": 16384,
            "free_disk_gb": 50,
            "hypervisor_type": "QEMU",
            "hypervisor_version": 8002002,
            "host_ip": "192.0.2.1",
            "supported_instances": '[["x86_64", "kvm", "hvm"]]',
            "stats": "{}",
            "metrics": "[]",
            "updated_at": schema.utcnow() - timedelta(minutes=1),
        } | columns
        self.insert(schema.compute_nodes, cell=cell, **values)
        return values["uuid"]

    def add_service(self, host, *, cell=None, binary="nova-compute", **columns):
        topic = binary.removeprefix("nova-")
        values = {"uuid": str(uuid.uuid4()), "last_seen_up": schema.utcnow(), "version": 74} | columns
        return self.insert(schema.services, cell=cell, host=host, binary=binary, topic=topic, **values)

    def map_host(self, host, cell=None):
        number = next(
            row.id for row in self.rows(schema.cell_mappings, api=True) if row.uuid == (cell or self.cell1)
        )
        self.insert_api(schema.host_mappings, host=host, cell_id=number)

    def add_instance(self, host, *, cell=None, image=(), **columns):
        """An instance on a host, with these image properties; its uuid."""
        values = {"uuid": str(uuid.uuid4()), "host": host, "vm_state": "active"} | columns
        self.insert(schema.instances, cell=cell, **values)
        for key, value in dict(image).items():
            self.insert(
                schema.instance_system_metadata,
                cell=cell,
                instance_uuid=values["uuid"],
                key=f"image_{key}",
                value=value,
            )
        return values["uuid"]

    def add_aggregate(self, name, hosts=(), metadata=None):
        number = self.insert_api(schema.aggregates, name=name, uuid=str(uuid.uuid4()))
        for host in hosts:
            self.insert_api(schema.aggregate_hosts, host=host, aggregate_id=number)
        for key, value in (metadata or {}).items():
            self.insert_api(schema.aggregate_metadata, key=key, value=value, aggregate_id=number)
        return number


def _empty(engine, metadata):
    with engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(sa.delete(table))
