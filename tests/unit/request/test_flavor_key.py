import pytest

from scheduler import objects
from scheduler.request.flavor_key import flavor_key
from scheduler.request.scheduling_request import SchedulingRequest
from tests.unit.request.builders import make_flavor, make_spec


def key(flavor=None, **fields):
    spec = make_spec(flavor=make_flavor(**(flavor or {})), **fields)
    return flavor_key(SchedulingRequest.of(spec, ["i1"]))


def test_requests_that_differ_in_what_lists_can_be_cut_by_have_one_key():
    assert key() == key(availability_zone="z", num_instances=3, disk_format="raw")
    assert key() == key({"description": "another one"})
    assert key() is not None
    assert key({"extra_specs": {"a": "1", "b": "2"}}) == key({"extra_specs": {"b": "2", "a": "1"}})
    assert key({"extra_specs": None}) == key({"extra_specs": {}})


@pytest.mark.parametrize(
    ("flavor", "fields"),
    [
        ({"vcpus": 77}, {}),
        ({"memory_mb": 77}, {}),
        ({"root_gb": 77}, {}),
        ({"ephemeral_gb": 77}, {}),
        ({"swap": 77}, {}),
        ({"extra_specs": {"trait:HW_CPU_X86_VMX": "required"}}, {}),
        ({}, {"is_bfv": True}),
    ],
    ids=["vcpus", "memory", "disk", "ephemeral disk", "swap", "extra specs", "volume"],
)
def test_requests_for_different_amounts_have_different_keys(flavor, fields):
    assert key(flavor, **fields) != key()


@pytest.mark.parametrize(
    "fields",
    [
        {"force_hosts": ["h1"]},
        {"force_nodes": ["n1"]},
        {"requested_destination": objects.Destination(host="h1")},
        {"force_hosts": ["h1"], "scheduler_hints": {"_nova_check_type": ["rebuild"]}},
    ],
    ids=["forced host", "forced node", "destination", "rebuild check"],
)
def test_requests_that_ask_for_no_list_have_none(fields):
    assert key(**fields) is None
