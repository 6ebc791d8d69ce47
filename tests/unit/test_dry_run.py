"""What would be decided now is decided by the manager, and leaves nothing behind."""

import json
from types import SimpleNamespace

import pytest

from scheduler.dry_run import DryRuns
from scheduler.errors import InvalidRequest
from scheduler.explain.document import document
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rpc.context import RequestContext
from tests.builders import uuid_of
from tests.unit import test_manager
from tests.unit.selection.requests import group, host_with_candidate, make_spec
from tests.unit.test_manager import ask, two_hosts

# fixtures
conf, make_world = test_manager.conf, test_manager.make_world

CONTEXT = RequestContext(is_admin=True)


def spec_of(**fields):
    return make_spec(project_id="p", num_instances=1, **fields)


def test_the_hosts_are_those_that_a_request_gets(make_world):
    world = make_world(two_hosts())
    record = DryRuns(world.manager).decide(CONTEXT, spec_of())
    reply = ask(world)
    assert record.chosen[0].host[0] == reply[0][0].service_host
    assert [host for host, _ in record.chosen[0].alternates] == [one.service_host for one in reply[0][1:]]


def test_nothing_is_claimed_announced_kept_or_said_to_be_placed(make_world, caplog):
    caplog.set_level("INFO")
    world = make_world(two_hosts())
    caplog.clear()
    DryRuns(world.manager).decide(CONTEXT, spec_of())
    assert (world.placement.claimed, world.placement.released, world.told.events) == ([], [], [])
    assert len(world.hosts.pending) == 0
    assert len(world.manager.decisions.memory) == 0
    assert not [text for text in caplog.messages if "Placed instance" in text]
    assert [text for text in caplog.messages if text.startswith("Dry run for 1 instances")]


def test_a_request_that_would_fail_has_its_reason(make_world):
    world = make_world([host_with_candidate("h1").disabled()])
    record = DryRuns(world.manager).decide(CONTEXT, spec_of())
    assert record.error[0] == "NoValidHost"
    assert "ComputeFilter turned down 1" in record.summary


def test_a_request_that_cannot_be_read_is_refused(make_world):
    world = make_world(two_hosts())
    spec = spec_of()
    spec.flavor.extra_specs = {"hw:cpu_policy": "no such policy"}
    with pytest.raises(InvalidRequest):
        DryRuns(world.manager).decide(CONTEXT, spec)


def test_requests_of_the_same_group_do_not_wait_for_it(make_world):
    world = make_world(two_hosts())
    members = group(uuid="g", policy="affinity", members=[], hosts=[])
    spec = spec_of(instance_group=members)
    with world.manager.steps.groups.serialized(
        SchedulingRequest.of(spec, None, CONTEXT), world.manager.hosts
    ):
        record = DryRuns(world.manager).decide(CONTEXT, spec)
    assert record.chosen


def group_of(policy, *members):
    """A server group as the API database has it: without the hosts of its members."""
    return group(uuid=uuid_of("group"), name="db", policy=policy, members=list(members))


@pytest.fixture
def grouped(make_world, conf):
    """Two hosts; the better one has a member of the group."""
    conf.set_override(
        "enabled_filters", ["ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter"], "filter_scheduler"
    )
    hosts = [host_with_candidate("h1").ram(9000).holding("m1"), host_with_candidate("h2").ram(2000)]
    return make_world(hosts)


@pytest.mark.parametrize(("policy", "host"), [("affinity", "h1"), ("anti-affinity", "h2")])
def test_a_server_group_is_set_up_as_conductors_do(grouped, policy, host):
    record = DryRuns(grouped.manager).decide(CONTEXT, spec_of(instance_group=group_of(policy, "m1")))
    assert [one.host[0] for one in record.chosen] == [host]
    assert document(record)["requested"]["server_group"] == {
        "uuid": uuid_of("group"),
        "name": "db",
        "policy": policy,
        "rules": {},
        "members": 1,
        "hosts": ["h1"],
    }


def test_instances_of_one_dry_run_are_members_of_the_group_too(grouped):
    """With a member on the other host, of two new ones only the first finds a host."""
    spec = spec_of(instance_group=group_of("anti-affinity", "m1"))
    spec.num_instances = 2
    record = DryRuns(grouped.manager).decide(CONTEXT, spec)
    assert (record.error[0], record.last_counts[-1].end) == ("NoValidHost", 0)
    assert "members of group db" in record.summary


def test_members_that_cannot_be_found_are_said_to_be_missing(grouped, monkeypatch):
    monkeypatch.setattr(grouped.manager.hosts, "hosts_of_instances", lambda uuids: (set(), False))
    record = DryRuns(grouped.manager).decide(CONTEXT, spec_of(instance_group=group_of("affinity", "m1")))
    assert document(record)["notes"] == ["Cells that cannot be read may have further members of the group"]


def test_hints_without_effect_are_named(grouped):
    record = DryRuns(grouped.manager).decide(CONTEXT, spec_of(scheduler_hints={"samehost": ["m1"]}))
    (note,) = document(record)["notes"]
    assert note.endswith("did you mean same_host?")


class Client:
    """Placement with one answer."""

    def __init__(self, names):
        self.paths = []
        uuids = [uuid_of(name) for name in names]
        left = {"VCPU": {"capacity": 16, "used": 10}}
        self.body = json.dumps(
            {
                "allocation_requests": [
                    {"allocations": {uuid: {"resources": {"VCPU": 2}}}, "mappings": {"": [uuid]}}
                    for uuid in uuids
                ],
                "provider_summaries": {
                    uuid: {"root_provider_uuid": uuid, "resources": left, "traits": []} for uuid in uuids
                },
            }
        ).encode()

    def get(self, path, version, context, search=False):
        self.paths.append(path)
        return SimpleNamespace(status=200, body=self.body)


def test_an_offer_has_what_placement_has_left_of_all_hosts(make_world):
    world = make_world(two_hosts())
    client = Client(["h1", "h2"])
    object.__setattr__(world.manager.parts, "placement", client)
    offer = DryRuns(world.manager).offer(CONTEXT, spec_of())
    assert "limit=" not in client.paths[0]
    assert offer.found.usage(uuid_of("h1"))["VCPU"].used == 10
    assert [one.host[0] for one in offer.record.chosen] == ["h1"]
