"""Server groups: whose turn it is, and what a request learns of its group then."""

import threading

import pytest

from scheduler.selection.server_groups import Groups
from tests.unit.selection.requests import group, make_request, make_spec

UUID = "60000000-0000-4000-8000-000000000001"
REBUILD = {"_nova_check_type": ["rebuild"]}


class Known:
    """What is known of groups now."""

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


def after_turn(request, known):
    spec = request.spec
    with Groups().turn(request, known) as current:
        current.write_progress()
    found = (list(current.server_group.members), list(current.server_group.hosts))
    assert found == (spec.instance_group.members or [], spec.instance_group.hosts or [])
    return spec.instance_group.members, spec.instance_group.hosts


@pytest.mark.parametrize(
    ("request_", "known", "expected"),
    [
        (spec(), Known(homes={"a": "h1"}), (["a"], ["h1"])),
        (spec(), Known(["b", "a"], {"a": "h1", "b": "h2"}), (["a", "b"], ["h1", "h2"])),
        (spec(hosts=[]), Known(["b"], {"b": "h2"}), (["a", "b"], ["h2"])),
        (spec(), Known(), (["a"], ["old"])),
        (spec(hosts=None), Known(), (["a"], None)),
        (spec(members=None), Known(["b"], {"b": "h2"}), (["b"], ["h2"])),
        (spec(), Known(homes={"a": "h1"}, complete=False), (["a"], ["h1", "old"])),
        (spec(policy=None, policies=["affinity"]), Known(homes={"a": "h1"}), (["a"], ["h1"])),
        (spec("anti-affinity"), Known(["b"], {"b": "h2"}), (["a", "b"], ["old"])),
        (spec("soft-affinity"), Known(["b"], {"b": "h2"}), (["a", "b"], ["old"])),
    ],
)
def test_what_a_request_learns(request_, known, expected):
    assert after_turn(request_, known) == expected


def test_a_cell_that_is_away_is_mentioned(caplog):
    after_turn(spec(), Known(complete=False))
    assert f"Not all members of server group {UUID} can be found" in caplog.text


def test_rebuilds_and_requests_without_a_group_are_left_alone():
    request = spec()
    request.spec.scheduler_hints, request.spec.force_hosts = REBUILD, ["h1"]
    assert after_turn(make_request(request.spec), Known(["b"], {"a": "h1"})) == (["a"], ["old"])
    with Groups().turn(make_request(), None):
        pass


def waits(groups, request, waiting_for):
    """Whether a request gets its turn while another has it."""
    entered = threading.Event()

    def enter():
        with groups.turn(request, Known()):
            entered.set()

    thread = threading.Thread(target=enter)
    with groups.turn(waiting_for, Known()):
        thread.start()
        got_in = entered.wait(0.2)
    thread.join(10)
    assert entered.is_set()
    return not got_in


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (spec(), True),
        (spec("anti-affinity"), False),
        (make_request(), False),
    ],
)
def test_one_at_a_time_for_an_affinity_group(request_, expected):
    assert waits(Groups(), request_, spec()) is expected


def test_the_wait_has_a_bound(caplog):
    assert not waits(Groups(patience=0.0), spec(), spec())
    assert f"Requests of server group {UUID} take long" in caplog.text


def test_a_failure_ends_the_turn():
    groups = Groups(patience=0.0)
    with pytest.raises(KeyError), groups.turn(spec(), Known()):
        raise KeyError
    assert not groups._locks.busy()
