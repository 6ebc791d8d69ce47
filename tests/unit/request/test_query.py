from urllib.parse import parse_qsl

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler import errors, objects
from scheduler.request import query
from scheduler.request.groups import Group, ResourceRequest
from scheduler.request.targets import Targets
from tests.unit.request.builders import AGG_A, AGG_C, NODE, make_conf, make_flavor, make_group, make_spec

PORTS = [make_group("port1", {"A": 1}), make_group("port2", {"A": 1})]


def built(spec, conf=None, targets=query.ANY_HOST):
    return query.build(spec, conf or make_conf(), targets)


def params(spec, **kwargs):
    return dict(built(spec, **kwargs)[0].params)


@pytest.mark.parametrize(
    ("hints", "targets", "limit"),
    [
        ({}, Targets(), "7"),
        (None, Targets(), "7"),
        ({"query": ["x"]}, Targets(), "7"),
        ({"group": []}, Targets(), None),
        ({}, Targets(NODE), "7"),
        ({"same_host": ["x"]}, Targets(NODE), None),
        ({}, Targets(limited=False), None),
    ],
)
def test_limit(hints, targets, limit):
    (only,) = built(make_spec(scheduler_hints=hints), make_conf(limit=7), targets)
    assert dict(only.params).get("limit") == limit
    assert only.limit == (limit and int(limit))


def test_the_hosts_of_a_partition_are_in_one_of_its_aggregates_besides_all_else():
    spec = make_spec(
        {"hw:cpu_policy": "dedicated"}, requested_destination=objects.Destination(aggregates=[AGG_A])
    )
    for one in built(spec, targets=Targets(aggregates=frozenset({AGG_C, AGG_A}))):
        assert [value for name, value in one.params if name == "member_of"] == [
            f"in:{AGG_A}",
            f"in:{AGG_A},{AGG_C}",
        ]


@pytest.mark.parametrize(
    ("specs", "targets"),
    [
        ({}, Targets(NODE, aggregates=frozenset({AGG_A}))),
        (
            {"resources1:VCPU": "1", "resources1:MEMORY_MB": "1", "resources1:DISK_GB": "1"},
            Targets(aggregates=frozenset({AGG_A})),
        ),
    ],
    ids=["a named host decides alone", "Placement refuses a group without resources"],
)
def test_the_aggregates_of_a_partition_are_left_out(specs, targets):
    assert "member_of" not in params(make_spec(specs), targets=targets)


def test_null_image_hints_and_groups():
    spec = objects.RequestSpec(
        flavor=make_flavor(), image=None, scheduler_hints=None, requested_resources=None, is_bfv=False
    )
    assert built(spec) == built(make_spec())


def test_building_twice_gives_the_same():
    spec = make_spec({"resources1:VGPU": "1"}, requested_resources=PORTS)
    assert built(spec) == built(spec)


def test_contradictions_leave_as_they_are():
    with pytest.raises(errors.ImageCPUPinningForbidden):
        built(make_spec({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}))


SUFFIXES = st.text("aZ09_-", max_size=5)
NAMES = st.text("AZ_", min_size=1, max_size=5)
GROUPS = st.builds(
    Group,
    resources=st.dictionaries(NAMES, st.integers(1, 9)),
    required=st.sets(NAMES),
    forbidden=st.sets(NAMES),
    member_of=st.lists(st.sets(NAMES, min_size=1), max_size=3),
    not_member_of=st.sets(NAMES),
    in_tree=st.none() | NAMES,
)
REQUESTS = st.builds(
    ResourceRequest,
    groups=st.dictionaries(SUFFIXES, GROUPS, max_size=3),
    group_policy=st.sampled_from([None, "none", "isolate"]),
    root_required=st.sets(NAMES),
    same_subtree=st.lists(st.sets(SUFFIXES, min_size=1), max_size=2),
)


@given(REQUESTS, st.none() | st.integers(1, 9999))
def test_the_text_says_what_the_parameters_say(request, limit):
    encoded = query.encode(request, limit)
    assert parse_qsl(encoded.querystring, keep_blank_values=True) == list(encoded.params)
    assert list(encoded.params) == sorted(encoded.params)


@given(REQUESTS, st.none() | st.integers(1, 9999))
def test_without_its_limit_a_query_is_the_same_otherwise(request, limit):
    assert query.without_limit(query.encode(request, limit)) == query.encode(request, None)


@given(REQUESTS)
def test_the_text_does_not_depend_on_the_order_of_groups(request):
    turned = ResourceRequest(
        groups=dict(reversed(request.groups.items())),
        group_policy=request.group_policy,
        root_required=request.root_required,
        same_subtree=list(reversed(request.same_subtree)),
    )
    assert query.encode(turned, 1) == query.encode(request, 1)
