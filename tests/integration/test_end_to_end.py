"""Boots through processes that are all separate, with failing computes; Placement tells the truth in the end."""

import json

import pytest

from conductor_client import journal
from conductor_client.fake_compute import Failures
from conductor_client.journal import InstanceEvent, InstanceHistory
from tests.support import forked
from tests.support.waiting import eventually
from tests.unit.conductor_client.doubles import context, new_uuid
from tools.rig import truth
from tools.rig.world import RunningWorld, World
from tools.scenarios.demo import check, make_requests

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow, pytest.mark.timeout(300)]

HOSTS = 18
BAD_HOSTS = ("cmp-00000", "cmp-00008")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory, rabbit):
    failures = Failures(frozenset(BAD_HOSTS), rate=0.25, seed=3)
    world = World(HOSTS, conductors="processes", failures=failures)
    with RunningWorld(world, tmp_path_factory.mktemp("cloud"), rabbit) as running:
        yield running


def finished(cloud, uuids):
    """The journal's records of instances, once all are built or given up."""

    def records():
        stories = cloud.client.call(context(), "list_instances", instance_uuids=uuids)
        found = [
            InstanceHistory(story[0]["instance_uuid"], [InstanceEvent(**event) for event in story])
            for story in stories
        ]
        return found if sum(each.state in journal.FINAL for each in found) == len(uuids) else None

    return eventually(records, 60)


@pytest.fixture(scope="module")
def booted(cloud):
    """(requests, records) of forty instances, asked for at once."""
    requests = make_requests(40, seed=5)
    for request in requests:
        cloud.client.cast(
            context(), "build_instances", request_spec=request.spec(), instance_uuids=request.uuids
        )
    return requests, finished(cloud, [uuid for request in requests for uuid in request.uuids])


def test_every_instance_comes_to_an_end(booted):
    _requests, records = booted
    assert {record.state for record in records} <= set(journal.FINAL)
    assert sum(record.state == journal.ACTIVE for record in records) > len(records) // 2


def test_failed_builds_were_tried_elsewhere_in_the_same_cell(booted, cloud):
    _requests, records = booted
    cell_of = {host.name: host.cell.name for host in cloud.fleet.hosts}
    moved = [record for record in records if record.attempts > 1]
    assert moved
    for record in moved:
        hosts = [event.host for event in record.events if event.state == journal.BUILDING]
        assert len(set(hosts)) == len(hosts)
        assert len({cell_of[host] for host in hosts}) == 1


def test_bad_hosts_have_nothing(booted):
    _requests, records = booted
    assert not [record for record in records if record.host in BAD_HOSTS]


def test_placement_holds_what_was_built_and_nothing_else_and_zones_are_kept(booted, cloud):
    found = check(cloud, *booted)
    assert found.problems == []
    assert found.consumers == sum(record.state == journal.ACTIVE for record in booted[1])


def test_what_fits_nowhere_is_buried_and_leaves_nothing(booted, cloud):
    (request, *_) = make_requests(1, seed=5)
    spec, instance = request.spec(), new_uuid()
    spec.flavor.vcpus = 100000
    cloud.client.cast(context(), "build_instances", request_spec=spec, instance_uuids=[instance])
    (record,) = finished(cloud, [instance])
    assert (record.state, record.attempts) == (journal.ERROR, 0)
    assert record.last.detail.startswith("No valid host was found.")
    assert instance not in str(truth.check(cloud.placement_url, cloud.fleet.providers(), {}).problems)


def explain(cloud, *arguments):
    """What berth-explain prints as JSON."""
    command = ("-m", "scheduler.operators.programs", "berth-explain", "--config-file", cloud.config_file)
    done = forked.run(*command, *arguments, "-f", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_decision_is_explained_whichever_scheduler_is_asked(booted, cloud):
    requests, _records = booted
    entries = explain(cloud, "list")
    assert {entry["instances"][0] for entry in entries} >= {request.uuids[0] for request in requests}
    explained = explain(cloud, "decision", requests[0].uuids[0])
    assert explained["result"] == "scheduled"
    assert explained["instances"] == requests[0].uuids
    assert explained["hosts"]["outcome"][0] == "chosen"


def test_every_process_stops_cleanly_when_asked(booted, cloud):
    assert [(name, status) for name, status in cloud.stop_processes() if status != 0] == []
