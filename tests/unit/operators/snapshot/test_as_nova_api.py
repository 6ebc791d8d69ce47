"""What nova-api makes of flavors; tests/recorded compares random ones with nova's own."""

import json

import pytest

from scheduler import errors
from scheduler.errors import InvalidSetting
from scheduler.operators.snapshot.as_nova_api import (
    guest_topology,
    pci_requests,
    read_aliases,
    request_groups,
)
from scheduler.request.flavor_and_image import FlavorAndImage
from tests.unit.request.builders import make_spec

SHARES = {"nodes": "2", "cpus.0": "0", "cpus.1": "1-3", "mem.0": "1024", "mem.1": "3072"}


@pytest.mark.parametrize(
    ("extra_specs", "image"),
    [
        ({"hw:mem_page_size": "small"}, {"hw_mem_page_size": "large"}),
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3"}, None),
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-2", "hw:numa_mem.0": "4096"}, None),
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "4095"}, None),
        ({"hw:cpu_thread_policy": "isolate"}, None),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-3"}, None),
        ({"hw:cpu_policy": "dedicated", "resources:PCPU": "4"}, None),
        ({"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}, None),
        ({"hw:cpu_policy": "dedicated", "hw:cpu_realtime": "yes"}, None),
    ],
    ids=str,
)
def test_a_flavor_that_nova_api_refuses_is_an_invalid_request(extra_specs, image):
    with pytest.raises(errors.InvalidRequest):
        guest_topology(FlavorAndImage(make_spec(extra_specs, image, sizes={"vcpus": 4})))


@pytest.mark.parametrize(
    ("extra_specs", "expected"),
    [
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "1-3"},
            [({0}, {1, 2, 3}, 4096)],
        ),
        (
            {f"hw:numa_{name}": value for name, value in SHARES.items()},
            [({0}, set(), 1024), ({1, 2, 3}, set(), 3072)],
        ),
    ],
    ids=["realtime", "shares"],
)
def test_cpus_and_memory_of_the_cells(extra_specs, expected):
    topology = guest_topology(FlavorAndImage(make_spec(extra_specs, sizes={"vcpus": 4})))
    assert [(cell.cpuset, cell.pcpuset, cell.memory) for cell in topology.cells] == expected


GPU = {"name": "gpu", "vendor_id": "10de", "product_id": "1db4", "device_type": "type-PF"}
VF = {"name": "vf", "resource_class": "qat-vf", "traits": "fast-one,HW_CPU_X86_SSE"}


def aliases(*entries, **options):
    return read_aliases(map(json.dumps, entries), **options)


def requested(extra_specs, known):
    return pci_requests(FlavorAndImage(make_spec(extra_specs)), known)


def test_a_flavor_s_aliases_become_requests():
    (request,) = requested({"pci_passthrough:alias": "gpu:2"}, aliases(GPU)).requests
    assert (request.count, request.alias_name, request.numa_policy) == (2, "gpu", "legacy")
    assert request.spec == [{"vendor_id": "10de", "product_id": "1db4", "dev_type": "type-PF"}]


def test_entries_of_one_name_are_alternatives():
    other = GPU | {"product_id": "1db6"}
    (request,) = requested({"pci_passthrough:alias": "gpu:1"}, aliases(GPU, other)).requests
    assert [spec["product_id"] for spec in request.spec] == ["1db4", "1db6"]


@pytest.mark.parametrize(
    ("word", "flag"), [("yes", "true"), ("True", "true"), ("1", "true"), ("no", "false"), (False, "false")]
)
def test_devices_move_live_by_any_word_for_it(word, flag):
    assert aliases(GPU | {"live_migratable": word})["gpu"].specs[0]["live_migratable"] == flag
    with pytest.raises(InvalidSetting):
        aliases(GPU | {"live_migratable": "perhaps"})


def test_the_policy_of_the_flavor_goes_before_that_of_the_alias():
    known = aliases(GPU | {"numa_policy": "required"})
    policies = [
        requested({"pci_passthrough:alias": "gpu:1", **more}, known).requests[0].numa_policy
        for more in ({}, {"hw:pci_numa_affinity_policy": "socket"})
    ]
    assert policies == ["required", "socket"]


def test_placement_is_asked_for_each_device():
    known = aliases(GPU, VF, in_placement=True)
    requests = requested({"pci_passthrough:alias": "gpu:1,vf:2"}, known)
    ids = [request.request_id for request in requests.requests]
    traits = {"CUSTOM_FAST_ONE", "HW_CPU_X86_SSE"}
    assert [(one.requester_id, one.resources, one.required_traits) for one in request_groups(requests)] == [
        (f"{ids[0]}-0", {"CUSTOM_PCI_10DE_1DB4": 1}, set()),
        (f"{ids[1]}-0", {"CUSTOM_QAT_VF": 1}, traits),
        (f"{ids[1]}-1", {"CUSTOM_QAT_VF": 1}, traits),
    ]


@pytest.mark.parametrize("wanted", ["nic:1", "gpu", "gpu:", "gpu:x", "gpu:1,"])
def test_what_names_no_alias_or_number_is_refused(wanted):
    with pytest.raises(InvalidSetting):
        requested({"pci_passthrough:alias": wanted}, aliases(GPU))


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"name": 1}', '{"name": "a"}'])
def test_an_alias_that_cannot_be_read_is_refused(text):
    with pytest.raises(InvalidSetting, match=r"\[pci\]/alias"):
        read_aliases([text])


@pytest.mark.parametrize(
    ("entries", "in_placement"),
    [
        ([GPU, GPU | {"device_type": "type-VF"}], False),
        ([GPU, GPU | {"numa_policy": "required"}], False),
        ([VF], False),
        ([GPU, GPU], True),
    ],
    ids=["two types", "two policies", "no product", "two entries"],
)
def test_entries_that_nova_api_refuses_are_refused(entries, in_placement):
    with pytest.raises(InvalidSetting):
        aliases(*entries, in_placement=in_placement)
