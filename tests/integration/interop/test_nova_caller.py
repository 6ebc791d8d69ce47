"""A real nova release calls the scheduler as its conductor does."""

import json
import pathlib

import pytest
import requests

from tests.integration.deployed import DeployedCloud, run_json
from tools.rig.providers import HEADERS

pytestmark = [pytest.mark.interop, pytest.mark.rabbitmq, pytest.mark.slow, pytest.mark.timeout(300)]

CALLER = pathlib.Path(__file__).with_name("nova_caller.py")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory, rabbit):
    with DeployedCloud(tmp_path_factory.mktemp("interop"), rabbit, 12, 2, conductors=False) as running:
        yield running


@pytest.fixture(scope="module")
def seen(cloud, nova_python, nova_environment):
    """What nova saw."""
    return run_json([nova_python, CALLER, cloud.config_file], env=nova_environment)


def test_nova_gets_its_own_selections(cloud, seen):
    hosts = {host.name: host for host in cloud.fleet.hosts}
    assert seen["chosen"]["version"] == "1.1"
    assert [len(one) for one in seen["chosen"]["lists"]] == [2, 2]
    for selections in seen["chosen"]["lists"]:
        assert len({one["cell_uuid"] for one in selections}) == 1
        for one in selections:
            host = hosts[one["service_host"]]
            assert host.zone == one["availability_zone"] == "az1"
            assert (host.nodename, host.uuid, host.cell.uuid) == (
                one["nodename"],
                one["compute_node_uuid"],
                one["cell_uuid"],
            )


def test_the_first_of_each_is_claimed(cloud, seen):
    for instance, selections in zip(seen["chosen"]["uuids"], seen["chosen"]["lists"], strict=True):
        answer = requests.get(f"{cloud.placement_url}/allocations/{instance}", headers=HEADERS, timeout=10)
        held = {rp: {"resources": one["resources"]} for rp, one in answer.json()["allocations"].items()}
        assert held == json.loads(selections[0]["allocation_request"])["allocations"]
        assert selections[0]["allocation_request_version"] == "1.36"


def test_nova_catches_its_own_no_valid_host(seen):
    assert seen["refused"] == {"message": "No valid host was found. ", "code": 500}


def test_what_nova_casts_is_understood(cloud, seen):
    log = cloud.scheduler.text()
    assert "was called wrongly" not in log
    assert "failed" not in log
