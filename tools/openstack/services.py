"""The services of the cloud, run by supervisor, so that they outlive the command that starts them."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
import contextlib
import getpass
from pathlib import Path
import shutil
import signal
import sys
import time
from typing import Any
from xmlrpc.client import Fault, ServerProxy

import psutil
import requests
import sqlalchemy as sa
from supervisor.xmlrpc import SupervisorTransport

from tools.openstack.api import Api
from tools.openstack.configuration import Configuration
from tools.openstack.layout import APIS, CELLS, Layout
from tools.openstack.programs import run
from tools.rig import servers
from tools.rig.service import ANY, STOP_TIMEOUT, command_of, environment_of_berth, until

#: Seconds until a service answers; imports of several take long on a busy machine.
START_TIMEOUT = 240
#: Seconds until a scheduler takes requests.
SCHEDULER_TIMEOUT = 300
#: The services with an API, in the order in which they start.
API_SERVICES = ("keystone", "placement", "glance", "neutron", "nova")
CONDUCTORS = ("super-conductor", *(f"conductor-{cell}" for cell in CELLS))
VHOSTS = ("nova", "neutron", *CELLS)
#: What the others need is stopped after them, the last one first.
NEEDED = ("mariadb", "rabbitmq", "keystone")
#: Berth of this checkout runs on the controller of nova-scheduler, another revision on a second one.
SCHEDULERS = ("nova-scheduler", "berth-scheduler", "other-berth-scheduler")
MODULES = {
    "berth-scheduler": "scheduler.cmd.scheduler",
    "berth-shadow": "scheduler.operators.programs berth-shadow",
}
DATABASE_OPTIONS = (
    "--character-set-server=utf8mb3",
    "--max-connections=2000",
    "--innodb-buffer-pool-size=512M",
    "--innodb-flush-method=nosync",
    "--bind-address=127.0.0.1",
)
SUPERVISOR = """\
[supervisord]
logfile = {directory}/logs/supervisord.log
pidfile = {directory}/supervisord.pid
[unix_http_server]
file = {directory}/supervisor.socket
[supervisorctl]
serverurl = unix://{directory}/supervisor.socket
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
"""
PROGRAM = """\
[program:{name}]
command = {command}
environment = {environment}
autostart = false
autorestart = false
startsecs = 0
stopwaitsecs = {stop_timeout}
killasgroup = true
redirect_stderr = true
stdout_logfile = {log}
stdout_logfile_maxbytes = 0
"""


class Service(servers.Server):
    """A service by its name, which supervisor runs."""

    def __init__(self, layout: Layout, name: str) -> None:
        """Describe a service of a cloud whose supervisor runs."""
        super().__init__([], layout.directory / "logs" / f"{name}.log")
        self.name = name
        self._layout = layout

    @property
    def _info(self) -> Mapping[str, Any]:
        return _call(self._layout, "getProcessInfo", self.name)

    @property
    def pid(self) -> int:
        """The process ID of the first process; 0: it does not run."""
        return self._info["pid"]

    @property
    def running(self) -> bool:
        """Whether it was started, and has not ended."""
        return self.pid > 0

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        found = self._info
        return None if found["pid"] else found["exitstatus"]

    def start(self) -> None:
        """Start it unless it runs."""
        if not self.running:
            _call(self._layout, "startProcess", self.name)

    def stop(self) -> int:
        """Stop it if it runs, and all that it started."""
        if self.running:
            _call(self._layout, "stopProcess", self.name)
        return self._info["exitstatus"]

    def kill(self) -> None:
        """Kill all its processes at once, and wait until supervisor knows."""
        deadline = time.monotonic() + STOP_TIMEOUT
        while self.running and time.monotonic() < deadline:
            self.signal(signal.SIGKILL)
            time.sleep(0.1)


class Services:
    """All services of a cloud by name."""

    def __init__(self, layout: Layout) -> None:
        """Describe them; nothing is started."""
        self._layout = layout
        self.configuration = Configuration(layout)
        self.rabbit = servers.Rabbit(layout.directory / "rabbitmq", layout.port("rabbitmq"))

    def __getitem__(self, name: str) -> Service:
        return Service(self._layout, name)

    @property
    def supervised(self) -> bool:
        """Whether supervisor runs."""
        with contextlib.suppress(RuntimeError):
            return bool(_call(self._layout, "getPID"))
        return False

    def supervise(self) -> None:
        """Start supervisor, or tell it what has changed; raises RuntimeError."""
        file = self._layout.directory / "supervisord.conf"
        programs = [self._program(name, *described) for name, described in self._described().items()]
        file.write_text("".join([SUPERVISOR.format(directory=self._layout.directory), *programs]))
        file.chmod(0o600)
        module, *words = ["supervisorctl", "update"] if self.supervised else ["supervisord"]
        # What it starts gets its variables, which are not those of a program of Berth
        supervisor = (sys.executable, "-W", "ignore", "-m", f"supervisor.{module}")
        done = run(*supervisor, "-c", file, *words, allowed=ANY, timeout=START_TIMEOUT)
        limit = 0 if done.returncode else START_TIMEOUT
        until(lambda: self.supervised, f"supervisor does not start: {done.stdout}{done.stderr}", limit)

    def shut_down(self) -> None:
        """Stop all services, all at once but those that others need, and supervisor.

        Raises:
            TimeoutExpired: supervisor does not end in time (psutil).
        """
        if not self.supervised:
            return
        started = self.states()
        self.stop(*(name for name in started if name not in NEEDED))
        for name in reversed(NEEDED):
            if name in started:
                self.stop(name)
        # It answers nothing once it shuts down, so its end is that of its process
        supervisor = psutil.Process(_call(self._layout, "getPID"))
        _call(self._layout, "shutdown")
        supervisor.wait(START_TIMEOUT)

    def states(self) -> dict[str, str]:
        """Return what supervisor says of each service that was started, such as its process ID, by name."""
        found = _call(self._layout, "getAllProcessInfo")
        return {each["name"]: each["description"] for each in found if each["start"]}

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
        with ThreadPoolExecutor(max(1, len(names))) as pool:
            list(pool.map(lambda name: self[name].stop(), names))

    @contextlib.contextmanager
    def dead(self, host: str, api: Api) -> Iterator[None]:
        """Kill a compute and declare it dead; it comes back in the end."""
        self[host].kill()
        api.force_down(host)
        try:
            yield
        finally:
            self.start(host)
            api.force_up(host)

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
                    url = f"http://127.0.0.1:{self._layout.port(kind)}/"
                    return requests.get(url, timeout=10).status_code < 500
                return False
        return True

    def _program(self, name: str, command: Iterable[str | Path], variables: Mapping[str, str]) -> str:
        pairs = (f'{key}="{value}"' for key, value in variables.items())
        return PROGRAM.format(
            name=name,
            command=" ".join(f'"{word}"' for word in command).replace("%", "%%"),
            environment=",".join(pairs).replace("%", "%%"),
            stop_timeout=STOP_TIMEOUT,
            log=self._layout.directory / "logs" / f"{name}.log",
        )

    def _described(self) -> dict[str, tuple[Iterable[str | Path], Mapping[str, str]]]:
        """Return the command of each service and its variables."""
        files, program = self.configuration.path, self._layout.program
        nova, socket = self._layout.nova_conf, f"--socket={self._layout.directory}/mariadb.socket"
        mariadb = [
            "mariadbd",
            *self._mariadb(),
            socket,
            f"--port={self._layout.port('mariadb')}",
            *DATABASE_OPTIONS,
        ]
        found: dict[str, tuple[Iterable[str | Path], Mapping[str, str]]] = {
            "mariadb": (mariadb, {"PATH": servers.path_of_servers()}),
            "rabbitmq": (["rabbitmq-server"], self.rabbit.variables),
        }
        for name in API_SERVICES:
            more = {
                "GUNICORN_CMD_ARGS": f"-c {files(name) / 'gunicorn.py'}",
                f"OS_{name.upper()}_CONFIG_DIR": str(files(name)),
                "OS_NEUTRON_CONFIG_FILES": "neutron.conf",
            }
            # Modules of these APIs read sys.argv as theirs
            found[name] = [program("gunicorn")], more
        for name in CONDUCTORS:
            cell = name.removeprefix("conductor-")
            read = (f"{cell}.conf", "cell-conductor.conf")
            if name == "super-conductor":
                read = ("nova.conf", "super-conductor.conf")
            paths = [files(f"nova/{each}") for each in read]
            found[name] = [program("nova-conductor"), *_config_files(paths)], {}
        for name, cell in self._layout.hosts.items():
            both = (files(f"nova/{cell}.conf"), files(f"nova/{name}/compute.conf"))
            found[name] = [program("nova-compute"), *_config_files(both)], {}
        berth = {"PYTHONPATH": environment_of_berth()["PYTHONPATH"]}
        shadow = ["run", "--directory", self._layout.directory / "shadow"]
        second = _config_files([nova, files("nova/controller-2.conf")])
        return found | {
            "nova-scheduler": ([program("nova-scheduler"), *_config_files([nova])], {}),
            "berth-scheduler": (command_of(MODULES["berth-scheduler"], nova), berth),
            "other-berth-scheduler": ([program("berth-scheduler", "other-berth"), *second], {}),
            "berth-shadow": ([*command_of(MODULES["berth-shadow"], nova), *shadow], berth),
        }

    def make_mariadb(self) -> None:
        """Make the data of the database server, in place of those of an interrupted try."""
        shutil.rmtree(self._layout.directory / "mariadb", ignore_errors=True)
        servers.make_mariadb(self._mariadb())

    def _mariadb(self) -> list[str]:
        """Return the options that the server and what makes its data have."""
        directory = self._layout.directory / "mariadb"
        return ["--no-defaults", f"--datadir={directory}", f"--user={getpass.getuser()}"]


class Schedulers:
    """The schedulers of a cloud by name: nova, berth, other-berth."""

    def __init__(self, layout: Layout) -> None:
        """Describe them; nothing is started."""
        self._services = Services(layout)

    def __getitem__(self, name: str) -> Service:
        return self._services[f"{name}-scheduler"]

    def running(self) -> list[str]:
        """Return the names of the schedulers that run."""
        return [name.removesuffix("-scheduler") for name in SCHEDULERS if self._services[name].running]

    def start(self, name: str) -> None:
        """Start a scheduler beside those that run, and wait until it takes requests.

        Raises:
            RuntimeError: It has ended, or does not take requests in time.
        """
        service = self[name]
        if not service.running:
            before = self.consumers()
            service.start()
            service.wait_until(
                lambda: self.consumers() > before, f"{name} takes no requests", SCHEDULER_TIMEOUT
            )

    def replace(self, name: str) -> None:
        """Let a scheduler serve in the place of those that run, as the documents say: it starts first."""
        self.start(name)
        for each in self.running():
            if each != name:
                self[each].stop()

    def consumers(self) -> int:
        """Return how many processes of schedulers take requests."""
        return self._services.rabbit.consumers("nova", "scheduler")


def _config_files(paths: Iterable[Path]) -> list[str | Path]:
    return [word for path in paths for word in ("--config-file", path)]


def _call(layout: Layout, method: str, *arguments: object) -> Any:
    """Call a method of supervisor; raises RuntimeError if it refuses, or does not run."""
    transport = SupervisorTransport(serverurl=f"unix://{layout.directory}/supervisor.socket")
    try:
        with ServerProxy("http://127.0.0.1", transport=transport) as proxy:
            return getattr(proxy.supervisor, method)(*arguments)
    except (Fault, OSError) as error:
        raise RuntimeError(f"supervisor of {layout.directory}: {method} {arguments}: {error}") from None
