import pytest

from scheduler import errors, objects
from scheduler.request import resource_request
from scheduler.request.groups import Group
from tests.unit.request.builders import make_flavor, make_group, make_spec

PORT = make_group("port", {"NET_BW_EGR_KILOBIT_PER_SEC": 1}, "CUSTOM_PHYSNET_A")


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


def test_a_request_of_a_flavor_only():
    request = resource_request.make(objects.RequestSpec(flavor=make_flavor(), image=None))
    assert request.group().resources == {"VCPU": 2, "MEMORY_MB": 4096, "DISK_GB": 20}


def test_pinning_is_left_out_of_a_fallback():
    spec = make_spec({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"})
    request = resource_request.make(spec, translate_pinning=False)
    assert request.group() == Group({"VCPU": 2, "MEMORY_MB": 4096, "DISK_GB": 20})
    assert not request.pinned
