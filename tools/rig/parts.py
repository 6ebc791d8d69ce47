"""The parts of a cloud: how each is started, and ended with the cloud, by the names in ``World``."""

from collections.abc import Callable, Mapping
import contextlib
from functools import partial
import itertools
import os
from typing import TYPE_CHECKING, Any

import requests
import sqlalchemy as sa

from conductor_client import fake_compute, journal
from conductor_client import servers as stand_ins
from conductor_client.bus import Bus
from conductor_client.cells import client_of_each_cell
from tools.rig import cluster, servers
from tools.rig.faulty_proxy import FaultyProxy
from tools.rig.memory_bus import IN_MEMORY
from tools.rig.placement import PlacementProcess
from tools.rig.providers import send
from tools.rig.service import ServiceProcess

if TYPE_CHECKING:
    from tools.rig.world import RunningWorld

#: Starts a part of a cloud and has it ended with the cloud.
Start = Callable[["RunningWorld"], object]

PLACEMENT_PORTS = range(29000, 29900)
PLACEMENT_PROCESSES, PLACEMENT_THREADS = 2, 4
#: Seconds, as Apache's. A nova-scheduler that reuses a connection at this moment reports NoValidHost.
PLACEMENT_KEEPALIVE = 5
PLACEMENT_START_TIMEOUT = 120
#: Options of a MariaDB of a large fleet.
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
#: What the stand-ins of a cell read, besides the options of [conductor_client] that are appended.
CELL_CONFIGURATION = """\
[DEFAULT]
host = {cell.name}
transport_url = {cell.transport_url}
[database]
connection = {cell.database_url}
[placement]
auth_type = admin_token
endpoint = {cloud.placement_url}
token = admin
[conductor_client]
cell = {cell.name}
api_transport_url = {cloud.callers_bus}
"""


def memory(cloud: "RunningWorld") -> None:
    """Have a bus in this process."""
    cloud.callers_bus = cloud.daemons_bus = IN_MEMORY


def rabbitmq(cloud: "RunningWorld") -> None:
    """Have a virtual host of a RabbitMQ that runs already, or else a RabbitMQ."""
    if cloud.rabbit:
        cloud.vhost = cloud.rabbit.vhost().rpartition("/")[2]
    else:
        cloud.announce("RabbitMQ")
        cloud.rabbit = cloud.enter_context(servers.rabbitmq())
    cloud.callers_bus = cloud.rabbit.url_of(cloud.vhost)
    cloud.daemons_bus = cloud.rabbit.url_of(cloud.vhost, cloud.way("broker", cloud.rabbit.port))


def files(cloud: "RunningWorld") -> None:
    """Have databases in SQLite files, but for those that are there already."""
    cloud.urls = dict(cloud.world.urls)


def mariadb(cloud: "RunningWorld") -> None:
    """Have a MariaDB."""
    cloud.mariadb = cloud.enter_context(servers.mariadb(tcp=True))
    _databases(cloud, cloud.mariadb, cloud.way("mariadb", cloud.mariadb.port or 0), cloud.databases)
    # Placement reaches its own without a proxy
    _databases(cloud, cloud.mariadb, cloud.mariadb.port or 0, ["placement"])


def mixed(cloud: "RunningWorld") -> None:
    """Have a MariaDB, and a PostgreSQL for the last cell."""
    mariadb(cloud)
    cloud.postgresql = cloud.enter_context(servers.postgresql(tcp=True))
    port = cloud.way("postgresql", cloud.postgresql.port or 0)
    _databases(cloud, cloud.postgresql, port, cloud.databases[-1:])


def of_nova(cloud: "RunningWorld") -> None:
    """Have a MariaDB with the tables that nova makes."""
    cloud.mariadb = cloud.enter_context(servers.mariadb(options=DATABASE_OPTIONS))
    for name in ("placement", *cloud.databases):
        cloud.urls[name] = cloud.enter_context(servers.made_database(cloud.mariadb.url, name))
    configuration = cloud.configure(cloud.callers_bus)
    environment = {**os.environ, "OS_NOVA_DISABLE_EVENTLET_PATCHING": "1", "PYTHONWARNINGS": "ignore"}
    manage = partial(
        cloud.world.software.run, "nova-manage", "--config-file", str(configuration), environment=environment
    )
    manage("api_db", "sync")
    manage("db", "sync", "--local_cell")
    first, *others = (sa.make_url(cloud.urls[name]).database for name in cloud.databases[1:])
    engine = sa.create_engine(cloud.mariadb.url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        tables = connection.execute(sa.text(f"SHOW TABLES FROM {first}")).scalars().all()
        for database, table in itertools.product(others, tables):
            connection.execute(sa.text(f"CREATE TABLE {database}.`{table}` LIKE {first}.`{table}`"))


def _databases(cloud: "RunningWorld", server: servers.Database, port: int, names: list[str]) -> None:
    for name in names:
        url = sa.make_url(cloud.enter_context(servers.made_database(server.url, name)))
        # By TCP: neither a proxy nor a machine of its own sees the socket
        url = url.set(host="127.0.0.1", port=port, query={})
        cloud.urls[name] = url.render_as_string(hide_password=False)


def placement(cloud: "RunningWorld") -> None:
    """Have a Placement with the providers of the hosts."""
    cloud.announce(f"Placement with {cloud.world.hosts} resource providers")
    port = servers.free_port(PLACEMENT_PORTS)
    log = cloud.directory / "placement.log"
    cloud.urls["placement"] = database = cloud.database("placement")
    cloud.placement = PlacementProcess(database, port, log=log)
    cloud.placement_url = cloud.enter_context(cloud.placement)
    cloud.placement_port = cloud.way("placement", port)
    if cloud.world.faulty:
        cloud.behind = cloud.placement_url
        cloud.proxy = cloud.enter_context(FaultyProxy(cloud.behind))
        cloud.placement_url = cloud.proxy.url


def gunicorn(cloud: "RunningWorld") -> None:
    """Have a Placement in several processes, as operators' servers do."""
    directory = cloud.directory / "placement"
    directory.mkdir()
    path = directory / "placement.conf"
    path.write_text(PLACEMENT_CONFIGURATION.format(database=cloud.database("placement")))
    environment = {**os.environ, "OS_PLACEMENT_CONFIG_DIR": str(directory), "PYTHONWARNINGS": "ignore"}
    sync = ["--config-file", str(path), "db", "sync"]
    cloud.world.software.run("placement-manage", *sync, environment=environment)
    port = servers.free_port(PLACEMENT_PORTS)
    options = {
        "--workers": PLACEMENT_PROCESSES,
        "--worker-class": "gthread",
        "--threads": PLACEMENT_THREADS,
        "--keep-alive": PLACEMENT_KEEPALIVE,
        "--backlog": 1024,
        "--timeout": 300,
        "--access-logfile": directory / "requests",
        "--access-logformat": "%(m)s %(U)s %(s)s",
        "--bind": f"127.0.0.1:{port}",
    }
    words = [str(word) for pair in options.items() for word in pair]
    command = [cloud.world.software.program("gunicorn"), *words, "placement.wsgi.api:application"]
    cloud.placement = ServiceProcess(command, cloud.directory / "placement.log", environment)
    cloud.placement.start()
    cloud.callback(cloud.placement.stop)
    cloud.placement_url = f"http://127.0.0.1:{port}"

    def creates_traits() -> bool:
        # its first request creates the traits
        with contextlib.suppress(requests.RequestException):
            return send("GET", f"{cloud.placement_url}/traits?name=in:COMPUTE_NODE").ok
        return False

    cloud.placement.wait_until(creates_traits, "Placement does not answer", PLACEMENT_START_TIMEOUT)


def no_conductors(cloud: "RunningWorld") -> None:
    """Have neither conductors nor computes: callers ask schedulers."""


def local_conductors(cloud: "RunningWorld") -> None:
    """Have super-conductor, conductors and computes in this process."""
    cloud.announce("conductors and computes")

    def open_bus(cell: Any) -> Bus:
        return cloud.connect(cell.transport_url, None if cloud.rabbit else f"nova-{cell.name}")

    cloud.journal = journal.Journal()
    cloud.computes = client_of_each_cell(open_bus, fake_compute.TOPIC)
    api = cloud.engine(cloud.database("api"))
    running = [stand_ins.super_conductor(cloud.conf, api, cloud.bus, open_bus, cloud.journal)]
    for cell in cloud.fleet.cells:
        buses = open_bus(cell), cloud.bus
        rows = cloud.engine(cell.database_url)
        running += stand_ins.of_cell(cloud.conf, *buses, cell.name, rows, cloud.world.failures)
    for server in running:
        server.start()
    cloud.at_once(running, stand_ins.stop)
    cloud.client = cloud.bus.client(journal.TOPIC, journal.VERSION)


def conductors(cloud: "RunningWorld") -> None:
    """Have a process for the super-conductor, and one for conductor and computes of each cell."""
    failures = cloud.world.failures
    wanted = {
        "fail_hosts": ",".join(sorted(failures.hosts)),
        "fail_rate": failures.rate,
        "fail_seed": failures.seed,
    }
    files = {"super": cloud.directory / "callers.conf"}
    for cell in cloud.fleet.cells:
        text = CELL_CONFIGURATION.format(cell=cell, cloud=cloud)
        files[cell.name] = cloud.directory / f"{cell.name}.conf"
        files[cell.name].write_text(text + "".join(f"{name} = {value}\n" for name, value in wanted.items()))
    started = [
        cloud.run("conductor_client.cmd.stand_ins", "--config-file", path, name=f"stand-ins-{name}")
        for name, path in files.items()
    ]
    for process in started:
        process.wait_for_line("is ready")
    cloud.client = cloud.bus.client(journal.TOPIC, journal.VERSION)


BUSES: Mapping[str, Start] = {"memory": memory, "rabbitmq": rabbitmq, "cluster": cluster.brokers}
DATABASES: Mapping[str, Start] = {
    "sqlite": files,
    "mariadb": mariadb,
    "mixed": mixed,
    "nova": of_nova,
    "galera": cluster.galera,
}
PLACEMENTS: Mapping[str, Start] = {"process": placement, "gunicorn": gunicorn, "balanced": cluster.placements}
CONDUCTORS: Mapping[str, Start] = {"": no_conductors, "here": local_conductors, "processes": conductors}
