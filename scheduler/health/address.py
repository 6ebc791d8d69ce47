"""Where health checks and metrics are served."""

import contextlib
from dataclasses import dataclass
import ipaddress
from pathlib import Path
import socket
import stat

from scheduler.errors import ConfigError

UNIX = "unix:"

#: Connections at a time. A further one takes the place of the oldest: probes send their request at once, so
#: an old connection is idle, and any local user can open idle ones.
MOST_CONNECTIONS = 32


@dataclass(frozen=True)
class Address:
    """Where to listen: on an address of this machine, or on a path for a unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read ``127.0.0.1:9812``, ``[::1]:9812`` or ``unix:/run/berth/monitoring.sock``.

        Raises:
            ConfigError: It is no such address.
        """
        problem = ConfigError(
            f"[berth]/monitoring_listen = {text}: it has to be an address and a port, such as 127.0.0.1:9812 "
            "or [::1]:9812, or unix: and an absolute path"
        )
        if text.startswith(UNIX):
            path = text.removeprefix(UNIX)
            if not path.startswith("/"):
                raise problem
            return cls(path=path)
        host, _, port = text.rpartition(":")
        try:
            address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
            number = int(port)
        except ValueError:
            raise problem from None
        if not 0 <= number < 1 << 16:
            raise problem
        return cls(str(address), number)

    @property
    def is_local(self) -> bool:
        """Do only processes of this machine reach it?"""
        return bool(self.path) or ipaddress.ip_address(self.host).is_loopback

    def listen(self) -> socket.socket:
        """Return a socket that listens there.

        Raises:
            OSError: That is not possible, for instance because another process listens there.
        """
        if self.path:
            return self._listen_on_path()
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        return socket.create_server((self.host, self.port), family=family, backlog=MOST_CONNECTIONS)

    def _listen_on_path(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        try:
            self._remove_abandoned()
            listener.bind(self.path)
            Path(self.path).chmod(0o660)
            listener.listen(MOST_CONNECTIONS)
        except BaseException:
            listener.close()
            raise
        return listener

    def _remove_abandoned(self) -> None:
        """Remove the socket of a daemon that has ended; one that is used stays."""
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(Path(self.path).stat().st_mode):
                return
            with socket.socket(socket.AF_UNIX) as probe:
                probe.setblocking(False)  # one that accepts nothing would be waited for
                try:
                    probe.connect(self.path)
                except BlockingIOError:
                    pass
                except ConnectionRefusedError:
                    Path(self.path).unlink()

    def __str__(self) -> str:
        if self.path:
            return f"{UNIX}{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
