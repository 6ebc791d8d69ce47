"""Filters on other instances, on addresses and on server groups (spec: filters-and-weighers 2.7-2.10).

Their verdicts are compared with those of nova in tests/recorded.
"""

import netaddr
import pytest

from scheduler.errors import is_fault_of_request
from scheduler.filters.affinity_filter import (
    DifferentHostFilter,
    GroupAffinityFilter,
    GroupAntiAffinityFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
    SimpleCIDRAffinityFilter,
)
from scheduler.request.scheduling_request import SchedulingRequest
from tests.builders import make_host, make_view
from tests.unit.filters.asking import ask, ask_all, make_conf, make_request, make_spec, prepared, why


def holding(*uuids):
    return make_host("h1").holding(*uuids)


def near_request(near, cidr=None):
    hints = {"build_near_host_ip": near, "cidr": cidr}
    return make_request(hints={name: [value] for name, value in hints.items() if value})


@pytest.mark.parametrize(
    ("row", "near", "cidr", "address", "error"),
    [
        (11, "10.8.1.1", "/33", "10.8.1.1", netaddr.AddrFormatError),
        (12, "bogus", None, "10.8.1.1", netaddr.AddrFormatError),
        (13, "10.8.1.1", None, None, TypeError),
    ],
)
def test_simple_cidr_raises(row, near, cidr, address, error):
    with pytest.raises(error) as caught:
        ask(SimpleCIDRAffinityFilter, make_host("h").ip(address), near_request(near, cidr))
    assert is_fault_of_request(caught.value) is (address is not None)


@pytest.mark.parametrize("hint", ["build_near_host_ip", "cidr"])
def test_simple_cidr_wants_one_value_a_hint(hint):
    hints = {"build_near_host_ip": ["10.0.0.1"], "cidr": ["/24"], hint: ["10.0.0.1", "/24"]}
    with pytest.raises(TypeError) as caught:
        ask(SimpleCIDRAffinityFilter, make_host("h").ip("10.0.0.1"), make_request(hints=hints))
    assert is_fault_of_request(caught.value)


def apart(members, limit=None):
    rules = {} if limit is None else {"_rules": {"max_server_per_host": str(limit)}}
    policy = "anti-affinity"
    return {"uuid": "g", "policy": policy, "policies": [policy], "members": members, "hosts": None, **rules}


def together(hosts, policy="affinity", **fields):
    return {"uuid": "g", "policies": [policy], "policy": policy, "members": [], "hosts": hosts, **fields}


def test_a_member_named_twice_counts_once():
    assert ask(ServerGroupAntiAffinityFilter, holding("A"), make_request(group=apart(["A", "A"], 2)))


@pytest.mark.parametrize(
    ("rule", "group", "passes"),
    [
        (GroupAntiAffinityFilter, apart(["A"]), False),
        (GroupAntiAffinityFilter, apart(["B"]), True),
        (GroupAffinityFilter, together(["h1"]), True),
        (GroupAffinityFilter, together(["h2"]), False),
    ],
)
def test_filters_of_past_releases_judge_alike(rule, group, passes):
    assert ask(rule, holding("A"), make_request(group=group)) is passes


def test_siblings_placed_by_the_same_request_count():
    view = make_view([make_host("h1"), make_host("h2")])
    request = SchedulingRequest.of(make_spec(group=apart(["X", "Y"])), ["X", "Y"])
    rule = ServerGroupAntiAffinityFilter(make_conf())
    judge = prepared(rule, view, request)
    assert judge.passes(view).tolist() == [True, True]
    view.place_instance(0, "X")
    request.progress.instance_uuid = "Y"
    assert judge.passes(view).tolist() == [False, True]
    assert judge.reason(view.host(0)) == "members of group g on host: 1, limit 1"
    assert not rule.local


def test_hosts_chosen_for_earlier_instances_of_the_request_are_group_hosts():
    view = make_view([make_host("h1"), make_host("h2")])
    request = make_request(group=together([]))
    judge = prepared(ServerGroupAffinityFilter(make_conf()), view, request)
    assert judge.passes(view).tolist() == [True, True]
    request.progress.group_hosts = ("h2",)
    assert judge.passes(view).tolist() == [False, True]
    assert judge.reason(view.host(0)) == "host not among group hosts ['h2']"


@pytest.mark.parametrize(("hosts", "passes"), [(["h1"], True), (["h2"], False)], ids=["here", "elsewhere"])
def test_a_group_without_policies_is_judged_where_nova_raises(hosts, passes):
    """spec: filters-and-weighers 6 row 10"""
    assert (
        ask(
            ServerGroupAffinityFilter,
            make_host("h1"),
            make_request(group={"policy": "affinity", "hosts": hosts}),
        )
        is passes
    )


def test_all_nodes_of_a_group_host_pass():
    hosts = [make_host("h1", "n1"), make_host("h1", "n2"), make_host("h2", "n3")]
    request = make_request(group=together(["h1"]))
    assert ask_all(ServerGroupAffinityFilter(make_conf()), hosts, request) == [True, True, False]


@pytest.mark.parametrize(
    ("rule", "request_fields", "reason"),
    [
        (DifferentHostFilter, {"hints": {"different_host": ["B", "A"]}}, "holds instance A"),
        (SameHostFilter, {"hints": {"same_host": ["B", "C"]}}, "holds none of ['B', 'C']"),
        (ServerGroupAntiAffinityFilter, {"group": apart(["A"])}, "members of group g on host: 1, limit 1"),
        (ServerGroupAffinityFilter, {"group": together(["h2"])}, "host not among group hosts ['h2']"),
        (
            SimpleCIDRAffinityFilter,
            {"hints": {"build_near_host_ip": ["10.1.0.1"]}},
            "host address 10.0.0.1 not in 10.1.0.0/24",
        ),
    ],
)
def test_reasons(rule, request_fields, reason):
    assert why(rule, holding("A").ip("10.0.0.1"), make_request(**request_fields)) == reason
