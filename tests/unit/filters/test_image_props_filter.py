"""ImagePropertiesFilter (spec: filters-and-weighers 2.5); tests/recorded has more verdicts, of nova."""

import pytest

from scheduler.filters.image_props_filter import ImagePropertiesFilter
from tests.builders import make_host
from tests.unit.filters.asking import ask, make_request, why

KVM = ("x86_64", "kvm", "hvm")
BITS = {"hw_architecture": "x86_64", "hw_maxphysaddr_bits": 42}


def host(*triples, version=6000000):
    return make_host("h").supports(*triples).hypervisor("QEMU", version)


def wants(architecture, mode=None, version=None):
    given = {
        "hw_architecture": architecture,
        "hw_vm_mode": mode,
        "img_hv_requested_version": version,
    }
    return {name: value for name, value in given.items() if value}


@pytest.mark.parametrize(
    ("info", "passes"),
    [
        ({"maxphysaddr": {"bits": 42}}, True),
        ({"maxphysaddr": {"bits": 20}}, False),
        ({"vendor": "Intel"}, True),
        # nova ends the request here (spec: filters-and-weighers 6 row 1)
        ('{"maxphysaddr": {"bits": 48}}', True),
        ("no JSON", True),
        (None, True),
        ({"maxphysaddr": 20}, True),
    ],
)
def test_bits_of_addresses(info, passes):
    assert ask(ImagePropertiesFilter, host(KVM).cpu_info(info), make_request(image=BITS)) is passes


def test_bits_of_addresses_alone_are_not_compared():
    request = make_request(image={"hw_maxphysaddr_bits": 99})
    assert ask(ImagePropertiesFilter, host(KVM).cpu_info("no JSON"), request)


@pytest.mark.parametrize(
    ("image", "host", "reason"),
    [
        (
            wants("armv7l", mode="hvm"),
            host(KVM),
            "image wants armv7l/any/hvm, host supports ['x86_64/kvm/hvm']",
        ),
        (wants("x86_64"), host(), "host advertises no supported instances"),
        (wants("x86_64", version=">=9"), host(KVM), "hypervisor version 6.0.0 does not satisfy >=9"),
        (BITS, host(KVM).cpu_info({"maxphysaddr": {"bits": 20}}), "maxphysaddr bits 20 below 42"),
    ],
)
def test_reasons(image, host, reason):
    assert why(ImagePropertiesFilter, host, make_request(image=image)) == reason


def test_runs_for_rebuilds():
    assert ImagePropertiesFilter.RUN_ON_REBUILD
