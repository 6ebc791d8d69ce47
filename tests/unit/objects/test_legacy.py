import json

import pytest

from scheduler import errors, objects
from tests.support.wire_examples import spec


def read(request_spec=None, filter_properties=None):
    return objects.RequestSpec.from_primitives(None, request_spec or {}, filter_properties or {})


def test_empty_dicts_set_only_what_they_always_mean():
    asked = read()
    assert asked.num_instances == 1
    for name in (
        "image",
        "ignore_hosts",
        "force_hosts",
        "force_nodes",
        "retry",
        "instance_group",
        "requested_resources",
    ):
        assert name in asked, name
        assert getattr(asked, name) is None, name
    for name in (
        "id",
        "security_groups",
        "network_metadata",
        "is_bfv",
        "request_level_params",
        "requested_networks",
        "flavor",
        "numa_topology",
        "pci_requests",
        "instance_uuid",
        "project_id",
        "user_id",
        "availability_zone",
    ):
        assert name not in asked, name
    assert asked.limits.to_dict() == {}
    assert asked.scheduler_hints == {}


def test_instance_properties():
    topology = objects.InstanceNUMATopology(cells=[]).obj_to_primitive()
    pci = objects.InstancePCIRequests(requests=[]).obj_to_primitive()
    asked = read(
        {
            "instance_properties": {
                "uuid": "u",
                "project_id": "p",
                "numa_topology": json.dumps(topology),
                "pci_requests": pci,
                "unknown": 1,
            }
        }
    )
    assert (asked.instance_uuid, asked.project_id, asked.user_id) == ("u", "p", None)
    assert "availability_zone" in asked
    assert list(asked.numa_topology.cells) == []
    assert list(asked.pci_requests.requests) == []


def test_image_and_flavor_as_dicts():
    asked = read(
        {
            "num_instances": 3,
            "image": {"id": "i", "size": None, "properties": {"architecture": "amd64"}},
            "instance_type": {"vcpus": 2, "memory_mb": "512", "extra_specs": {"a": "b"}, "unknown": 1},
        }
    )
    assert asked.num_instances == 3
    assert asked.image.size == 0
    assert asked.image.properties.hw_architecture == "x86_64"
    assert (asked.vcpus, asked.memory_mb) == (2, 512)


def test_image_and_flavor_as_objects():
    image, flavor = objects.ImageMeta(id="i"), objects.Flavor(vcpus=1)
    asked = read({"image": image, "instance_type": flavor})
    assert asked.image is image
    assert asked.flavor is flavor
    assert read({"image": 5}).image is None


@pytest.mark.parametrize(
    ("retry", "found"),
    [
        (None, None),
        ({}, None),
        ({"num_attempts": 2, "hosts": [["h", "n"]]}, {"num_attempts": 2, "hosts": [["h", "n"]]}),
    ],
)
def test_retry(retry, found):
    asked = read({}, {"retry": retry})
    assert (asked.retry and asked.retry.to_dict()) == found


def test_retry_without_hosts_says_nothing():
    assert dict(read({}, {"retry": {"num_attempts": 2}}).retry.set_fields()) == {}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, None),
        ({"group_updated": False, "group_hosts": ["h"]}, None),
        ({"group_updated": "yes", "group_hosts": ["h"]}, None),
        (
            {
                "group_updated": True,
                "group_policies": ["affinity"],
                "group_hosts": ["h"],
                "group_members": ["m"],
            },
            {"policy": "affinity", "hosts": ["h"], "members": ["m"]},
        ),
        (
            {"group_updated": True, "group_policies": ["affinity"], "group_uuid": "g"},
            {"policy": "affinity", "hosts": [], "members": [], "uuid": "g"},
        ),
    ],
)
def test_group(wanted, found):
    group = read({}, wanted).instance_group
    assert (group and dict(group.set_fields())) == found


def test_group_as_object():
    group = objects.InstanceGroup(policy="affinity")
    assert read({}, {"instance_group": group}).instance_group is group


@pytest.mark.parametrize(
    ("hints", "found"), [(None, None), ({}, {}), ({"a": "x", "b": ["y", "z"]}, {"a": ["x"], "b": ["y", "z"]})]
)
def test_hints(hints, found):
    assert read({}, {"scheduler_hints": hints}).scheduler_hints == found


@pytest.mark.parametrize(
    ("request_spec", "filter_properties"),
    [
        ([], {}),
        ("x", {}),
        ({}, 5),
        ({"num_instances": "many"}, {}),
        ({"image": {"min_ram": "much"}}, {}),
        ({"image": {"properties": {"hw_cpu_cores": "many"}}}, {}),
        ({"image": {"properties": 5}}, {}),
        ({"instance_type": {"vcpus": "many"}}, {}),
        ({"instance_properties": []}, {}),
        ({"instance_properties": {"numa_topology": "{"}}, {}),
        ({"instance_properties": {"numa_topology": "{}"}}, {}),
        ({"instance_properties": {"pci_requests": {"a": 1}}}, {}),
        ({"instance_properties": {"pci_requests": 5}}, {}),
        ({}, {"ignore_hosts": 5}),
        ({}, {"retry": 5}),
        ({}, {"retry": {"hosts": 5}}),
        ({}, {"retry": {"num_attempts": 1, "hosts": [["h"]]}}),
        ({}, {"limits": 5}),
        ({}, {"limits": {"vcpu": "x"}}),
        ({}, {"scheduler_hints": "x"}),
        ({}, {"requested_destination": "x"}),
        ({}, {"instance_group": "x"}),
        ({}, {"group_updated": True, "group_hosts": 5}),
    ],
)
def test_nonsense_is_refused(request_spec, filter_properties):
    with pytest.raises(errors.InvalidRequest):
        objects.RequestSpec.from_primitives(None, request_spec, filter_properties)


def test_written_request_spec():
    asked = objects.hydrate(spec("boot_two_instances"))
    legacy = asked.to_legacy_request_spec_dict()
    assert sorted(legacy) == ["image", "instance_properties", "instance_type", "num_instances"]
    assert legacy["instance_type"] is asked.flavor
    assert legacy["image"]["properties"] == {"hw_architecture": "x86_64"}
    assert legacy["instance_properties"] == {
        "numa_topology": None,
        "pci_requests": asked.pci_requests,
        "project_id": asked.project_id,
        "user_id": asked.user_id,
        "availability_zone": None,
        "uuid": asked.instance_uuid,
        "root_gb": 1,
        "ephemeral_gb": 0,
        "memory_mb": 512,
        "vcpus": 1,
    }


def test_written_empty_request():
    asked = objects.RequestSpec()
    assert asked.to_legacy_request_spec_dict() == {
        "num_instances": 1,
        "image": {},
        "instance_properties": {},
        "instance_type": {},
    }
    assert asked.to_legacy_filter_properties_dict() == {}


def test_written_filter_properties():
    wanted = {
        "ignore_hosts": ["a"],
        "force_hosts": [],
        "force_nodes": None,
        "retry": {"num_attempts": 1, "hosts": [["h", "n"]]},
        "limits": {"memory_mb": 5},
        "scheduler_hints": {"a": "x", "b": ["y", "z"]},
        "group_updated": True,
        "group_hosts": ["h"],
        "group_policies": ["affinity"],
        "group_members": ["m"],
        "group_uuid": "g",
    }
    written = read({}, wanted).to_legacy_filter_properties_dict()
    assert written == {name: value for name, value in wanted.items() if value} | {
        "group_hosts": {"h"},
        "group_policies": {"affinity"},
        "group_members": {"m"},
    }


def test_round_trip_through_the_legacy_form():
    asked = objects.hydrate(spec("boot_anti_affinity_numa_pci"))
    again = objects.RequestSpec.from_primitives(
        None, asked.to_legacy_request_spec_dict(), asked.to_legacy_filter_properties_dict()
    )
    for name in (
        "num_instances",
        "instance_uuid",
        "project_id",
        "user_id",
        "scheduler_hints",
        "vcpus",
        "memory_mb",
    ):
        assert getattr(again, name) == getattr(asked, name), name
    assert again.instance_group.policy == "anti-affinity"
    assert again.image.properties.hw_architecture == "x86_64"
    assert len(again.numa_topology) == 2
