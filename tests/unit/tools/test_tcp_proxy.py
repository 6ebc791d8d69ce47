"""What a disturbed connection does to the bytes of each direction."""

import socket
import threading

import pytest

from tools.rig.tcp_proxy import Direction, Passage, TcpProxy

TO_SERVER, TO_CLIENT = Direction.TO_SERVER, Direction.TO_CLIENT
SILENCE = 0.2  # seconds in which nothing must arrive


@pytest.fixture
def server():
    """A listening socket that gives each connection it accepts."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        yield listening


@pytest.fixture
def proxy(server):
    with TcpProxy(server.getsockname()[1]) as proxy:
        yield proxy


@pytest.fixture
def ends(server, proxy):
    """The client's and the server's end of a connection through the proxy."""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.settimeout(10)
            yield client, accepted


def arrives(end, count):
    data = b""
    while len(data) < count:
        data += end.recv(count - len(data)) or pytest.fail("the connection has ended")
    return data


def is_silent(end):
    end.settimeout(SILENCE)
    with pytest.raises(TimeoutError):
        end.recv(1)
    end.settimeout(10)
    return True


def test_bytes_pass_in_both_directions(ends):
    client, accepted = ends
    client.sendall(b"question")
    assert arrives(accepted, 8) == b"question"
    accepted.sendall(b"answer")
    assert arrives(client, 6) == b"answer"


def test_the_end_of_a_connection_passes(ends):
    client, accepted = ends
    client.close()
    assert accepted.recv(1) == b""


def test_held_bytes_arrive_after_healing(ends, proxy):
    client, accepted = ends
    proxy.disturb(Passage.HOLD, TO_SERVER)
    client.sendall(b"question")
    assert is_silent(accepted)
    accepted.sendall(b"other direction")
    assert arrives(client, 15) == b"other direction"
    proxy.heal()
    assert arrives(accepted, 8) == b"question"


def test_lost_bytes_never_arrive_and_healing_resets_their_connection(ends, proxy):
    client, accepted = ends
    client.sendall(b"question")
    assert arrives(accepted, 8) == b"question"
    proxy.disturb(Passage.LOSE, TO_CLIENT)
    accepted.sendall(b"answer")
    assert is_silent(client)
    proxy.heal()
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_a_connection_that_lost_nothing_survives_healing(ends, proxy):
    client, accepted = ends
    proxy.disturb(Passage.LOSE, TO_CLIENT)
    proxy.heal()
    accepted.sendall(b"answer")
    assert arrives(client, 6) == b"answer"


def test_the_end_of_a_connection_is_lost_too(ends, proxy):
    client, accepted = ends
    proxy.disturb(Passage.LOSE, TO_SERVER)
    client.shutdown(socket.SHUT_WR)
    assert is_silent(accepted)


def test_trickled_bytes_arrive_one_by_one_until_healing(ends, proxy):
    client, accepted = ends
    proxy.disturb(Passage.TRICKLE, TO_CLIENT)
    accepted.sendall(b"x" * 100_000)
    assert len(client.recv(100_000)) < 100
    proxy.heal()
    assert len(arrives(client, 90_000)) == 90_000


def test_a_connection_to_a_server_that_is_away_is_reset(proxy, server):
    server.close()
    with (  # already connecting may meet the reset
        pytest.raises(ConnectionResetError),
        socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client,
    ):
        client.recv(1)


def test_leaving_the_proxy_ends_its_threads_and_connections(server):
    before = threading.active_count()
    with TcpProxy(server.getsockname()[1]) as proxy:
        client = socket.create_connection(("127.0.0.1", proxy.port), timeout=10)
        server.accept()[0].close()
    assert threading.active_count() == before
    with client, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port), timeout=10)
