"""ImagePropertiesFilter (spec: filters-and-weighers 2.5)."""

import pytest

from scheduler.filters.image_props_filter import ImagePropertiesFilter
from tests.builders import make_host
from tests.unit.filters.asking import ask, make_request, why

KVM = ("x86_64", "kvm", "hvm")
ALL_OF_IT = {
    "hw_architecture": "x86_64",
    "img_hv_type": "kvm",
    "hw_vm_mode": "hvm",
    "img_hv_requested_version": ">=6.0,<6.2",
}
BITS = {"hw_architecture": "x86_64", "hw_maxphysaddr_bits": 42}


def host(*triples, version=6000000):
    return make_host("h").supports(*triples).hypervisor("QEMU", version)


def wants(architecture=None, hypervisor=None, mode=None, version=None):
    given = {
        "hw_architecture": architecture,
        "img_hv_type": hypervisor,
        "hw_vm_mode": mode,
        "img_hv_requested_version": version,
    }
    return {name: value for name, value in given.items() if value}


# rows 8 and 9: a version that is not known is stored as 0
@pytest.mark.parametrize(
    ("row", "image", "host", "passes"),
    [
        (1, None, host(KVM), True),
        (2, ALL_OF_IT, host(KVM), True),
        (3, {**ALL_OF_IT, "img_hv_requested_version": ">=6.2"}, host(KVM), False),
        (4, wants("armv7l", "qemu", "hvm"), host(KVM), False),
        (5, wants("x86_64", mode="hvm"), host(KVM), True),
        (6, wants("x86_64", mode="hvm"), host(("x86_64", "xen", "xen")), False),
        (7, wants("x86_64", "kvm", "hvm"), host(), False),
        (9, wants("x86_64", version=">=6.0"), host(KVM, version=0), True),
        (10, wants("x86_64", version=">=6.0"), host(KVM, version=5000), False),
        (11, wants(version=">=99"), host(KVM), True),
        (12, {"hw_maxphysaddr_bits": 99}, host(KVM).cpu_info("no JSON"), True),
        (13, wants(mode="pv"), host(("x86_64", "xen", "xen")), True),
        (14, wants(mode="hv"), host(KVM), True),
        (15, wants(mode="baremetal"), host(("i686", "baremetal", "hvm")), True),
        (16, wants("x86_32"), host(("i686", "kvm", "hvm")), True),
        (17, wants(hypervisor="xapi"), host(("i686", "xen", "hvm")), True),
        (18, wants(mode="xen"), host(("x86_64", "xen", "hvm")), True),
        (22, BITS, host(KVM).cpu_info({"maxphysaddr": {"bits": 42}}), True),
        (23, BITS, host(KVM).cpu_info({"maxphysaddr": {"bits": 20}}), False),
        (24, BITS, host(KVM).cpu_info({"vendor": "Intel"}), True),
        # nova ends the request here (spec: filters-and-weighers 6 row 1)
        (25, BITS, host(KVM).cpu_info('{"maxphysaddr": {"bits": 48}}'), True),
        ("bits without JSON", BITS, host(KVM).cpu_info("no JSON"), True),
        ("bits without text", BITS, host(KVM).cpu_info(None), True),
        ("bits in no map", BITS, host(KVM).cpu_info({"maxphysaddr": 20}), True),
        (
            "one combination must have it all",
            wants("aarch64", "kvm"),
            host(KVM, ("aarch64", "qemu", "hvm")),
            False,
        ),
        ("any combination will do", wants("x86_64", "qemu"), host(("x86_64", "qemu", "hvm"), KVM), True),
        ("versions compare as versions", wants("x86_64", version="==7.1"), host(KVM, version=7001000), True),
        ("ten is more than nine", wants("x86_64", version=">6.9"), host(KVM, version=6010000), True),
    ],
)
def test_table(row, image, host, passes):
    assert ask(ImagePropertiesFilter, host, make_request(image=image)) is passes


@pytest.mark.parametrize(
    ("row", "image", "triple", "passes"),
    [
        (19, {}, ("aarch64", "kvm", "hvm"), False),
        (20, None, KVM, True),
        (21, wants("aarch64"), ("aarch64", "kvm", "hvm"), True),
    ],
)
def test_default_architecture(row, image, triple, passes):
    options = {"image_properties_default_architecture": "x86_64"}
    assert ask(ImagePropertiesFilter, host(triple), make_request(image=image), **options) is passes


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
