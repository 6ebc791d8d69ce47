"""Filters on other instances, on addresses and on server groups (spec: filters-and-weighers 2.7-2.10)."""

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


@pytest.mark.parametrize(
    ("row", "hints", "passes"),
    [
        (1, {}, True),
        (2, None, True),
        (3, {"different_host": []}, True),
        (4, {"different_host": ["A"]}, False),
        (5, {"different_host": ["B"]}, True),
        (6, {"different_host": ["B", "A"]}, False),
        (7, {"different_host": ["a"]}, True),
    ],
)
def test_different_host(row, hints, passes):
    assert ask(DifferentHostFilter, holding("A"), make_request(hints=hints)) is passes


@pytest.mark.parametrize(
    ("row", "hints", "held", "passes"),
    [
        (1, {}, [], True),
        (2, {"same_host": ["A"]}, ["A"], True),
        (3, {"same_host": ["A"]}, [], False),
        (4, {"same_host": ["A", "B"]}, ["A"], True),
        (5, {"same_host": ["A", "B"]}, ["C"], False),
        (6, {"same_host": ["unknown"]}, ["A"], False),
    ],
)
def test_same_host(row, hints, held, passes):
    assert ask(SameHostFilter, holding(*held), make_request(hints=hints)) is passes


@pytest.mark.parametrize(
    ("row", "near", "cidr", "address", "passes"),
    [
        (1, None, "/24", "10.8.1.1", True),
        (2, "10.8.1.100", "/24", "10.8.1.1", True),
        (3, "10.8.1.100", "/32", "10.8.1.1", False),
        (4, "10.8.1.100", None, "10.8.2.1", False),
        (5, "10.8.1.100", None, "10.8.1.7", True),
        (6, "10.8.1.7", "/255.255.255.0", "10.8.1.1", True),
        (7, "192.168.1.1", "24", "192.168.1.5", False),
        (8, "192.168.1.1", "24", "192.168.1.124", True),
        (9, "fd00::99", "/64", "fd00::1", True),
        (10, "10.8.1.1", None, "fd00::1", False),
    ],
)
def test_simple_cidr(row, near, cidr, address, passes):
    assert ask(SimpleCIDRAffinityFilter, make_host("h").ip(address), near_request(near, cidr)) is passes


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


def apart(members, limit=None, policy="anti-affinity", hosts=None):
    rules = {} if limit is None else {"_rules": {"max_server_per_host": str(limit)}}
    return {"uuid": "g", "policy": policy, "policies": [policy], "members": members, "hosts": hosts, **rules}


@pytest.mark.parametrize(
    ("row", "group", "held", "passes"),
    [
        (1, None, ["A"], True),
        (2, apart(["A"], policy="affinity"), ["A"], True),
        (3, apart([]), ["A"], True),
        (4, apart(["A"]), ["A"], False),
        (5, apart(["A"]), ["B"], True),
        (6, apart(["A"], hosts=["h1"]), ["B"], True),
        (7, apart(["A", "X"]), ["A", "X"], True),
        (8, apart(["A"], 2), ["A", "B"], True),
        (9, apart(["A", "B"], 2), ["A", "B"], False),
        (10, apart(["A", "B", "D"], 3), ["A", "B"], True),
        (11, apart(["A"], 0), [], False),
        (12, apart(["A"], policy="soft-anti-affinity"), ["A"], True),
        ("members null", apart(None), ["A"], True),
        ("a member named twice", apart(["A", "A"], 2), ["A"], True),
    ],
)
@pytest.mark.parametrize("rule", [ServerGroupAntiAffinityFilter, GroupAntiAffinityFilter])
def test_anti_affinity(rule, row, group, held, passes):
    assert ask(rule, holding(*held), make_request(group=group)) is passes


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


def together(hosts, policy="affinity", **fields):
    return {"uuid": "g", "policies": [policy], "policy": policy, "members": [], "hosts": hosts, **fields}


@pytest.mark.parametrize(
    ("row", "group", "passes"),
    [
        (1, None, True),
        (2, together(["h2"], "anti-affinity"), True),
        (3, together(["h1"]), True),
        (4, together(["h2"]), False),
        (5, together([]), True),
        (6, together(None), True),
        (7, together(["H1"]), False),
        (8, together(["h2", "h1"]), True),
        (9, together(["h2"], "soft-affinity"), True),
        # nova raises in these two (spec: filters-and-weighers 6 row 10)
        ("10 here", {"policy": "affinity", "hosts": ["h1"]}, True),
        ("10 elsewhere", {"policy": "affinity", "hosts": ["h2"]}, False),
    ],
)
@pytest.mark.parametrize("rule", [ServerGroupAffinityFilter, GroupAffinityFilter])
def test_affinity(rule, row, group, passes):
    assert ask(rule, make_host("h1"), make_request(group=group)) is passes


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
