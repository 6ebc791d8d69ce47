"""From nothing to a running cloud, in steps that are kept: a second try goes on where the first ended."""

from concurrent.futures import ThreadPoolExecutor
import os
import shutil
import time
import uuid

import sqlalchemy as sa

from tools.openstack import contents, software
from tools.openstack.layout import CELLS, Layout
from tools.openstack.programs import run
from tools.openstack.services import CONDUCTORS, VHOSTS, Schedulers, Services

DATABASES = (
    "keystone",
    "glance",
    "placement",
    "neutron",
    "nova_api",
    *(f"nova_{each}" for each in ("cell0", *CELLS)),
)
#: Seconds until all computes have reported.
REPORT_TIMEOUT = 300


class Deployment:
    """Starts and ends a cloud."""

    def __init__(self, layout: Layout) -> None:
        """Describe the cloud of a layout that is prepared."""
        self._layout = layout
        self._services = Services(layout)
        self._begun = time.monotonic()

    def up(self, scheduler: str | None) -> None:
        """Start everything that does not run, and make what is missing.

        Raises:
            RuntimeError: A command fails, or a service does not start.
        """
        self._say(f"The cloud in {self._layout.directory}")
        software.make(self._layout.software)
        self._services.configuration.write()
        self._services.supervise()
        self._once("data of MariaDB", self._services.make_mariadb)
        self._say("Starting MariaDB and RabbitMQ")
        self._services.start("mariadb", "rabbitmq")
        self._once("virtual hosts", lambda: self._services.rabbit.make_vhosts(VHOSTS))
        self._once("databases", self._make_databases)
        self._once("schemas", self._make_schemas)
        self._once("bootstrap", self._bootstrap)
        self._say("Starting Keystone, Placement, Glance, Neutron")
        self._services.start("keystone")
        self._once("catalog", lambda: contents.make_catalog(self._layout))
        self._services.start("placement", "glance", "neutron")
        self._once("cells", self._make_cells)
        self._say("Starting nova")
        hosts = list(self._layout.hosts)
        self._services.start("nova", *CONDUCTORS)
        schedulers = Schedulers(self._layout)
        if scheduler or not schedulers.running():
            schedulers.replace(scheduler or "nova")
        self._services.start(*hosts)
        contents.bring_back(self._layout)
        contents.wait_for_computes(self._layout, REPORT_TIMEOUT)
        self._once("hosts", lambda: self._manage("cell_v2", "discover_hosts"))
        self._once("contents", lambda: contents.make(self._layout))
        self._say(f"The cloud is ready: {len(hosts)} computes, served by {', '.join(schedulers.running())}")

    def down(self, *, keep: bool = False) -> None:
        """End everything that was started here; all but the software is removed unless it is kept."""
        self._services.shut_down()
        if not keep:
            for entry in self._layout.directory.iterdir():
                if entry.absolute() != self._layout.software and entry.name != "lock":
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        self._say("The cloud is down")

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._begun:4.0f} s  {text}", flush=True)

    def _once(self, name: str, step) -> None:
        if not self._layout.done(name):
            self._say(f"Making {name}")
            with self._layout.step(name):
                step()

    def _make_databases(self) -> None:
        url = self._layout.database("mysql")
        engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            for name in DATABASES:
                connection.execute(sa.text(f"DROP DATABASE IF EXISTS {name}"))
                connection.execute(sa.text(f"CREATE DATABASE {name}"))

    def _make_schemas(self) -> None:
        files = self._services.configuration.path
        commands = [
            ["neutron-db-manage", "--config-file", files("neutron/neutron.conf"), "upgrade", "heads"],
            *(
                ["nova-manage", "--config-file", files(f"nova/{name}.conf"), "db", "sync", "--local_cell"]
                for name in ("nova", *CELLS)
            ),
            ["nova-manage", "--config-file", files("nova/nova.conf"), "api_db", "sync"],
            ["keystone-manage", "--config-file", files("keystone/keystone.conf"), "db_sync"],
            ["glance-manage", "--config-file", files("glance/glance-api.conf"), "db_sync"],
            ["placement-manage", "--config-file", files("placement/placement.conf"), "db", "sync"],
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda command: self._run(*map(str, command)), commands))

    def _bootstrap(self) -> None:
        file = str(self._services.configuration.path("keystone/keystone.conf"))
        keystone = ["keystone-manage", "--config-file", file]
        owner = ["--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid())]
        for what in ("fernet_setup", "credential_setup"):
            self._run(*keystone, what, *owner)
        url = self._layout.url("identity")
        urls = [f"--bootstrap-{kind}-url={url}" for kind in ("public", "internal", "admin")]
        password = f"--bootstrap-password={self._layout.password}"
        self._run(*keystone, "bootstrap", password, "--bootstrap-region-id=RegionOne", *urls)

    def _make_cells(self) -> None:
        layout = self._layout
        self._manage("cell_v2", "map_cell0", "--database_connection", layout.database("nova_cell0"))
        for cell in CELLS:
            database = ["--database_connection", layout.database(f"nova_{cell}")]
            self._manage(
                "cell_v2", "create_cell", "--name", cell, *database, "--transport-url", layout.bus(cell)
            )
        for host in layout.hosts:
            # A fake driver has no node of its own that lasts over a restart
            identity = layout.directory / "nova" / host / "compute_id"
            identity.write_text(str(uuid.uuid5(uuid.NAMESPACE_DNS, host)))

    def _manage(self, *words: str) -> None:
        self._run("nova-manage", "--config-file", str(self._layout.nova_conf), *words)

    def _run(self, name: str, *words: str) -> None:
        run(self._layout.program(name), *words)
