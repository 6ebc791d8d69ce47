from dataclasses import replace
import logging
import uuid

import pytest
import requests

from tools.embedded_placement import EmbeddedPlacement, PlacementProcess
from tools.placement_fleet import HEADERS, create_fleet, fill, hosts

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
        PlacementProcess(tmp_path / "none" / "placement.db"),
    ):
        pass
