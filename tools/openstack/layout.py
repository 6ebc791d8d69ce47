"""What the directory of a cloud keeps, so that each command finds the cloud as the one before left it."""

from collections.abc import Iterator
import contextlib
import fcntl
import json
import os
from pathlib import Path
import secrets
from typing import Any

from tools.rig import servers
from tools.rig.parts import PLACEMENT_PORTS

#: Services with an HTTP API, by the type that Keystone's catalog gives them.
APIS = {
    "identity": "keystone",
    "image": "glance",
    "placement": "placement",
    "network": "neutron",
    "compute": "nova",
}
PATHS = {"identity": "/v3", "compute": "/v2.1"}
CELLS = ("cell1", "cell2")


class Layout:
    """The directory of a cloud, and ``cloud.json`` in it.

    Attributes:
        directory: Where everything of the cloud is.
        software: Where the virtual environments are.
    """

    def __init__(self, directory: Path, software: Path | None = None) -> None:
        """Read what the directory keeps; nothing is written before ``prepare``."""
        self.directory = directory.absolute()
        self._file = self.directory / "cloud.json"
        self._kept: dict[str, Any] = json.loads(self._file.read_text()) if self._file.exists() else {}
        self.software = Path(self._kept.get("software") or software or self.directory / "software").absolute()

    @property
    def exists(self) -> bool:
        """Whether a cloud was begun here."""
        return bool(self._kept)

    def prepare(self, computes: int) -> None:
        """Choose ports and a password for a new cloud of so many computes."""
        if self.exists:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        self._kept = {
            "software": str(self.software),
            "computes": computes,
            "password": secrets.token_hex(8),
            "ports": {
                "mariadb": servers.free_port(servers.DATABASE_PORTS),
                "rabbitmq": servers.free_port(servers.RABBIT_PORTS),
                **_distinct_ports([*APIS, "monitoring", "monitoring-2"]),
            },
            "done": [],
        }
        self._write()

    @property
    def password(self) -> str:
        """The password of all users of Keystone."""
        return self._kept["password"]

    @property
    def hosts(self) -> dict[str, str]:
        """The cells of the computes by their names."""
        return {f"cmp-{number + 1:02}": CELLS[number % 2] for number in range(self._kept["computes"])}

    def zone_of(self, host: str) -> str:
        """Return the zone of a compute; both cells have hosts of both zones."""
        return ("az1", "az2")[list(self.hosts).index(host) // 2 % 2]

    @property
    def zones(self) -> list[str]:
        """The zones of the computes."""
        return sorted(set(map(self.zone_of, self.hosts)))

    def port(self, service: str) -> int:
        """Return the port of a service on loopback."""
        return self._kept["ports"][service]

    def url(self, kind: str) -> str:
        """Return the endpoint of an API by its type."""
        return f"http://127.0.0.1:{self.port(kind)}{PATHS.get(kind, '')}"

    @property
    def administrator(self) -> dict[str, str]:
        """Who the administrator is, in the words of openstacksdk."""
        return {
            "auth_url": self.url("identity"),
            "username": "admin",
            "password": self.password,
            "project_name": "admin",
            "user_domain_name": "Default",
            "project_domain_name": "Default",
        }

    def credentials(self) -> dict[str, str]:
        """Return the variables by which clients are the administrator."""
        named = {f"OS_{name.upper()}": value for name, value in self.administrator.items()}
        return {**named, "OS_IDENTITY_API_VERSION": "3"}

    def database(self, name: str) -> str:
        """Return the URL of a database."""
        return f"mysql+pymysql://root@127.0.0.1:{self.port('mariadb')}/{name}"

    def bus(self, vhost: str) -> str:
        """Return the transport URL of a virtual host."""
        user = servers.Rabbit.user
        return f"rabbit://{user}:{user}@127.0.0.1:{self.port('rabbitmq')}/{vhost}"

    def program(self, name: str, environment: str = "cloud") -> str:
        """Return the path of a program of a virtual environment."""
        return str(self.software / environment / "bin" / name)

    @property
    def nova_conf(self) -> Path:
        """The configuration file of nova that Berth reads too."""
        return self.directory / "etc" / "nova" / "nova.conf"

    def done(self, step: str) -> bool:
        """Return whether a step was done before."""
        return step in self._kept["done"]

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Keep that a step is done, when it is."""
        yield
        self._kept["done"].append(name)
        self._write()

    def _write(self) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(self._kept, indent=1))
        new.chmod(0o600)
        new.rename(self._file)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Let one command at a time change the cloud.

        Raises:
            RuntimeError: Another command is at work.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RuntimeError(f"another command is at work on {self.directory}") from None
            file.write(str(os.getpid()))
            yield


def _distinct_ports(names: list[str]) -> dict[str, int]:
    ports: set[int] = set()
    while len(ports) < len(names):
        ports.add(servers.free_port(PLACEMENT_PORTS))
    return dict(zip(names, ports, strict=True))
