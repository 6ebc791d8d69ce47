import contextlib
from dataclasses import replace
import logging
import socket
import threading
import time
from urllib.parse import urlsplit
import uuid

import pytest
import requests

from tools.rig.placement import EmbeddedPlacement, PlacementProcess
from tools.rig.providers import HEADERS, create_fleet, fill, hosts

QUERY = "/allocation_candidates?resources=VCPU:1,MEMORY_MB:512&required=COMPUTE_NODE"


def names(url, query="/resource_providers"):
    found = requests.get(url + query, headers=HEADERS, timeout=30).json()
    return [provider["name"] for provider in found["resource_providers"]]


def roots(url, query=QUERY):
    return set(requests.get(url + query, headers=HEADERS, timeout=30).json()["provider_summaries"])


def test_in_memory_and_once_more():
    before = logging.getLogger().level, list(logging.getLogger().handlers)
    for _ in range(2):
        with EmbeddedPlacement() as url:
            assert names(url) == []
            fleet = hosts(3)
            create_fleet(url, fleet)
            assert roots(url) == {host.uuid for host in fleet}
    assert (logging.getLogger().level, logging.getLogger().handlers) == before
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=5)


def test_connections_do_not_outlive_it():
    with requests.Session() as session:
        with EmbeddedPlacement() as url:
            assert session.get(url, timeout=5).ok
        with pytest.raises(requests.ConnectionError):
            session.get(url, timeout=5)


def test_connections_are_kept_open():
    sessions = [requests.Session() for _ in range(30)]
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(EmbeddedPlacement())
        for session in map(stack.enter_context, sessions):
            answer = session.get(url, timeout=5)
            assert answer.raw.version == 11
            assert "Connection" not in answer.headers


def test_it_stops_soon_while_clients_say_nothing():
    before = set(threading.enumerate())
    with EmbeddedPlacement() as url:
        address = urlsplit(url)
        silent = socket.create_connection((address.hostname, address.port))
        silent.sendall(b"GET / HTTP/1.1\r\n")
        assert requests.get(url, timeout=5).ok
        stopping = time.monotonic()
    silent.close()
    assert time.monotonic() - stopping < 5
    assert set(threading.enumerate()) <= before


def test_a_body_that_does_not_come_blocks_no_other_write():
    with EmbeddedPlacement() as url:
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port)) as slow:
            slow.sendall(b"PUT /traits/CUSTOM_A HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
            create_fleet(url, hosts(1))


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=str(port)), EmbeddedPlacement(port=port):
            pass
    with EmbeddedPlacement(port=port) as url:
        assert url.endswith(f":{port}")


def test_file_is_filled_and_kept(tmp_path):
    path = tmp_path / "placement.db"
    with EmbeddedPlacement(path) as url:
        create_fleet(url, hosts(2, "first"))
    aggregate = str(uuid.uuid4())
    fleet = [replace(host, aggregates=[aggregate]) for host in hosts(50, "second")]
    fill(path, fleet)
    with PlacementProcess(path) as url:
        assert len(names(url)) == 52
        assert roots(url, f"{QUERY}&member_of={aggregate}") == {host.uuid for host in fleet}


def test_process_that_cannot_start(tmp_path):
    with (
        pytest.raises(RuntimeError, match="did not start"),
        PlacementProcess(tmp_path / "none" / "placement.db", log=tmp_path / "log"),
    ):
        pass
