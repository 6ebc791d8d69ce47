"""Health and metrics for other machines: over TLS, with a token or a certificate, and never without."""

import contextlib
import http.client
import socket
import ssl
import types

import pytest

from scheduler.errors import ConfigError
from scheduler.health.access import Access, Address
from scheduler.health.endpoint import MonitoringEndpoint, Page
from tests.integration.certificates import make_certificates

OPTIONS = ("cert_file", "key_file", "client_ca_file", "token_file")

OPEN = Address("0.0.0.0", 0)


def conf(**values):
    options = {f"monitoring_{name}": str(values[name]) if name in values else None for name in OPTIONS}
    return types.SimpleNamespace(berth=types.SimpleNamespace(**options))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory)
    (directory / "token").write_text("one two three\n")
    (directory / "empty").touch()
    return {
        "cert_file": directory / "server.pem",
        "key_file": directory / "server.key",
        "client_ca_file": directory / "ca.pem",
        "token_file": directory / "token",
        "directory": directory,
    }


def chosen(files, names):
    return {name: files[name] for name in names.split()}


@pytest.mark.parametrize("names", ["", "token_file", "cert_file key_file", "client_ca_file token_file"])
def test_an_address_for_other_machines_is_refused_without_encryption_and_proof(files, names):
    with pytest.raises(ConfigError, match="other machines reach this address"):
        Access.from_conf(conf(**chosen(files, names)), OPEN)


@pytest.mark.parametrize(
    "address", [Address("127.0.0.1", 1), Address("::1", 1), Address(path="/run/berth/monitoring.sock")]
)
def test_an_address_of_this_machine_needs_neither(address):
    assert Access.from_conf(conf(), address) == Access()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"token_file": "/nowhere"}, "monitoring_token_file cannot be read"),
        ({"token_file": "empty"}, "is empty"),
        ({"cert_file": "/nowhere"}, "monitoring_cert_file"),
        ({"cert_file": "token"}, "monitoring_cert_file"),
        ({"client_ca_file": "token"}, "monitoring_cert_file, _key_file or _client_ca_file"),
    ],
)
def test_files_that_cannot_be_used_are_named_at_the_start(files, changed, message):
    options = chosen(files, "cert_file key_file client_ca_file token_file")
    options |= {name: files["directory"] / value for name, value in changed.items()}
    with pytest.raises(ConfigError, match=message):
        Access.from_conf(conf(**options), OPEN)


class World:
    def __init__(self, files, names):
        self.files = files
        access = Access.from_conf(conf(**chosen(files, names)), OPEN)
        pages = {"/metrics": lambda: Page("200 OK", "text/plain", b"x" * 300_000)}
        self.endpoint = MonitoringEndpoint(Address("127.0.0.1", 0), pages, access=access)
        self.endpoint.start()

    def get(self, headers=(), certificate=False):
        context = ssl.create_default_context(cafile=self.files["directory"] / "ca.pem")
        context.check_hostname = False
        if certificate:
            context.load_cert_chain(self.files["cert_file"], self.files["key_file"])
        connection = http.client.HTTPSConnection("127.0.0.1", self.endpoint.port, timeout=30, context=context)
        try:
            connection.request("GET", "/metrics", headers=dict(headers))
            response = connection.getresponse()
            return response.status, len(response.read())
        finally:
            connection.close()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_a_client_with_the_token_is_answered_and_others_are_not(files):
    world = World(files, "cert_file key_file token_file")
    assert world.get(bearer("one two three")) == (200, 300_000)
    for headers in ({}, bearer("one two"), bearer(""), {"Authorization": "Basic one two three"}):
        assert world.get(headers)[0] == 401


def test_a_token_can_be_replaced_while_the_daemon_runs(files, tmp_path):
    token = tmp_path / "token"
    token.write_text("old")
    world = World(files | {"token_file": token}, "cert_file key_file token_file")
    token.write_text("new")
    assert world.get(bearer("old"))[0] == 401
    assert world.get(bearer("new"))[0] == 200
    token.unlink()
    assert world.get(bearer("new"))[0] == 500


def test_a_client_with_a_certificate_is_answered_and_others_are_not(files):
    world = World(files, "cert_file key_file client_ca_file")
    assert world.get(certificate=True) == (200, 300_000)
    with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
        world.get()


def test_plain_http_gets_no_answer(files):
    world = World(files, "cert_file key_file token_file")
    with socket.create_connection(("127.0.0.1", world.endpoint.port), timeout=30) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert b"200" not in read_all(client)


def read_all(client):
    with contextlib.suppress(ConnectionError):
        return b"".join(iter(lambda: client.recv(65536), b""))
    return b""
