import pytest

from scheduler.objects import InstanceGroup
from scheduler.weights.affinity import ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher
from tests.builders import make_host
from tests.unit.weights.weighing import make_request, totals

MEMBERS = ["m1", "m2", "m3"]


def hosts():
    return [make_host("h1").holding("m1"), make_host("h2").holding("m2", "m3", "other"), make_host("h3")]


# spec: filters-and-weighers 3.7
@pytest.mark.parametrize(
    ("weigher", "policy", "expected"),
    [
        (ServerGroupSoftAffinityWeigher, "soft-affinity", [0.5, 1.0, 0]),
        (ServerGroupSoftAntiAffinityWeigher, "soft-anti-affinity", [0.5, 0, 1.0]),
        (ServerGroupSoftAffinityWeigher, "affinity", [0, 0, 0]),
        (ServerGroupSoftAntiAffinityWeigher, "soft-affinity", [0, 0, 0]),
    ],
)
def test_members_on_the_host(weigher, policy, expected):
    request = make_request(instance_group=InstanceGroup(policy=policy, members=MEMBERS))
    assert list(totals([weigher], hosts(), request).values()) == expected


def test_without_a_group_there_is_no_preference():
    assert set(totals([ServerGroupSoftAffinityWeigher], hosts()).values()) == {0}
