import socket
import threading
import time

import pytest
import requests

from scheduler.bounds import bounded_http
from scheduler.bounds.bounded_http import BoundedReader, ResponseTooLong, bound_responses
from tests.support.clock import Clock

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@pytest.fixture
def session():
    with requests.Session() as session:
        session.trust_env = False
        bound_responses(session)
        yield session


@pytest.fixture
def serve():
    """A function that starts a server which sends pieces of a response, and returns its URL."""
    listeners, ended = [], threading.Event()

    def send(listener, pieces, pause):
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            for piece in pieces:
                if ended.wait(pause):
                    return
                try:
                    connection.sendall(piece)
                except OSError:
                    return
            ended.wait(5)

    def serve(pieces, pause=0.0):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=send, args=(listener, pieces, pause), daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/"

    yield serve
    ended.set()
    for listener in listeners:
        listener.close()


def bytes_of(data):
    return [data[number : number + 1] for number in range(len(data))]


@pytest.mark.parametrize("stream", [False, True], ids=["read at once", "streamed"])
@pytest.mark.parametrize("trickled", ["status and headers", "body"])
def test_a_response_that_trickles_ends_with_the_timeout(session, serve, trickled, stream):
    head, body = ANSWER.split(b"\r\n\r\n")
    pieces = bytes_of(ANSWER) if trickled != "body" else [head + b"\r\n\r\n", *bytes_of(body)]
    url = serve(pieces, pause=0.2 if trickled == "body" else 0.05)
    begun = time.monotonic()
    with pytest.raises(requests.exceptions.RequestException) as caught:
        list(session.get(url, timeout=(5, 0.5), stream=stream).iter_content(None))
    assert time.monotonic() - begun < 3
    assert "timed out" in str(caught.value) or "in time" in str(caught.value)


def test_a_response_that_trickles_through_a_proxy_ends_with_the_timeout(session, serve):
    """The environment may name one."""
    proxies = {"http": serve(bytes_of(ANSWER), pause=0.05)}
    with pytest.raises(requests.exceptions.RequestException):
        session.get("http://192.0.2.1/", proxies=proxies, timeout=(5, 0.5))


def test_a_response_in_time_is_read_whole(session, serve):
    assert session.get(serve(bytes_of(ANSWER)), timeout=(5, 5)).content == b"hello"


def test_each_response_of_a_connection_has_the_whole_time(session, serve):
    url = serve([ANSWER])
    assert session.get(url, timeout=(5, 5)).content == b"hello"
    with pytest.raises(requests.exceptions.ReadTimeout):
        session.get(url, timeout=(5, 0.2))


def test_a_response_that_is_too_long_is_given_up(session, serve, monkeypatch):
    reader = bounded_http.BoundedReader
    monkeypatch.setattr(bounded_http, "BoundedReader", lambda sock: reader(sock, max_bytes=10))
    with pytest.raises(requests.exceptions.ConnectionError, match="too long"):
        session.get(serve([ANSWER]), timeout=(5, 5))


def test_the_time_of_the_reader_begins_once():
    clock = Clock()
    near, far = socket.socketpair()
    with near, far:
        near.settimeout(3)
        reader = BoundedReader(near, clock)
        far.sendall(b"abc")
        assert reader.read(1) == b"a"
        clock.now += 3
        with pytest.raises(TimeoutError):
            reader.read(1)


def test_the_bytes_of_the_reader_are_bounded():
    near, far = socket.socketpair()
    with near, far:
        reader = BoundedReader(near, max_bytes=2)
        far.sendall(b"abc")
        with pytest.raises(ResponseTooLong):
            reader.read(3)
