"""The rig: RabbitMQ, MariaDB, Placement and a fleet, private, on loopback, removed in the end."""

from collections.abc import Mapping
import contextlib
import os
from pathlib import Path

import requests
import sqlalchemy as sa

from tools.rig import instances, servers
from tools.rig.cloud import Cloud
from tools.rig.fleet import Cell
from tools.rig.providers import fill, send
from tools.rig.service import ServiceProcess
from tools.rig.software import Software

PLACEMENT_PORTS = range(17000, 20000)
PLACEMENT_PROCESSES, PLACEMENT_THREADS = 2, 4
#: Seconds, as Apache's. A nova-scheduler that reuses a connection at this moment reports NoValidHost.
PLACEMENT_KEEPALIVE = 5
PLACEMENT_START_TIMEOUT = 120

DATABASE_OPTIONS = (
    "--character-set-server=utf8mb3",
    "--max-connections=2000",
    "--innodb-buffer-pool-size=1G",
    "--innodb-log-file-size=256M",
    "--max-allowed-packet=64M",
)
PLACEMENT_CONFIGURATION = """\
[api]
auth_strategy = noauth2
[placement_database]
connection = {database}
"""
#: nova's sections besides those of every cloud here.
NOVA_SECTIONS = """\
[oslo_concurrency]
lock_path = {directory}
"""


class NovaCloud(Cloud):
    """Everything that a scheduler needs; a context manager.

    ``filled`` are the instances that are there before a load begins.
    """

    rabbit: servers.Rabbit
    placement_database: sa.Engine
    _server: servers.Database
    _placement: ServiceProcess

    def __init__(self, directory: Path, software: Software, hosts: int, cells: int, filled: int = 0) -> None:
        """Describe a rig, with so many instances on the hosts; it is started on entry."""
        super().__init__(directory)
        self.software = software
        self._hosts = hosts
        self._cells = [f"cell{number}" for number in range(1, cells + 1)]
        self._to_fill = filled
        self._last_ids = {"allocations": 0, "consumers": 0}
        self.filled: frozenset[str] = frozenset()

    def database(self, name: str) -> str:
        """Return the URL of a database of the rig."""
        return (
            sa.make_url(self._server.url).set(database=f"nova_{name}").render_as_string(hide_password=False)
        )

    def processes(self) -> Mapping[str, int]:
        """Return the process IDs of the services by name."""
        return {"placement": self._placement.pid, "mariadb": self._server.pid, "rabbitmq": self.rabbit.pid}

    @property
    def placement_requests(self) -> Path:
        """The file with method, path and status of each request that Placement has answered."""
        return self.directory / "placement" / "requests"

    def statements(self) -> int:
        """Return how many statements the database server has carried out."""
        with self.placement_database.connect() as connection:
            return int(connection.execute(sa.text("SHOW GLOBAL STATUS LIKE 'Questions'")).one()[1])

    def reset(self) -> None:
        """Remove all allocations from Placement but those of the instances that were there."""
        with self.placement_database.begin() as connection:
            for table, last in self._last_ids.items():
                connection.execute(sa.text(f"DELETE FROM {table} WHERE id > {last}"))  # noqa: S608

    def _start(self) -> None:
        self.rabbit = self.enter_context(servers.rabbitmq())
        self._server = self.enter_context(servers.mariadb(options=DATABASE_OPTIONS))
        # The transport URLs of cells have to be different; no scheduler connects to them.
        cells = [Cell(name, self.database(name), self.rabbit.url_of(name)) for name in self._cells]
        self.make_fleet(self._hosts, cells)
        self.fleet.placed = instances.place(self.fleet, self._to_fill)
        self._create_schemas()
        self.placement_database = self.engine(self.database("placement"))
        self._start_placement()
        fill(self.database("placement"), self.fleet.providers())
        self.write_databases()
        if self._to_fill:
            self._fill()
        self._analyze()

    def _fill(self) -> None:
        instances.fill_placement(self.placement_database, self.fleet.placed)
        self.filled = frozenset(each.uuid for each in self.fleet.placed)
        with self.placement_database.connect() as connection:
            for table in self._last_ids:
                last = sa.text(f"SELECT MAX(id) FROM {table}")  # noqa: S608
                self._last_ids[table] = connection.execute(last).scalar_one()

    def _create_schemas(self) -> None:
        names = ["api", "cell0", *self._cells, "placement"]
        engine = sa.create_engine(self._server.url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            for name in names:
                connection.execute(sa.text(f"CREATE DATABASE nova_{name}"))
        self.placement_url = "http://127.0.0.1:1"  # nova's configuration has to name one
        configuration = self.configure_nova(self.rabbit.url)
        environment = {**os.environ, "OS_NOVA_DISABLE_EVENTLET_PATCHING": "1", "PYTHONWARNINGS": "ignore"}
        nova = ["nova-manage", "--config-file", str(configuration)]
        self.software.run(*nova, "api_db", "sync", environment=environment)
        self.software.run(*nova, "db", "sync", "--local_cell", environment=environment)
        with engine.connect() as connection:
            tables = connection.execute(sa.text("SHOW TABLES FROM nova_cell0")).scalars().all()
            for cell in self._cells:
                for table in tables:
                    connection.execute(
                        sa.text(f"CREATE TABLE nova_{cell}.`{table}` LIKE nova_cell0.`{table}`")
                    )

    def configure_nova(self, transport_url: str, sections: str = "", host: str = "controller") -> Path:
        """Write the configuration of a scheduler, which nova reads as well; ``sections`` are appended."""
        return self.configure(
            transport_url,
            host=host,
            defaults=f"state_path = {self.directory}",
            sections=NOVA_SECTIONS.format(directory=self.directory) + sections,
        )

    def _start_placement(self) -> None:
        directory = self.directory / "placement"
        directory.mkdir(exist_ok=True)
        text = PLACEMENT_CONFIGURATION.format(database=self.database("placement"))
        (directory / "placement.conf").write_text(text)
        environment = {**os.environ, "OS_PLACEMENT_CONFIG_DIR": str(directory), "PYTHONWARNINGS": "ignore"}
        configuration = ["--config-file", str(directory / "placement.conf")]
        self.software.run("placement-manage", *configuration, "db", "sync", environment=environment)
        port = servers.free_port(PLACEMENT_PORTS)
        options = {
            "--workers": PLACEMENT_PROCESSES,
            "--worker-class": "gthread",
            "--threads": PLACEMENT_THREADS,
            "--keep-alive": PLACEMENT_KEEPALIVE,
            "--backlog": 1024,
            "--timeout": 300,
            "--access-logfile": self.placement_requests,
            "--access-logformat": "%(m)s %(U)s %(s)s",
            "--bind": f"127.0.0.1:{port}",
        }
        command = [self.software.program("gunicorn")]
        command += [str(word) for pair in options.items() for word in pair]
        command.append("placement.wsgi.api:application")
        self._placement = ServiceProcess(command, self.directory / "placement.log", environment)
        self._placement.start()
        self.callback(self._placement.stop)
        self.placement_url = f"http://127.0.0.1:{port}"
        self._placement.wait_until(self._creates_traits, "Placement does not answer", PLACEMENT_START_TIMEOUT)

    def _creates_traits(self) -> bool:
        """Return whether Placement answers its first request, which creates the traits."""
        with contextlib.suppress(requests.RequestException):
            url = f"{self.placement_url}/traits?name=in:COMPUTE_NODE"
            return send("GET", url).ok
        return False

    def _analyze(self) -> None:
        with self.placement_database.connect() as connection:
            tables = connection.execute(sa.text("SHOW TABLES")).scalars().all()
            for table in tables:
                connection.execute(sa.text(f"ANALYZE TABLE `{table}`")).all()
