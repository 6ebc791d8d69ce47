"""Members of a server group that several processes place at the same time: whose claim is released."""

import pytest

from scheduler.claims.group_policy import MOST_READ, GroupCheck
from scheduler.errors import AgainstGroupPolicy, PlacementUnavailable
from scheduler.objects import InstanceGroup
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.errors import PlacementUnreachable
from scheduler.placement.write_policy import WritePolicy
from scheduler.request.instance_state import InstanceState
from scheduler.request.scheduling_request import ServerGroup
from tests.unit.claims.builders import SleepClock

POLICY = WritePolicy(retry_delay=(0.25, 0.5))
NODES = {"node1": "h1", "node2": "h2"}


class Cloud:
    """What instances hold, by node, and what nova says of them; changed by ``later`` during the pause."""

    def __init__(self, *, later=None, states=None, **held):
        self.held, self.later, self.states, self.read = held, later, states or {}, []
        self.clock = SleepClock()

    def consumers_of(self, node):
        self.read.append(node)
        if self.later is not None and self.clock.slept:
            self.held = self.later
        return frozenset(uuid for uuid, nodes in self.held.items() if node in nodes)

    def read_many(self, uuids):
        self.read += uuids
        rows = {
            uuid: {node: {"resources": {"VCPU": 1}} for node in self.held.get(uuid, ())} for uuid in uuids
        }
        return {uuid: ConsumerAllocations(one, 1) for uuid, one in rows.items()}

    def states_of(self, uuids, _hosts):
        return {uuid: self.states.get(uuid, InstanceState.WAITING) for uuid in uuids}

    def check(self, policy, node, most=1, members=("a", "b", "c"), is_first=True):
        """Check the nodes of instance ``a``, which is in a group that has more members now than it knows."""
        wire = InstanceGroup(
            uuid="g", policy=policy, policies=[policy], _rules={"max_server_per_host": str(most)}
        )
        group = ServerGroup("g", policy, (policy,), ("a",), (), wire, "web")
        check = GroupCheck(
            group,
            frozenset("a"),
            lambda _group: list(members),
            self.states_of,
            self.consumers_of,
            self.read_many,
            lambda providers: {each: NODES[each] for each in providers if each in NODES},
            self.clock.timing,
            POLICY,
        )
        return check.check({"a": node}, is_first=is_first)


@pytest.mark.parametrize(
    ("held", "most", "is_refused"),
    [
        ({"a": ["node1"], "b": ["node2"]}, 1, False),
        ({"a": ["node1"], "stranger": ["node1"]}, 1, False),
        ({"a": ["node1"], "b": ["node1"]}, 1, True),
        ({"a": ["node1"], "b": ["node1"]}, 2, False),
        ({"a": ["node1"], "b": ["node1"], "c": ["node1"]}, 2, True),
    ],
    ids=["apart", "another instance", "together", "two may share", "three may not"],
)
def test_an_anti_affinity_member_leaves_a_host_with_too_many(held, most, is_refused):
    cloud = Cloud(**held)
    found = cloud.check("anti-affinity", "node1", most=most)
    number = len(held.keys() - {"stranger"})
    assert found == ({"a": f"members of group web (g) on host: {number}, limit {most}"} if is_refused else {})
    assert bool(cloud.clock.slept) is is_refused


def test_the_host_is_kept_if_the_other_member_released_it_meanwhile():
    cloud = Cloud(a=["node1"], b=["node1"], later={"a": ["node1"]})
    assert cloud.check("anti-affinity", "node1") == {}
    assert len(cloud.clock.slept) == 1


def test_an_affinity_member_has_to_join_the_host_of_another_one():
    cloud = Cloud(a=["node1"], b=["node2"])
    with pytest.raises(AgainstGroupPolicy) as raised:
        cloud.check("affinity", "node1")
    assert raised.value.hosts == ("h2",)


def test_a_host_that_no_table_has_counts_too():
    with pytest.raises(AgainstGroupPolicy) as raised:
        Cloud(a=["node1"], b=["foreign"]).check("affinity", "node1")
    assert raised.value.hosts == ("foreign",)


@pytest.mark.parametrize(
    ("held", "states"),
    [
        ({"a": ["node1"], "b": ["node1"]}, {}),
        ({"a": ["node1"]}, {}),
        ({"a": ["node1"], "b": ["node2"]}, {"b": InstanceState.DELETED}),
        ({"a": ["node1"], "b": ["node2"]}, {"b": InstanceState.GIVEN_UP}),
        ({"a": ["node1"], "b": ["node1", "node2"]}, {}),
    ],
    ids=["together", "alone", "deleted", "given up", "evacuated: on both"],
)
def test_an_affinity_member_stays_where_no_other_one_is_elsewhere(held, states):
    cloud = Cloud(states=states, **held)
    assert cloud.check("affinity", "node1") == {}
    assert cloud.clock.slept == []


def test_beside_a_member_that_is_built_no_other_is_read():
    cloud = Cloud(a=["node1"], b=["node1"], c=["node2"], states={"b": InstanceState.PLACED})
    assert cloud.check("affinity", "node1") == {}
    assert cloud.read == ["node1"]


def test_of_a_large_group_without_a_built_member_the_latest_are_read():
    members = [f"i{number:04d}" for number in range(3 * MOST_READ)]
    cloud = Cloud(a=["node1"])
    assert cloud.check("affinity", "node1", members=members) == {}
    assert cloud.read == ["node1", *members[-MOST_READ:]]


def test_later_members_of_one_request_follow_its_first():
    cloud = Cloud(a=["node1"], b=["node2"])
    assert cloud.check("affinity", "node1", is_first=False) == {}
    assert cloud.read == []
    assert Cloud(a=["node1"], b=["node1"]).check("anti-affinity", "node1", is_first=False) != {}


@pytest.mark.parametrize("policy", ["affinity", "anti-affinity"])
def test_without_an_answer_the_request_waits(policy):
    cloud = Cloud()

    def silent(_node):
        raise PlacementUnreachable("no route")

    cloud.consumers_of = silent
    with pytest.raises(PlacementUnavailable) as raised:
        cloud.check(policy, "node1")
    assert "Cannot read where group web" in raised.value.reason
