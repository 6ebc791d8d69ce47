"""The services of the cloud, in processes that outlive the command that starts them."""

from collections.abc import Iterable, Mapping
import contextlib
import getpass
import os
from pathlib import Path
import signal
import subprocess

import psutil
import requests
import sqlalchemy as sa

from tools.openstack.configuration import Configuration
from tools.openstack.layout import APIS, CELLS, Layout
from tools.rig import servers

#: Seconds until a service answers; imports of several take long on a busy machine.
START_TIMEOUT = 240
#: The services with an API, in the order in which they start.
API_SERVICES = ("keystone", "placement", "glance", "neutron", "nova")
CONDUCTORS = ("super-conductor", *(f"conductor-{cell}" for cell in CELLS))
VHOSTS = ("nova", "neutron", *CELLS)
DATABASE_OPTIONS = (
    "--character-set-server=utf8mb3",
    "--max-connections=2000",
    "--innodb-buffer-pool-size=512M",
    "--innodb-flush-method=nosync",
    "--bind-address=127.0.0.1",
)


class Adopted:
    """A process that another command started; it has what ``ServiceProcess`` uses of ``Popen``."""

    def __init__(self, pid: int, created: float) -> None:
        """Raises ``psutil.NoSuchProcess`` if it has ended, also if its number is another's now."""
        self.pid = pid
        self._process = psutil.Process(pid)
        if abs(self._process.create_time() - created) > 1:
            raise psutil.NoSuchProcess(pid)

    def poll(self) -> int | None:
        """Return None while it runs."""
        with contextlib.suppress(psutil.NoSuchProcess):
            if self._process.is_running() and self._process.status() != psutil.STATUS_ZOMBIE:
                return None
        return 0

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._process.send_signal(number)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends.

        Raises:
            TimeoutExpired: It does not end in time (subprocess).
        """
        try:
            self._process.wait(timeout)
        except psutil.TimeoutExpired:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None
        return 0


class Service(servers.Server):
    """A service by its name; its process is kept in the layout."""

    def __init__(
        self, layout: Layout, name: str, command: Iterable[str | Path], more: Mapping[str, str]
    ) -> None:
        """Describe a service; one that runs is adopted.

        Args:
            layout: Where its process is kept.
            name: It also names the log.
            command: The program and its arguments.
            more: Variables besides those of this process.
        """
        environment = {**os.environ, "PYTHONWARNINGS": "ignore", **more}
        if "PYTHONPATH" not in more:
            environment.pop("PYTHONPATH", None)
        super().__init__(list(command), layout.directory / "logs" / f"{name}.log", environment)
        self.name = name
        self._layout = layout
        if name in layout.processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._process = Adopted(*layout.processes[name])  # type: ignore[assignment]

    def start(self) -> None:
        """Start it unless it runs."""
        if self.running:
            return
        super().start()
        self._layout.keep_process(self.name, self.pid, psutil.Process(self.pid).create_time())

    def ask_to_stop(self) -> None:
        """Send its master SIGTERM, and do not wait."""
        self._process.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """Stop it if it runs, and all that it started."""
        status = 0
        if self.running:
            self.signal(signal.SIGCONT)
            status = super().stop()
        self._layout.drop_process(self.name)
        return status


class Services:
    """All services of a cloud by name."""

    def __init__(self, layout: Layout) -> None:
        """Describe them; nothing is started."""
        self._layout = layout
        self.configuration = Configuration(layout)
        self.rabbit = servers.Rabbit(layout.directory / "rabbitmq", layout.port("rabbitmq"))

    def __getitem__(self, name: str) -> Service:
        command, more = self._describe(name)
        return Service(self._layout, name, command, more)

    def start(self, *names: str) -> None:
        """Start services and wait until those with an endpoint answer; raises as ``wait_until``."""
        started = [self[name] for name in names]
        for service in started:
            service.start()
        for service in started:
            service.wait_until(
                lambda name=service.name: self.answers(name), f"{service.name} does not answer", START_TIMEOUT
            )

    def stop(self, *names: str) -> None:
        """Stop services, all at once, and wait for each."""
        chosen = [Service(self._layout, name, [], {}) for name in names]
        for service in chosen:
            if service.running:
                service.signal(signal.SIGCONT)
                service.ask_to_stop()
        for service in chosen:
            service.stop()

    def running(self, name: str) -> bool:
        """Return whether a process of the cloud runs, scheduler or service."""
        return Service(self._layout, name, [], {}).running

    def answers(self, name: str) -> bool:
        """Return whether a service takes requests, as far as that shows from outside."""
        if name == "mariadb":
            engine = sa.create_engine(self._layout.database("mysql"), poolclass=sa.NullPool)
            with contextlib.suppress(sa.exc.OperationalError), engine.connect():
                return True
            return False
        if name == "rabbitmq":
            return self.rabbit.accepts()
        for kind, api in APIS.items():
            if name == api:
                with contextlib.suppress(requests.RequestException):
                    return (
                        requests.get(f"http://127.0.0.1:{self._layout.port(kind)}/", timeout=10).status_code
                        < 500
                    )
                return False
        return True

    def _describe(self, name: str) -> tuple[list[str | Path], Mapping[str, str]]:
        """Return the command of a service and its variables."""
        files, program = self.configuration.path, self._layout.program
        if name == "mariadb":
            return self._mariadb(), {"PATH": servers.path_of_servers()}
        if name == "rabbitmq":
            return ["rabbitmq-server"], self.rabbit.variables
        if name in API_SERVICES:
            folder = files(name)
            more = {
                "GUNICORN_CMD_ARGS": f"-c {folder / 'gunicorn.py'}",
                f"OS_{name.upper()}_CONFIG_DIR": str(folder),
                "OS_NEUTRON_CONFIG_FILES": "neutron.conf",
            }
            # Modules of these APIs read sys.argv as theirs
            return [program("gunicorn")], more
        if name in CONDUCTORS:
            cell = name.removeprefix("conductor-")
            read = (f"{cell}.conf", "cell-conductor.conf")
            if name == "super-conductor":
                read = ("nova.conf", "super-conductor.conf")
            return [program("nova-conductor"), *_config_files(files(f"nova/{each}") for each in read)], {}
        if name in self._layout.hosts:
            cell = self._layout.hosts[name]
            both = (files(f"nova/{cell}.conf"), self.configuration.compute(name))
            return [program("nova-compute"), *_config_files(both)], {}
        raise KeyError(name)

    def make_mariadb(self) -> None:
        """Make the data of the database server."""
        servers.make_mariadb(self._common_options())

    def _common_options(self) -> list[str]:
        directory = self._layout.directory / "mariadb"
        return ["--no-defaults", f"--datadir={directory}", f"--user={getpass.getuser()}"]

    def _mariadb(self) -> list[str | Path]:
        return [
            "mariadbd",
            *self._common_options(),
            f"--socket={self._layout.directory}/mariadb.socket",
            f"--port={self._layout.port('mariadb')}",
            *DATABASE_OPTIONS,
        ]


def _config_files(paths: Iterable[Path]) -> list[str | Path]:
    return [word for path in paths for word in ("--config-file", path)]
