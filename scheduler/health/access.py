"""What a client of another machine has to show for health and metrics: a token or a certificate, over TLS."""

from collections.abc import Mapping
from dataclasses import dataclass
import hmac
from pathlib import Path
import ssl

from oslo_config import cfg

from scheduler.errors import ConfigError
from scheduler.health.address import Address


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
