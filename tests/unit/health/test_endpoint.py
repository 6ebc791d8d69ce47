"""The HTTP server, over real sockets: answers, and clients that mean harm."""

import contextlib
import http.client
import itertools
from pathlib import Path
import queue
import socket
import ssl
import threading

import pytest

from scheduler import errors
from scheduler.health.access import Access, Address
from scheduler.health.endpoint import LARGEST_REQUEST, MOST_CONNECTIONS, MonitoringEndpoint, Page
from tests.integration.certificates import make_certificates
from tests.support.waiting import eventually

BODY = b"x" * 300_000


class World:
    def __init__(self, address, clock, **options):
        self.made = []
        self.endpoint = MonitoringEndpoint(
            address,
            {"/page": self.page, "/broken": self.broken},
            clock,
            **options,
        )
        self.endpoint.start()

    def page(self):
        self.made.append("/page")
        return Page("200 OK", "text/plain", BODY)

    def broken(self):
        raise ValueError("no page")

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.endpoint.port), timeout=30)

    def get(self, path, method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", self.endpoint.port, timeout=30)
        connection.request(method, path)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body

    def ask(self, data):
        """Send bytes, and return all that comes back."""
        with self.connect() as client:
            client.sendall(data)
            return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.fixture
def world(clock):
    return World(Address("127.0.0.1", 0), clock)


@pytest.fixture
def short(clock):
    return World(Address("127.0.0.1", 0), clock, longest=0.3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9812", Address("127.0.0.1", 9812)),
        ("127.3.2.1:0", Address("127.3.2.1", 0)),
        ("0.0.0.0:9812", Address("0.0.0.0", 9812)),
        ("[::1]:9812", Address("::1", 9812)),
        ("unix:/run/berth/monitoring.sock", Address(path="/run/berth/monitoring.sock")),
    ],
)
def test_addresses_are_read(text, expected):
    assert Address.parse(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    "text",
    [
        "localhost:9812",
        "127.0.0.1",
        "127.0.0.1:99999",
        ":9812",
        "unix:relative",
        "nonsense",
    ],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(errors.ConfigError, match=r"\[berth\]/monitoring_listen = "):
        Address.parse(text)


def test_a_page_is_answered_as_a_whole(world):
    assert world.get("/page") == (200, BODY)
    assert world.get("/page?with=query") == (200, BODY)


def test_head_has_no_body(world):
    assert world.get("/page", "HEAD") == (200, b"")


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/absent", "GET", 404),
        ("/", "GET", 404),
        ("/page", "POST", 405),
        ("/page", "DELETE", 405),
        ("/broken", "GET", 500),
    ],
)
def test_other_requests_are_refused(world, path, method, status):
    assert world.get(path, method)[0] == status


@pytest.mark.parametrize(
    "data",
    [
        b"GET /page\r\n\r\n",
        b"GET /page SPDY/9\r\n\r\n",
        b"\xff\xfe \x00 \x01\r\n\r\n",
        b"a b c d\r\n\r\n",
    ],
    ids=["no version", "other protocol", "no text", "too many words"],
)
def test_what_is_no_request_is_answered_with_400(world, data):
    assert world.ask(data).startswith(b"HTTP/1.1 400 ")


def test_an_empty_request_is_disconnected(world):
    assert world.ask(b"\r\n\r\n") == b""


def test_a_request_that_is_too_large_is_not_read_to_its_end(world):
    answer = b""
    with world.connect() as client:
        try:
            client.sendall(b"GET /page HTTP/1.1\r\nA: " + b"a" * 10 * LARGEST_REQUEST)
            answer = client.recv(100)
        except ConnectionError:
            pass
    assert b"200" not in answer
    assert world.get("/page")[0] == 200


def test_a_client_that_sends_nothing_is_disconnected(short):
    with short.connect() as client:
        assert client.recv(100) == b""


def test_a_client_that_sends_a_byte_now_and_then_is_disconnected(short):
    with short.connect() as client:
        client.settimeout(0.05)
        for byte in b"GET /page HTTP/1.1\r\n" * 1000:
            try:
                client.sendall(bytes([byte]))
                if client.recv(100) == b"":
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    pytest.fail("it was never disconnected")


def test_a_client_that_does_not_read_its_answer_is_disconnected(short):
    with short.connect() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(b"GET /page HTTP/1.1\r\n\r\n")
        assert eventually(lambda: short.endpoint.connections == 0)
    assert short.get("/page")[0] == 200


def test_connections_that_send_nothing_keep_no_probe_away(world):
    """Any local user can open them; a probe that is refused would have the daemon restarted."""
    idle = [world.connect() for _ in range(2 * MOST_CONNECTIONS)]
    assert eventually(lambda: world.endpoint.connections == MOST_CONNECTIONS)
    for _ in range(20):
        assert world.get("/page")[0] == 200
        idle += [world.connect() for _ in range(3)]
    assert world.endpoint.connections <= MOST_CONNECTIONS
    for client in idle:
        client.close()


def test_the_oldest_connection_makes_room_for_a_new_one(world):
    idle = [world.connect() for _ in range(MOST_CONNECTIONS)]
    assert eventually(lambda: world.endpoint.connections == MOST_CONNECTIONS)
    idle.append(world.connect())
    with contextlib.suppress(ConnectionResetError):
        assert idle[0].recv(100) == b""
    idle[1].sendall(b"GET /absent HTTP/1.1\r\n\r\n")
    assert idle[1].recv(100).startswith(b"HTTP/1.1 404")
    for client in idle:
        client.close()
    assert eventually(lambda: world.endpoint.connections == 0)
    assert world.get("/page")[0] == 200


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """What a server encrypts by, and a client that trusts it."""
    directory = tmp_path_factory.mktemp("tls")
    make_certificates(directory)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(directory / "server.pem", directory / "server.key")
    return server, ssl.create_default_context(cafile=directory / "ca.pem")


def connect_from(world, client):
    return socket.create_connection(
        ("127.0.0.1", world.endpoint.port), timeout=30, source_address=(client, 0)
    )


def get_over_tls(world, tls):
    with tls.wrap_socket(connect_from(world, "127.0.0.2"), server_hostname="localhost") as connection:
        connection.sendall(b"HEAD /page HTTP/1.1\r\n\r\n")
        return connection.recv(12)


def test_handshakes_that_do_not_end_cost_no_tracebacks_and_keep_no_probe_away(clock, tls, caplog):
    server, client = tls
    world, open_ones = World(Address("127.0.0.1", 0), clock, access=Access(server)), []
    for number in range(6 * MOST_CONNECTIONS):
        open_ones.append(connect_from(world, "127.0.0.1"))
        if number % 3 == 0:
            open_ones[-1].sendall(b"\x16\x03\x01\x02\x00")  # a handshake begins
        if number % 3 == 1:
            open_ones[-1].sendall(b"GET / HTTP/1.1\r\n\r\n")
        if number % 10 == 9:
            assert get_over_tls(world, client) == b"HTTP/1.1 200"
    for one in open_ones:
        one.close()
    assert eventually(lambda: world.endpoint.connections == 0)
    assert get_over_tls(world, client) == b"HTTP/1.1 200"
    assert "Traceback" not in caplog.text
    assert len(caplog.records) <= 2


def test_a_handshake_has_a_second(clock, tls):
    world = World(Address("127.0.0.1", 0), clock, access=Access(tls[0]), longest=60.0)
    with world.connect() as silent:
        assert silent.recv(100) == b""


@pytest.mark.slow
def test_a_connection_that_has_shown_its_token_is_not_closed_for_one_that_has_not(clock, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret")
    world = World(Address("127.0.0.1", 0), clock, access=Access(token_file=token))
    with world.connect() as admitted:
        admitted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        admitted.sendall(b"GET /page HTTP/1.1\r\nAuthorization: Bearer secret\r\n\r\n")
        assert admitted.recv(15) == b"HTTP/1.1 200 OK"
        strangers = [world.connect() for _ in range(2 * MOST_CONNECTIONS)]
        assert eventually(lambda: world.endpoint.connections == MOST_CONNECTIONS)
        received = b"".join(iter(lambda: admitted.recv(65536), b""))
        assert received.endswith(BODY)
    for stranger in strangers:
        stranger.close()


def test_a_page_is_made_once_a_second_at_most(world, clock):
    for _ in range(20):
        world.get("/page")
    assert world.made == ["/page"]
    clock.now += 1.1
    world.get("/page")
    assert world.made == ["/page"] * 2


def test_a_page_that_grows_old_between_two_looks_is_made_again(clock):
    """A probe once a second would get none, or no answer at all."""
    times = itertools.repeat(clock.now)
    world = World(Address("127.0.0.1", 0), lambda: next(times))
    for looks in range(4):
        clock.now += 10
        times = itertools.repeat(clock.now)
        assert world.get("/page")[0] == 200
        times = itertools.chain([clock.now + 0.9] * looks, itertools.repeat(clock.now + 1.1))
        assert world.get("/page")[0] == 200


def test_many_clients_at_once_are_all_answered_or_disconnected(world):
    results = []

    def ask():
        try:
            results.append(world.get("/page")[0])
        except (OSError, http.client.HTTPException):
            results.append(0)

    threads = [threading.Thread(target=ask) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 60
    assert set(results) <= {0, 200}
    assert world.get("/page")[0] == 200


class TestUnixSocket:
    @pytest.fixture
    def address(self, tmp_path):
        return Address(path=str(tmp_path / "monitoring.sock"))

    def get(self, address):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(address.path)
            client.sendall(b"GET /page HTTP/1.1\r\n\r\n")
            return client.recv(12)

    def test_it_is_for_its_owner_and_group(self, address, clock, tmp_path):
        World(address, clock)
        assert self.get(address) == b"HTTP/1.1 200"
        assert (tmp_path / "monitoring.sock").stat().st_mode & 0o777 == 0o660

    def test_the_socket_of_a_daemon_that_was_killed_is_replaced(self, address, clock):
        with socket.socket(socket.AF_UNIX) as abandoned:
            abandoned.bind(address.path)
        World(address, clock)
        assert self.get(address) == b"HTTP/1.1 200"

    def test_a_daemon_that_accepts_nothing_is_not_waited_for(self, address):
        errors_seen = queue.SimpleQueue()

        def listen():
            try:
                address.listen()
            except OSError as error:
                errors_seen.put(error)

        with socket.socket(socket.AF_UNIX) as frozen, socket.socket(socket.AF_UNIX) as client:
            frozen.bind(address.path)
            frozen.listen(0)
            client.connect(address.path)
            threading.Thread(target=listen, daemon=True).start()
            assert "in use" in str(errors_seen.get(timeout=60))
            assert Path(address.path).exists()

    def test_it_is_removed_at_the_end(self, address, clock, tmp_path):
        World(address, clock).endpoint.remove()
        assert not (tmp_path / "monitoring.sock").exists()

    def test_a_file_that_is_no_socket_stays(self, address, clock, tmp_path, caplog):
        (tmp_path / "monitoring.sock").write_text("data")
        World(address, clock)
        assert (tmp_path / "monitoring.sock").read_text() == "data"
        assert "Health checks and metrics cannot be served on unix:" in caplog.text


def test_an_address_that_is_taken_is_tried_again(clock, caplog):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        world = World(Address("127.0.0.1", port), clock, retry=0.01)
        assert world.endpoint.port == 0
    assert eventually(lambda: world.endpoint.port == port)
    assert eventually(lambda: world.get("/page") == (200, BODY))
    assert "cannot be served on 127.0.0.1" in caplog.text
