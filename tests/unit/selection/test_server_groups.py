"""Server groups: which requests wait for each other, and what a request learns of its group."""

import threading

import pytest

from scheduler.selection.server_groups import ServerGroups
from tests.unit.selection.requests import group, make_request, make_spec

UUID = "60000000-0000-4000-8000-000000000001"
REBUILD = {"_nova_check_type": ["rebuild"]}


class FakeSource:
    """Members of groups, and where they are."""

    def __init__(self, members=(), homes=None, complete=True):
        self.members = members
        self.homes = homes or {}
        self.complete = complete

    def members_of(self, group_uuid):
        assert group_uuid == UUID
        return self.members

    def hosts_of_instances(self, instance_uuids):
        return {self.homes[uuid] for uuid in instance_uuids if uuid in self.homes}, self.complete


def spec(policy="affinity", **fields):
    fields = {"uuid": UUID, "policies": [policy], "members": ["a"], "hosts": ["old"]} | fields
    return make_request(make_spec(instance_group=group(policy=policy, **fields)))


def learned(request, source):
    spec = request.spec
    with ServerGroups().serialized(request, source) as current:
        current.write_progress()
    found = (list(current.server_group.members), list(current.server_group.hosts))
    assert found == (spec.instance_group.members or [], spec.instance_group.hosts or [])
    return spec.instance_group.members, spec.instance_group.hosts


@pytest.mark.parametrize(
    ("request_", "source", "expected"),
    [
        (spec(), FakeSource(homes={"a": "h1"}), (["a"], ["h1"])),
        (spec(), FakeSource(["b", "a"], {"a": "h1", "b": "h2"}), (["a", "b"], ["h1", "h2"])),
        (spec(hosts=[]), FakeSource(["b"], {"b": "h2"}), (["a", "b"], ["h2"])),
        (spec(), FakeSource(), (["a"], ["old"])),
        (spec(hosts=None), FakeSource(), (["a"], None)),
        (spec(members=None), FakeSource(["b"], {"b": "h2"}), (["b"], ["h2"])),
        (spec(), FakeSource(homes={"a": "h1"}, complete=False), (["a"], ["h1", "old"])),
        (spec(policy=None, policies=["affinity"]), FakeSource(homes={"a": "h1"}), (["a"], ["h1"])),
        (spec("anti-affinity"), FakeSource(["b"], {"b": "h2"}), (["a", "b"], ["old"])),
        (spec("soft-affinity"), FakeSource(["b"], {"b": "h2"}), (["a", "b"], ["old"])),
    ],
)
def test_what_a_request_learns(request_, source, expected):
    assert learned(request_, source) == expected


def test_a_cell_that_is_away_is_mentioned(caplog):
    learned(spec(), FakeSource(complete=False))
    assert f"Cannot find all members of server group {UUID}" in caplog.text


def test_rebuilds_and_requests_without_a_group_are_left_alone():
    request = spec()
    request.spec.scheduler_hints, request.spec.force_hosts = REBUILD, ["h1"]
    assert learned(make_request(request.spec), FakeSource(["b"], {"a": "h1"})) == (["a"], ["old"])
    with ServerGroups().serialized(make_request(), None):
        pass


def waits(groups, request, waiting_for=None):
    """Whether a request has to wait while another is served, one of the same group if none is named."""
    entered = threading.Event()

    def enter():
        with groups.serialized(request, FakeSource()):
            entered.set()

    thread = threading.Thread(target=enter)
    with groups.serialized(waiting_for or request, FakeSource()):
        thread.start()
        got_in = entered.wait(0.2)
    thread.join(60)
    assert entered.is_set()
    return not got_in


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (spec(), True),
        (spec("soft-affinity"), True),
        (spec("anti-affinity"), False),
        (spec("soft-anti-affinity"), False),
    ],
)
def test_one_at_a_time_for_an_affinity_group(request_, expected):
    assert waits(ServerGroups(), request_) is expected


def test_requests_without_a_group_do_not_wait():
    assert not waits(ServerGroups(), make_request(), spec())


def test_the_wait_has_a_bound(caplog):
    assert not waits(ServerGroups(lock_timeout=0.0), spec())
    assert f"Lock of server group {UUID} timed out" in caplog.text


def test_a_failure_releases_the_lock(caplog):
    groups = ServerGroups(lock_timeout=0.0)
    with pytest.raises(KeyError), groups.serialized(spec(), FakeSource()):
        raise KeyError
    with groups.serialized(spec(), FakeSource()):
        assert "timed out" not in caplog.text
