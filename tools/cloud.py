"""What the clouds of demo, soak, chaos and integration tests have in common.

A cloud has a fleet in nova's databases and in Placement, a configuration file, and a scheduler: in this
process, or in processes of its own (``SchedulerProcess``).
"""

from collections.abc import Sequence
import contextlib
import os
from pathlib import Path
import signal
import subprocess
import sys
import time
from typing import Any, Self

import oslo_messaging as messaging
import psutil

from conductor_client.bus import Bus
from scheduler import conf as options
from scheduler.rpc.context import RequestContext
from tools.embedded_placement import EmbeddedPlacement
from tools.fleet import Cell, Fleet
from tools.placement_fleet import fill

ROOT = Path(__file__).resolve().parents[1]
START_TIMEOUT = 60  # seconds until a scheduler answers
STOP_TIMEOUT = 60  # seconds until a stopped scheduler has ended

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
[scheduler]
workers = {workers}
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

    def make_fleet(self, hosts: int, cells: Sequence[Cell], partitions: int = 1) -> None:
        """Describe the hosts; nothing is written yet."""
        self.fleet = Fleet(hosts, cells, partitions)

    def fill_placement(self) -> Path:
        """Write the fleet to the SQLite file of a Placement that is not started yet, and return the file."""
        path = self.directory / "placement.sqlite"
        with EmbeddedPlacement(path):
            pass  # the first start creates the tables, resource classes and traits
        fill(path, self.fleet.providers())
        return path

    def write_databases(self) -> None:
        """Write the fleet to nova's databases."""
        self.fleet.write(self.database("api"), self.database("cell0"))

    def configure(
        self,
        transport_url: str,
        *,
        host: str = "controller",
        workers: int = 1,
        defaults: str = "",
        sections: str = "",
    ) -> Path:
        """Write the configuration of a scheduler and read it as ``conf``.

        Args:
            transport_url: The message bus.
            host: The scheduler's ``[DEFAULT]/host``, which also names the file.
            workers: Number of worker processes.
            defaults: Lines to add to the section DEFAULT.
            sections: Sections to append.

        Returns:
            The file.
        """
        path = self.directory / f"{host}.conf"
        text = CONFIGURATION.format(
            host=host,
            transport_url=transport_url,
            api=self.database("api"),
            cell0=self.database("cell0"),
            placement=self.placement_url,
            workers=workers,
            defaults=defaults,
        )
        path.write_text(text + sections)
        self.conf = options.load(["--config-file", str(path)])
        return path


class SchedulerProcess:
    """A ``berth-scheduler`` in processes of its own, with its log in a file.

    Attributes:
        log: The file that has the log of all its lives.
    """

    def __init__(self, config_file: Path, log: Path, environment: dict[str, str] | None = None) -> None:
        """Describe a scheduler; ``start`` runs it.

        Args:
            config_file: Its configuration.
            log: Where its log is appended.
            environment: Variables besides those of this process.
        """
        self.log = log
        self._command = [sys.executable, "-W", "ignore", "-m", "scheduler.cmd.scheduler"]
        self._command += ["--config-file", str(config_file)]
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
        self._process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        """The process ID of the master."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.poll()

    def start(self) -> None:
        """Start it, also again."""
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # the scheduler signals all of its process group
            )

    def workers(self) -> list[psutil.Process]:
        """Return the worker processes that run now."""
        return psutil.Process(self.pid).children()

    def kill(self) -> None:
        """Kill the master and its workers at once, as the kernel or a service manager does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """Stop it as systemd does, and return its exit status."""
        if self.status is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def wait_for_line(self, words: str) -> None:
        """Wait until its log has these words, in this life or an earlier one.

        Raises:
            RuntimeError: It has ended, or the time is over; the text has the end of the log.
        """
        deadline = time.monotonic() + START_TIMEOUT
        while words not in self.log.read_text():
            if time.monotonic() > deadline or self.status is not None:
                raise self._failure(f"The scheduler does not say {words!r}")
            time.sleep(0.1)

    def wait_until_it_answers(
        self, bus: Bus, timeout: float = START_TIMEOUT, host: str | None = None
    ) -> None:
        """Wait until a scheduler on the bus answers a ping, for ``timeout`` seconds at most.

        Args:
            bus: Where it is asked.
            timeout: Seconds.
            host: Its ``[DEFAULT]/host``; None: any scheduler may answer.

        Raises:
            RuntimeError: It has ended, or the time is over; the text has the end of the log.
        """
        client = bus.client("scheduler", "1.1")
        client = client.prepare(server=host, namespace="baseapi", version="1.1", timeout=1)
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and self.status is None:
            with contextlib.suppress(messaging.MessagingTimeout):
                client.call(RequestContext(user_id="u", project_id="p"), "ping", arg=1)
                return
        raise self._failure("The scheduler does not answer")

    def _failure(self, complaint: str) -> RuntimeError:
        return RuntimeError(f"{complaint}; its log ends with:\n{self.log.read_text()[-2000:]}")


class NovaSchedulerProcess(SchedulerProcess):
    """A real ``nova-scheduler``, with its output in a file."""

    def __init__(self, program: str | Path, config_files: Sequence[Path], log: Path) -> None:
        """Describe a scheduler; ``start`` runs it.

        Args:
            program: The path of nova-scheduler.
            config_files: Its configuration.
            log: Where its output is appended.
        """
        super().__init__(config_files[0], log, {"PYTHONWARNINGS": "ignore"})
        self._command = [str(program)]
        self._command += [str(word) for path in config_files for word in ("--config-file", path)]
        self._environment.pop("PYTHONPATH")
