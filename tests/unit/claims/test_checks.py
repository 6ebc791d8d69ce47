"""Claims that several processes make at the same time: whose are released for the capacity of a provider, or for a server group."""

import pytest

from scheduler.bounds import deadline
from scheduler.bounds.deadline import Deadline
from scheduler.claims.checks import MOST_READ, WITHIN, CapacityCheck, GroupCheck, look_after
from scheduler.errors import PlacementUnavailable
from scheduler.objects import InstanceGroup
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.answer import Usage
from scheduler.placement.errors import PlacementUnreachable
from scheduler.placement.write_policy import WritePolicy
from scheduler.request.instance_state import InstanceState
from scheduler.request.scheduling_request import ServerGroup
from tests.support.clock import Clock
from tests.unit.claims.builders import SleepClock

POLICY = WritePolicy(retry_delay=(0.25, 0.5))


def taking(amount=1, provider="p"):
    return {provider: {"resources": {"VCPU": amount}}}


class Placement:
    """Answers with each usage once, then with the last one."""

    def __init__(self, *used, capacity=10, name="VCPU"):
        self.answers = [{name: Usage(capacity, each)} if each is not None else {} for each in used]
        self.read = []

    def __call__(self, provider):
        self.read.append(provider)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def check(placement, added, left=0, others=2, clock=None):
    """Return the instances within the capacity, and for those over it the provider and the class."""
    room = left if callable(left) else lambda _provider: {"VCPU": left, "DISK_GB": left}
    timing = (clock or SleepClock()).timing
    found = look_after(CapacityCheck(room, placement, others), added, timing, POLICY, is_first=True)
    within = {uuid for uuid, one in found.items() if one is WITHIN}
    return within, {
        uuid: (found[uuid].provider, found[uuid].resource_class) for uuid in found.keys() - within
    }


@pytest.mark.parametrize(
    ("others", "left", "amount", "is_read"),
    [
        (0, 0, 4, False),
        (2, 8, 4, False),
        (2, 7, 4, True),
        (2, -1, 4, True),
    ],
    ids=["switched off", "just enough room", "a little less", "no room"],
)
def test_a_claim_is_checked_if_others_of_its_size_would_not_fit(others, left, amount, is_read):
    placement = Placement(1)
    check(placement, {"i": taking(amount)}, left, others)
    assert placement.read == ["p"] * is_read


def test_a_provider_of_which_nothing_is_known_is_checked():
    placement = Placement(1)
    assert check(placement, {"i": taking(1)}, lambda _: {}) == ({"i"}, {})
    assert placement.read == ["p"]


def test_after_the_deadline_of_the_request_no_further_provider_is_read():
    clock, read = Clock(), []

    def placement(provider):
        read.append(provider)
        clock.now += 4
        return {"VCPU": Usage(10, 10)}

    added = {f"i{number}": taking(provider=f"p{number}") for number in range(9)}
    with deadline.limit_to(Deadline.after(10, clock)):
        assert check(placement, added) == ({"i0", "i1", "i2"}, {})
    assert read == ["p0", "p1", "p2"]


def test_a_claim_within_the_capacity_stays_and_is_not_waited_for():
    clock = SleepClock()
    assert check(Placement(10), {"i": taking()}, clock=clock) == ({"i"}, {})
    assert clock.slept == []


def test_a_claim_over_the_capacity_is_given_back_after_a_delay_if_nobody_else_has():
    clock = SleepClock()
    placement = Placement(11, 11)
    assert check(placement, {"i": taking()}, clock=clock) == (set(), {"i": ("p", "VCPU")})
    assert clock.slept == [0.25]


def test_a_claim_stays_if_another_scheduler_has_given_back_meanwhile():
    assert check(Placement(11, 10), {"i": taking()}) == ({"i"}, {})


def test_of_several_claims_only_as_many_are_given_back_as_are_too_many_the_last_first():
    added = {"a": taking(2), "b": taking(2), "c": taking(2), "d": taking(2, "q")}
    checked = check(Placement(13), {**added, "d": taking(2, "q")}, lambda p: {"VCPU": 0 if p == "p" else 99})
    assert checked == ({"a"}, {"c": ("p", "VCPU"), "b": ("p", "VCPU")})


def test_what_is_given_back_for_one_class_counts_for_the_others():
    added = {uuid: {"p": {"resources": {"VCPU": 1, "DISK_GB": 5}}} for uuid in "ab"}
    usage = {"VCPU": Usage(10, 11), "DISK_GB": Usage(100, 105)}
    assert check(lambda _: usage, added) == ({"a"}, {"b": ("p", "VCPU")})


def test_a_class_that_the_claims_do_not_take_is_not_theirs_to_release():
    usage = {"VCPU": Usage(10, 10), "DISK_GB": Usage(100, 105)}
    assert check(lambda _: usage, {"a": taking()}) == ({"a"}, {})


def test_what_placement_does_not_tell_stays():
    assert check(Placement(None), {"i": taking()}) == (set(), {})
    assert check(Placement(11, None), {"i": taking()}) == (set(), {})


# -- server groups

NODES = {"node1": "h1", "node2": "h2", "node3": "h3"}


class Cloud:
    """What instances hold, by node, and what nova says of them; changed by ``later`` during the pause."""

    def __init__(self, *, later=None, states=None, places=None, **held):
        self.held, self.later, self.states, self.read = held, later, states or {}, []
        self.places = places or {}
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

    def check(self, policy, node, most=1, members=("a", "b", "c"), is_first=True, unclaimed=()):
        """Check the claim of instance ``a``, whose group has more members now than it knows.

        Args:
            node: The node of the claim; or those of all instances of the request, by instance.
            unclaimed: Instances of the request that are claimed for later.
        """
        nodes = {"a": node} if isinstance(node, str) else node
        wire = InstanceGroup(
            uuid="g", policy=policy, policies=[policy], _rules={"max_server_per_host": str(most)}
        )
        group = ServerGroup("g", policy, (policy,), ("a",), (), wire, "web")
        check = GroupCheck(
            group,
            frozenset({*nodes, *unclaimed}),
            lambda _group: list(members),
            self.states_of,
            lambda uuids: {uuid: [("cell", self.places[uuid])] for uuid in uuids if uuid in self.places},
            self.consumers_of,
            self.read_many,
            lambda providers: {each: NODES[each] for each in providers if each in NODES},
        )
        disks = {"shared disks": {"resources": {"DISK_GB": 1}}}
        added = {uuid: {each: {"resources": {"VCPU": 1}}, **disks} for uuid, each in nodes.items()}
        found = look_after(check, added, self.clock.timing, POLICY, is_first=is_first)
        return {uuid: one.hosts or one.cause for uuid, one in found.items()}


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
    assert not cloud.clock.slept


FIRST = "0", "a"


def test_the_host_is_kept_if_the_other_member_released_it_meanwhile():
    cloud = Cloud(**{"a": ["node1"], "0": ["node1"]}, later={"a": ["node1"]})
    assert cloud.check("anti-affinity", "node1", members=FIRST) == {}
    assert len(cloud.clock.slept) == 1


@pytest.mark.parametrize(
    ("policy", "nodes"),
    [("anti-affinity", ["node1"]), ("affinity", ["node2"])],
    ids=["anti-affinity", "affinity"],
)
def test_the_last_member_waits_for_others_that_may_have_been_answered_and_gives_way_then(policy, nodes):
    cloud = Cloud(**{"a": ["node1"], "0": nodes})
    assert cloud.check(policy, "node1", members=FIRST)
    assert len(cloud.clock.slept) == 3


@pytest.mark.parametrize(
    ("states", "joined"),
    [({}, ["h3"]), ({"b": InstanceState.PLACED}, ["h2"])],
    ids=["none is built", "one is"],
)
def test_all_members_join_the_built_one_or_the_last(states, joined):
    """If each joined any other they would change places."""
    cloud = Cloud(states=states, a=["node1"], b=["node2"], c=["node3"])
    assert cloud.check("affinity", "node1") == {"a": joined}
    assert not cloud.clock.slept


def test_an_instance_that_is_claimed_for_later_has_no_rank():
    """The other request does not see it: each would take itself for the last one, and wait for the other."""
    cloud = Cloud(a=["node1"], b=["node2"])
    assert cloud.check("affinity", "node1", unclaimed="z") == {"a": ["h2"]}
    assert not cloud.clock.slept


@pytest.mark.parametrize(
    ("state", "is_kept"), [(InstanceState.WAITING, True), (InstanceState.GIVEN_UP, False)]
)
def test_an_affinity_member_stays_beside_the_last_one_which_others_join(state, is_kept):
    here = {"a": ["node1"], "c": ["node1"]}
    cloud = Cloud(**here, b=["node2"], later=here, states={"c": state})
    assert cloud.check("affinity", "node1") == ({} if is_kept else {"a": ["h2"]})
    assert bool(cloud.clock.slept) is is_kept


@pytest.mark.parametrize(
    ("policy", "held"),
    [("anti-affinity", {"b": ["node1"]}), ("affinity", {"b": ["node2"]})],
    ids=["anti-affinity", "affinity"],
)
@pytest.mark.parametrize(("place", "is_refused"), [("h1", False), ("h2", True), (None, True)])
def test_a_member_that_is_resized_on_its_host_breaks_nothing_that_was_not_broken(
    policy, held, place, is_refused
):
    """nova passes its own host, too. What it held there is its migration's now."""
    cloud = Cloud(places={"a": place} if place else {}, a=["node1"], migration=["node1"], **held)
    assert bool(cloud.check(policy, "node1")) is is_refused


def test_an_affinity_member_has_to_join_the_host_of_another_one():
    assert Cloud(a=["node1"], b=["node2"]).check("affinity", "node1") == {"a": ["h2"]}


def test_a_host_that_no_table_has_counts_too():
    assert Cloud(a=["node1"], b=["foreign"]).check("affinity", "node1") == {"a": ["foreign"]}


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


@pytest.mark.parametrize(
    ("nodes", "held", "found"),
    [
        ({"a": "node1", "b": "node1"}, {}, {}),
        ({"a": "node1", "b": "node2"}, {}, {"a": ["h2"]}),
        ({"a": "node1", "b": "node2"}, {"c": ["node1"]}, {"b": ["h1"]}),
        ({"a": "node1", "b": "node2"}, {"c": ["node1"], "d": ["node2"]}, {}),
    ],
    ids=["together", "apart", "one beside a built member", "both beside built members"],
)
def test_what_earlier_runs_left_to_one_request_is_together(nodes, held, found):
    """Two runs of a call, each on hosts of its own, can leave one instance on each."""
    states = dict.fromkeys(held, InstanceState.PLACED)
    cloud = Cloud(states=states, **{uuid: [node] for uuid, node in nodes.items()}, **held)
    assert cloud.check("affinity", nodes, members=("a", "b", "c", "d")) == found


@pytest.mark.parametrize("policy", ["affinity", "anti-affinity"])
def test_without_an_answer_the_request_waits(policy):
    cloud = Cloud()

    def silent(_node):
        raise PlacementUnreachable("no route")

    cloud.consumers_of = silent
    with pytest.raises(PlacementUnavailable) as raised:
        cloud.check(policy, "node1")
    assert "Cannot read where group web" in raised.value.reason
