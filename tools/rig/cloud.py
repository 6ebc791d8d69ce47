"""What the clouds of demo, chaos and integration tests have in common.

A cloud has a fleet in nova's databases and in Placement, a configuration file, and a scheduler: in this
process, or in processes of its own (``BerthSchedulerProcess``).
"""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import os
from pathlib import Path
from typing import Any, Self

import oslo_messaging as messaging
import sqlalchemy as sa

from conductor_client.bus import Bus
from scheduler import conf as options
from scheduler.rpc.context import RequestContext
from tools.rig.fleet import Cell, Fleet
from tools.rig.placement import PlacementProcess
from tools.rig.providers import fill
from tools.rig.servers import Server
from tools.rig.service import START_TIMEOUT, ServiceProcess, command_of, environment_of_berth

# The hosts of the fleet send no heartbeats; with this interval the scheduler regards them as up.
CONFIGURATION = """\
[DEFAULT]
host = {host}
transport_url = {transport_url}
service_down_time = 315360000
{defaults}
[api_database]
connection = {api}
[database]
connection = {cell0}
[placement]
auth_type = admin_token
endpoint = {placement}
token = admin
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
endpoint = {placement}
token = admin
[conductor_client]
cell = {cell.name}
api_transport_url = {api_transport_url}
"""


class Cloud(contextlib.ExitStack):
    """A context manager that starts a cloud on entry (``_start``) and stops it on exit.

    Attributes:
        directory: Where databases, configuration and logs are created.
        fleet: The hosts.
        placement_url: The URL of Placement, once it is started.
        conf: The options of the scheduler, once ``configure`` was called.
    """

    placement_url: str
    conf: Any

    def __init__(self, directory: str | Path) -> None:
        super().__init__()
        self.directory = Path(directory)

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def _start(self) -> None:
        raise NotImplementedError

    def database(self, name: str) -> str:
        """Return the URL of a database of the cloud."""
        return f"sqlite:///{self.directory}/{name}.sqlite"

    def start_server(self, server: Server) -> None:
        """Start a server that ends with the cloud, also if it does not answer in time."""
        self.callback(server.kill)
        server.start()

    @contextlib.contextmanager
    def connection(self, database: str) -> Iterator[sa.Connection]:
        """Give a connection to a database of the cloud; what is written is committed at the end."""
        engine = sa.create_engine(self.database(database), poolclass=sa.NullPool)
        with engine.begin() as connection:
            yield connection

    def engine(self, url: str) -> sa.Engine:
        """Return an engine that ends with the cloud."""
        engine = sa.create_engine(url)
        self.callback(engine.dispose)
        return engine

    def connect(self, url: str | None = None) -> Bus:
        """Return a connection to a message bus, by default that of ``conf``, which ends with the cloud."""
        bus = Bus(self.conf, url)
        self.callback(bus.close)
        return bus

    def make_fleet(self, hosts: int, cells: Sequence[Cell], partitions: int = 1) -> None:
        """Describe the hosts; nothing is written yet."""
        self.fleet = Fleet(hosts, cells, partitions)

    def start_placement(self) -> str:
        """Start a Placement on an SQLite file, write the fleet to it, and return its URL."""
        path = self.directory / "placement.sqlite"
        url = self.enter_context(PlacementProcess(path))
        fill(path, self.fleet.providers())
        return url

    def write_databases(self) -> None:
        """Write the fleet to nova's databases."""
        self.fleet.write(self.database("api"), self.database("cell0"))

    def configure(
        self,
        transport_url: str,
        *,
        host: str = "controller",
        defaults: str = "",
        sections: str = "",
    ) -> Path:
        """Write the configuration of a scheduler, read it as ``conf``, and return its file.

        ``host`` also names the file; ``defaults`` are lines of the section DEFAULT, ``sections`` are added.
        """
        path = self.directory / f"{host}.conf"
        text = CONFIGURATION.format(
            host=host,
            transport_url=transport_url,
            api=self.database("api"),
            cell0=self.database("cell0"),
            placement=self.placement_url,
            defaults=defaults,
        )
        path.write_text(text + sections)
        self.conf = options.load(["--config-file", str(path)])
        return path

    def configure_cell(self, cell: Cell, api_transport_url: str, **options: Any) -> Path:
        """Write the configuration of the conductor and the computes of a cell, and return its file.

        ``api_transport_url`` is the bus of super-conductor and schedulers; options are of [conductor_client].
        """
        path = self.directory / f"{cell.name}.conf"
        text = CELL_CONFIGURATION.format(
            cell=cell, placement=self.placement_url, api_transport_url=api_transport_url
        )
        path.write_text(text + "".join(f"{name} = {value}\n" for name, value in options.items()))
        return path


class SchedulerProcess(ServiceProcess):
    """A scheduler in processes of its own, of either kind."""

    def wait_until_it_answers(
        self, bus: Bus, timeout: float = START_TIMEOUT, host: str | None = None
    ) -> None:
        """Wait until a scheduler on the bus answers a ping: that of a ``[DEFAULT]/host``, or any.

        Raises:
            RuntimeError: It has ended, or the time is over; the text has the end of the log.
        """
        client = bus.client("scheduler", "1.1")
        client = client.prepare(server=host, namespace="baseapi", version="1.1", timeout=1)

        def answers() -> bool:
            with contextlib.suppress(messaging.MessagingTimeout):
                client.call(RequestContext(user_id="u", project_id="p"), "ping", arg=1)
                return True
            return False

        self.wait_until(answers, "The scheduler does not answer", timeout)


class BerthSchedulerProcess(SchedulerProcess):
    """A ``berth-scheduler``."""

    module = "scheduler.cmd.scheduler"

    def __init__(self, config_file: Path, log: Path, environment: Mapping[str, str] | None = None) -> None:
        """Describe a scheduler, which ``start`` runs with these variables besides those of this process."""
        command = command_of(self.module, config_file)
        super().__init__(command, log, {**environment_of_berth(), **(environment or {})})


class BerthRouterProcess(BerthSchedulerProcess):
    """A ``berth-router``."""

    module = "scheduler.cmd.router"


class NovaSchedulerProcess(SchedulerProcess):
    """A real ``nova-scheduler``, with its output in a file."""

    def __init__(self, program: str | Path, config_files: Sequence[Path], log: Path) -> None:
        command = [program, *(word for path in config_files for word in ("--config-file", path))]
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        environment.pop("PYTHONPATH", None)
        super().__init__(command, log, environment)


def consumers_of(*, nova: int = 0, berth: int = 0) -> int:
    """Return how many consumers of requests so many schedulers of each kind have."""
    return nova + 2 * berth
