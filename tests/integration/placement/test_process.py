import contextlib
from dataclasses import replace
import socket
from urllib.parse import urlsplit
import uuid

import pytest
import requests

from tools.rig.placement import PlacementProcess
from tools.rig.providers import HEADERS, create_fleet, fill, hosts

QUERY = "/allocation_candidates?resources=VCPU:1,MEMORY_MB:512&required=COMPUTE_NODE"


def names(url, query="/resource_providers"):
    found = requests.get(url + query, headers=HEADERS, timeout=30).json()
    return [provider["name"] for provider in found["resource_providers"]]


def roots(url, query=QUERY):
    return set(requests.get(url + query, headers=HEADERS, timeout=30).json()["provider_summaries"])


def test_connections_are_kept_open(placement_url):
    sessions = [requests.Session() for _ in range(30)]
    with contextlib.ExitStack() as stack:
        for session in map(stack.enter_context, sessions):
            answer = session.get(placement_url, timeout=5)
            assert answer.raw.version == 11
            assert "Connection" not in answer.headers


def test_a_body_that_does_not_come_blocks_no_other_write(placement_url):
    address = urlsplit(placement_url)
    with socket.create_connection((address.hostname, address.port)) as slow:
        slow.sendall(b"PUT /traits/CUSTOM_A HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
        create_fleet(placement_url, hosts(1, f"host-{uuid.uuid4()}"))


def test_file_is_filled_and_kept(tmp_path):
    process = PlacementProcess(tmp_path / "placement.db")
    with process as url:
        create_fleet(url, hosts(2, "first"))
        aggregate = str(uuid.uuid4())
        fleet = [replace(host, aggregates=[aggregate]) for host in hosts(50, "second")]
        fill(tmp_path / "placement.db", fleet)
        assert len(names(url)) == 52
    with process as url:
        assert len(names(url)) == 52
        assert roots(url, f"{QUERY}&member_of={aggregate}") == {host.uuid for host in fleet}


def test_process_that_cannot_start(tmp_path):
    with (
        pytest.raises(RuntimeError, match="did not start"),
        PlacementProcess(tmp_path / "none" / "placement.db", log=tmp_path / "log"),
    ):
        pass
