"""Where health checks and metrics are served, and what a client of another machine has to show.

That is a token or a certificate, over TLS.
"""

from collections.abc import Mapping
import contextlib
from dataclasses import dataclass
import hmac
import ipaddress
from pathlib import Path
import socket
import ssl
import stat

from oslo_config import cfg

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


@dataclass(frozen=True)
class Access:
    """What a client has to show.

    Attributes:
        tls: Encrypts connections, and checks the certificates of clients if it is to; None: no encryption.
        token_file: Has the token that a client sends as ``Authorization: Bearer``; None: none is required.
    """

    tls: ssl.SSLContext | None = None
    token_file: Path | None = None

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, address: Address) -> "Access":
        """Read the options.

        Raises:
            ConfigError: Other machines reach the address, and there is neither a token nor an authority for
                certificates of clients, or no encryption; or a file cannot be used.
        """
        berth = conf.berth
        wants_certificate = bool(berth.monitoring_client_ca_file)
        if not address.is_local and not (
            berth.monitoring_cert_file and (berth.monitoring_token_file or wants_certificate)
        ):
            raise ConfigError(
                f"[berth]/monitoring_listen = {address}: other machines reach this address. It needs "
                "[berth]/monitoring_cert_file, and monitoring_token_file or monitoring_client_ca_file"
            )
        access = cls(
            _tls(berth.monitoring_cert_file, berth.monitoring_key_file, berth.monitoring_client_ca_file),
            Path(berth.monitoring_token_file) if berth.monitoring_token_file else None,
        )
        access._token()
        return access

    def allows(self, headers: Mapping[str, str]) -> bool:
        """May a request be answered?

        Args:
            headers: Its headers, with names in lower case.

        Raises:
            ConfigError: The token cannot be read.
        """
        if self.token_file is None:
            return True
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(sent.strip().encode("latin-1"), self._token())
        return scheme.lower() == "bearer" and same

    def _token(self) -> bytes:
        """Return the token. The file is read each time: a new token needs no restart."""
        if self.token_file is None:
            return b""
        try:
            token = self.token_file.read_bytes().strip()
        except OSError as error:
            raise ConfigError(f"[berth]/monitoring_token_file cannot be read: {error}") from error
        if not token:
            raise ConfigError(f"[berth]/monitoring_token_file: {self.token_file} is empty")
        return token


#: For an address of this machine.
ANYBODY = Access()


def _tls(cert_file: str | None, key_file: str | None, client_ca_file: str | None) -> ssl.SSLContext | None:
    if not cert_file:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert_file, key_file)
        if client_ca_file:
            context.load_verify_locations(client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(f"[berth]/monitoring_cert_file, _key_file or _client_ca_file: {error}") from error
    return context
