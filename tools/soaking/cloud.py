"""The processes of a soak run: RabbitMQ, Placement and berth-scheduler, each private and on loopback."""

import contextlib
import os
from pathlib import Path
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from typing import Self

import oslo_messaging as messaging

from conductor_client.bus import Bus
from scheduler import conf as options
from scheduler.rpc.context import RequestContext
from tools.embedded_placement import EmbeddedPlacement, PlacementProcess
from tools.fleet import Cell, Fleet
from tools.placement_fleet import fill
from tools.small_cloud import CONFIGURATION

ROOT = Path(__file__).resolve().parents[2]
RABBIT_PORTS = range(21000, 29000)  # Erlang's own port is this one plus 20000
START_TIMEOUT = 60  # seconds until the scheduler answers
STOP_TIMEOUT = 60  # seconds until a stopped scheduler has ended


class SoakCloud(contextlib.ExitStack):
    """A context manager that starts the processes on entry and stops them on exit.

    Attributes:
        fleet: The hosts at the start.
        placement_url: The URL of Placement.
        conf: The scheduler's options.
        bus: The message bus.
        scheduler: The master process of the scheduler.
    """

    scheduler: subprocess.Popen
    placement_url: str

    def __init__(self, directory: str | Path, hosts: int, workers: int) -> None:
        """Describe a cloud; it is started on entry.

        Args:
            directory: Where databases, configuration and the scheduler's log are created.
            hosts: Number of compute hosts, in two cells.
            workers: Number of worker processes of the scheduler.
        """
        super().__init__()
        self.directory = Path(directory)
        self._workers = workers
        self.fleet = Fleet(hosts, [Cell(name, self.database(name)) for name in ("cell1", "cell2")])

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def database(self, name: str) -> str:
        """Return the URL of a database of the cloud."""
        return f"sqlite:///{self.directory}/{name}.sqlite"

    @property
    def log(self) -> Path:
        """The file that has the scheduler's log."""
        return self.directory / "scheduler.log"

    def stop_scheduler(self) -> int:
        """Stop the scheduler as systemd does, and return its exit status."""
        if self.scheduler.poll() is None:
            self.scheduler.send_signal(signal.SIGTERM)
        try:
            return self.scheduler.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(self.scheduler.pid, signal.SIGKILL)
            return self.scheduler.wait()

    def _start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        transport_url = self.enter_context(rabbitmq())
        placement = self.directory / "placement.sqlite"
        with EmbeddedPlacement(placement):
            pass  # the first start creates the tables, resource classes and traits
        fill(placement, self.fleet.providers())
        self.placement_url = self.enter_context(PlacementProcess(placement))
        self.fleet.write(self.database("api"), self.database("cell0"))
        for name in ("api", "cell0", "cell1", "cell2"):
            _allow_reading_while_writing(self.directory / f"{name}.sqlite")
        path = self._configure(transport_url)
        self.conf = options.load(["--config-file", str(path)])
        self.bus = Bus(self.conf)
        self.callback(self.bus.close)
        self._start_scheduler(path)

    def _configure(self, transport_url: str) -> Path:
        text = CONFIGURATION.format(
            transport_url=transport_url,
            api=self.database("api"),
            cell0=self.database("cell0"),
            placement=self.placement_url,
        )
        path = self.directory / "nova.conf"
        path.write_text(text.replace("workers = 1", f"workers = {self._workers}"))
        return path

    def _start_scheduler(self, path: Path) -> None:
        with self.log.open("w") as log:
            self.scheduler = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "scheduler.cmd.scheduler", "--config-file", path],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # the scheduler signals all of its process group
            )
        self.callback(self.stop_scheduler)
        self._await_scheduler()

    def _await_scheduler(self) -> None:
        client = self.bus.client("scheduler", "1.1").prepare(namespace="baseapi", version="1.1", timeout=1)
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and self.scheduler.poll() is None:
            with contextlib.suppress(messaging.MessagingTimeout):
                client.call(RequestContext(user_id="u", project_id="p"), "ping", arg=1)
                return
        raise RuntimeError(
            f"The scheduler does not answer; its log ends with:\n{self.log.read_text()[-2000:]}"
        )


@contextlib.contextmanager
def rabbitmq():
    """Run a RabbitMQ and give its transport URL.

    pifpaf has to be installed, and ``rabbitmq-server`` found on PATH.
    """
    from pifpaf.drivers.rabbitmq import RabbitMQDriver

    port = _free_port()
    with RabbitMQDriver(port=port, nodename=f"berth-soak-{port}") as driver:
        yield f"rabbit://{driver.username}:{driver.password}@127.0.0.1:{driver.port}//"


def _free_port() -> int:
    while True:
        port = random.choice(RABBIT_PORTS)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port


def _allow_reading_while_writing(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
