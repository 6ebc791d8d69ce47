import contextlib

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler import errors, objects
from scheduler.objects.image_props import parse_cpu_list


def props(given_props):
    return objects.ImageMetaProps.from_dict(given_props).to_dict()


@pytest.mark.parametrize(
    ("given_props", "found"),
    [
        ({}, {}),
        ({"unknown": "x", "hw_cpu_cores": None}, {}),
        ({"hw_cpu_cores": "4", "hw_boot_menu": "yes"}, {"hw_cpu_cores": 4, "hw_boot_menu": True}),
        ({"architecture": "AMD64"}, {"hw_architecture": "x86_64"}),
        ({"architecture": "i586", "hw_architecture": "aarch64"}, {"hw_architecture": "aarch64"}),
        ({"hypervisor_type": "XAPI"}, {"img_hv_type": "xen"}),
        ({"vm_mode": "pv"}, {"hw_vm_mode": "xen"}),
        ({"hypervisor_version_requires": ">=2.6"}, {"img_hv_requested_version": ">=2.6"}),
        ({"vmware_adaptertype": "ide"}, {"hw_disk_bus": "ide"}),
        ({"vmware_adaptertype": "lsiLogicsas"}, {"hw_disk_bus": "scsi", "hw_scsi_model": "lsisas1068"}),
        ({"vmware_adaptertype": ""}, {}),
        ({"hw_vif_model": "VirtualE1000"}, {"hw_vif_model": "e1000"}),
        ({"hw_video_model": "invented-later"}, {"hw_video_model": "invented-later"}),
        ({"hw_numa_mem": "1", "hw_numa_cpus": "1", "traits_required": "x"}, {}),
        ({"hw_numa_mem.0": "512", "hw_numa_mem.1": 256, "hw_numa_mem.3": 1}, {"hw_numa_mem": [512, 256]}),
        ({"hw_numa_cpus.0": "0-3,^2", "hw_numa_cpus.1": "4"}, {"hw_numa_cpus": [{0, 1, 3}, {4}]}),
        ({"trait:A": "required", "trait:B": "forbidden"}, {"traits_required": ["A"]}),
    ],
)
def test_from_dict(given_props, found):
    assert props(given_props) == found


@pytest.mark.parametrize(
    "given_props", [{"hw_cpu_cores": "x"}, {"img_hv_requested_version": "x"}, {"hw_numa_cpus.0": "x"}]
)
def test_from_dict_refuses(given_props):
    with pytest.raises(errors.InvalidRequest):
        props(given_props)


def test_get():
    found = objects.ImageMetaProps(hw_cpu_cores=2)
    assert found.get("hw_cpu_cores") == 2
    assert found.get("hw_cpu_threads") is None
    assert found.get("hw_cpu_threads", 7) == 7
    with pytest.raises(AttributeError):
        found.get("no_such_property")


def test_image_from_dict():
    assert objects.ImageMeta.from_dict(None).to_dict() == {"properties": {}}
    image = objects.ImageMeta.from_dict(
        {"id": "i", "name": None, "virtual_size": None, "foo": 1, "properties": None}
    )
    assert image.to_dict() == {"id": "i", "name": "", "virtual_size": 0, "properties": {}}


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", set()),
        ("1", {1}),
        (" 1 , 2", {1, 2}),
        ("1-3,,5", {1, 2, 3, 5}),
        ("^1,1-2", {2}),
        ("1-4,^2-3", {1, 4}),
        (3, {3}),
    ],
)
def test_cpu_list(text, cpus):
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize("text", ["a", "3-1", "-1", "1-", "^", "1-2-3", "0-999999999999", "1.5"])
def test_cpu_list_refuses(text):
    with pytest.raises(objects.InvalidField):
        parse_cpu_list(text)


def test_a_cpu_list_of_many_wide_ranges_costs_each_range_once():
    assert parse_cpu_list("0-65534," * 200_000 + "^3") == set(range(65535)) - {3}


@given(st.sets(st.integers(0, 300)))
def test_cpu_list_of_numbers(cpus):
    assert parse_cpu_list(",".join(map(str, cpus))) == cpus


@given(st.text(alphabet="0123456789-^, a"))
def test_cpu_list_of_anything(text):
    with contextlib.suppress(objects.InvalidField):
        assert all(cpu >= 0 for cpu in parse_cpu_list(text))
