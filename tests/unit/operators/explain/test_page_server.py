"""The server of one page."""

import threading
import urllib.error
import urllib.request

import pytest

from scheduler.operators.explain import page_server
from scheduler.operators.shown import page


@pytest.fixture
def port():
    with page_server.server(0, "<p>café</p>") as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def get(port, path="/", host=None, data=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data)
    if host:
        request.add_header("Host", host)
    return urllib.request.urlopen(request, timeout=10)


def test_the_page_is_served_and_may_load_nothing_else(port):
    with get(port) as answer:
        assert answer.read().decode() == "<p>café</p>"
        assert answer.headers["Content-Security-Policy"] == page.policy()


@pytest.mark.parametrize(
    ("options", "status"),
    [({"path": "/other"}, 404), ({"host": "evil.example"}, 421), ({"data": b"x"}, 404)],
    ids=["another path", "a name that leads here", "a write"],
)
def test_anything_else_is_refused(port, options, status):
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(port, **options)
    with caught.value as answer:
        assert answer.code == status
