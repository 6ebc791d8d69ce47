import pytest

from scheduler import errors, objects
from scheduler.request import resource_request
from scheduler.request.groups import Group
from tests.unit.request.builders import make_flavor, make_group, make_level_params, make_spec

PORT = make_group("port", {"NET_BW_EGR_KILOBIT_PER_SEC": 1}, "CUSTOM_PHYSNET_A")


@pytest.mark.parametrize(
    ("sizes", "is_bfv", "gigabytes"),
    [
        ({"root_gb": 20}, False, 20),
        ({"root_gb": 20}, True, 0),
        ({"root_gb": 1, "ephemeral_gb": 2, "swap": 1}, False, 4),
        ({"root_gb": 0, "swap": 1024}, False, 1),
        ({"root_gb": 0, "swap": 1025}, True, 2),
        ({"root_gb": 0}, False, 0),
    ],
)
def test_disk(sizes, is_bfv, gigabytes):
    assert resource_request.disk_gb(make_flavor(**sizes), is_bfv=is_bfv) == gigabytes


@pytest.mark.parametrize(
    ("spec", "resources"),
    [
        (make_spec(), {"VCPU": 2, "MEMORY_MB": 4096, "DISK_GB": 20}),
        (make_spec({"resources:PCPU": "3"}), {"PCPU": 3, "MEMORY_MB": 4096, "DISK_GB": 20}),
        (make_spec({"resources1:PCPU": "0"}), {"MEMORY_MB": 4096, "DISK_GB": 20}),
        (make_spec({"resources:MEMORY_MB": "0"}), {"VCPU": 2, "MEMORY_MB": 0, "DISK_GB": 20}),
        (make_spec(requested_resources=[make_group("p", {"VCPU": 1})]), {"MEMORY_MB": 4096, "DISK_GB": 20}),
        (make_spec(sizes={"root_gb": 0}), {"VCPU": 2, "MEMORY_MB": 4096}),
    ],
)
def test_defaults_where_nothing_else_asks(spec, resources):
    assert resource_request.make(spec).group().resources == resources


def test_external_group():
    group = make_group(
        "port",
        {"A": 1},
        "T",
        forbidden_traits={"F"},
        aggregates=[["x"]],
        forbidden_aggregates={"y"},
        in_tree="z",
    )
    request = resource_request.make(make_spec(requested_resources=[group]))
    assert request.groups["port"] == Group({"A": 1}, {"T"}, {"F"}, [frozenset({"x"})], {"y"}, "z")


def test_external_groups_of_the_spec_stay_as_they_are():
    spec = make_spec(requested_resources=[make_group("port", {"A": 1, "B": 0})])
    resource_request.make(spec).prune()
    assert spec.requested_resources[0].resources == {"A": 1, "B": 0}


@pytest.mark.parametrize(
    ("specs", "groups", "error"),
    [
        ({}, [make_group(None, {"A": 1})], errors.InvalidRequest),
        ({}, [make_group("", {"A": 1})], errors.InvalidRequest),
        ({}, [make_group("port", {})], errors.InvalidRequest),
        ({}, [make_group("port", {}, in_tree="x")], errors.InvalidRequest),
        ({}, [PORT, PORT], errors.RequestGroupSuffixConflict),
        ({"resources_p:VGPU": "1"}, [make_group("_p", {"A": 1})], errors.RequestGroupSuffixConflict),
    ],
)
def test_external_groups_that_are_refused(specs, groups, error):
    with pytest.raises(error) as caught:
        resource_request.make(make_spec(specs, requested_resources=groups))
    assert type(caught.value) is error


@pytest.mark.parametrize("groups", [None, []])
def test_no_external_groups(groups):
    assert set(resource_request.make(make_spec(requested_resources=groups)).groups) == {""}


def test_level_params():
    params = make_level_params(root_required={"A"}, root_forbidden={"B"}, same_subtree=[["x", "y"]])
    request = resource_request.make(make_spec(request_level_params=params))
    assert request.root_required == {"A"}
    assert request.root_forbidden == {"B"}
    assert request.same_subtree == ({"x", "y"},)


def test_a_request_of_a_flavor_only():
    request = resource_request.make(objects.RequestSpec(flavor=make_flavor(), image=None))
    assert request.group().resources == {"VCPU": 2, "MEMORY_MB": 4096, "DISK_GB": 20}


def test_pinning_is_left_out_of_a_fallback():
    spec = make_spec({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"})
    request = resource_request.make(spec, translate_pinning=False)
    assert request.group() == Group({"VCPU": 2, "MEMORY_MB": 4096, "DISK_GB": 20})
    assert not request.pinned


def test_suffixed_groups_of_the_flavor_are_counted_apart():
    request = resource_request.make(make_spec({"resources1:VGPU": "1"}, requested_resources=[PORT]))
    assert (request.flavor_suffixes, request.count_suffixed()) == (1, 2)


def test_traits_of_all_groups():
    spec = make_spec(
        {"trait:A": "required", "trait1:B": "required", "trait:C": "forbidden"},
        {"traits_required": ["D"]},
        requested_resources=[PORT],
    )
    assert resource_request.make(spec).required_traits() == {"A", "B", "D", "CUSTOM_PHYSNET_A"}
