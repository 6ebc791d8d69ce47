"""The servers that all processes of one run of the tests share."""

from concurrent.futures import ThreadPoolExecutor
import contextlib
import socket
from types import SimpleNamespace

import pytest

from tests.support import shared_servers


@pytest.fixture
def events(monkeypatch):
    """What happens to a server that can be started, and to one that cannot."""
    events = []

    @contextlib.contextmanager
    def good():
        events.append("started")
        yield {"url": "fake://"}
        events.append("ended")

    @contextlib.contextmanager
    def bad():
        raise OSError("no such program")
        yield

    monkeypatch.setattr(shared_servers, "KINDS", {"good": good, "bad": bad})
    return events


def process_of(servers):
    return SimpleNamespace(workerinput={"shared_servers": servers.address})


def use(config, kind="good"):
    with shared_servers.server(config, kind) as found:
        return found


def test_a_server_is_started_once_for_all_and_ends_with_the_run(events):
    servers = shared_servers.SharedServers()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(use, [process_of(servers)] * 4))
    assert found == [{"url": "fake://"}] * 4
    assert events == ["started"]
    servers.close()
    assert events == ["started", "ended"]


def test_what_cannot_be_started_is_an_error_where_it_is_needed(events):
    servers = shared_servers.SharedServers()
    with pytest.raises(RuntimeError, match="no such program"):
        use(process_of(servers), "bad")
    servers.close()


@pytest.mark.timeout(20)
def test_a_process_that_ends_while_it_connects_leaves_the_servers_to_the_others(events):
    servers = shared_servers.SharedServers()
    with socket.socket(socket.AF_UNIX) as ended:
        ended.connect(servers.address[0])
    assert use(process_of(servers)) == {"url": "fake://"}
    servers.close()


def test_a_run_of_one_process_has_a_server_of_its_own(events):
    assert use(SimpleNamespace()) == {"url": "fake://"}
    assert events == ["started", "ended"]
