"""ComputeCapabilitiesFilter (spec: filters-and-weighers 2.4)."""

import json

import pytest

from scheduler.filters.compute_capabilities_filter import ComputeCapabilitiesFilter
from tests.builders import make_host
from tests.unit.filters.asking import ask, ask_all, make_conf, make_request, why

INTEL = {
    "vendor": "Intel",
    "model": "Nehalem",
    "arch": "x86_64",
    "features": ["rdtscp", "vmx", "aes"],
    "topology": {"cores": 1, "threads": 1, "sockets": 1},
}
ADDRESSES = {"maxphysaddr": {"mode": "emulate", "bits": 42}}
OPTS = {"opt1": "1", "opt2": "2"}
P = "capabilities:"


def cpu(info):
    return make_host("h").cpu_info(info)


def stats(**data):
    return make_host("h").stats(data)


def host(**columns):
    return make_host("h").set(**columns)


# row 31 is about an attribute that hosts do not have here, row 32 about no host at all
@pytest.mark.parametrize(
    ("row", "host", "specs", "passes"),
    [
        (1, host(), None, True),
        (2, cpu(INTEL), {P + "cpu_info:vendor": "Intel"}, True),
        (3, cpu(INTEL), {P + "cpu_info:features": "<in> rdtscp"}, True),
        (4, cpu(INTEL), {P + "cpu_info:topology:cores": ">= 2"}, False),
        (5, cpu("{}"), {P + "cpu_info:vendor": "Intel"}, False),
        (6, cpu("cpu_info"), {P + "cpu_info:vendor": "Intel"}, False),
        (7, cpu("X text"), {"cpu_info": "X text"}, True),
        (8, cpu("X text"), {"cpu_info": ""}, False),
        (9, stats(**OPTS), {"opt1": "1", "opt2": "2"}, True),
        (10, stats(**OPTS), {"opt1": "1", "opt2": "222"}, False),
        (11, stats(**OPTS), {"wrong_scope:opt1": "9"}, True),
        (12, stats(opt1={"a": 1, "b": {"aa": 2}}), {P + "opt1:b:aa": "2"}, True),
        (13, host(), {"XXYY": "1"}, True),
        (14, host(), {P + "XXYY": "1"}, False),
        (15, host(free_ram_mb=1024), {"free_ram_mb": ">= 300"}, True),
        (16, host(free_ram_mb=1024), {"free_ram_mb": "<= 300"}, False),
        (17, host(vcpus_used=0), {P + "vcpus_used": "= 0"}, True),
        (18, host(free_disk_mb=0), {"free_disk_mb": "0"}, True),
        (19, host(hypervisor_type="QEMU"), {P + "hypervisor_type": "s== qemu"}, False),
        (21, stats(num_instances="9").num_instances(3), {P + "num_instances": "<= 5"}, True),
        (22, host(host_ip=None), {"host_ip": "1"}, False),
        (23, stats(uptime=None), {"uptime": "x"}, False),
        (24, cpu('{"a": true}'), {P + "cpu_info:a": "true"}, False),
        (25, cpu('{"a": true}'), {P + "cpu_info:a": "True"}, True),
        (26, cpu("[1, 2]"), {P + "cpu_info:x": "1"}, False),
        (27, cpu(ADDRESSES), {"hw:maxphysaddr_bits": "42"}, True),
        (28, cpu({"maxphysaddr": {"bits": 20}}), {"hw:maxphysaddr_bits": "42"}, False),
        (29, cpu("{ }"), {"hw:maxphysaddr_bits": "42"}, False),
        (30, host(), {"hw:cpu_policy": "x", "trait:FOO": "x", "resources:VCPU": "1", "quota:x": "1"}, True),
        ("rest is empty", host(), {P: "1"}, False),
        ("a method", host(), {"update": "1"}, False),
        ("a map that is no dict", host(), {P + "service:disabled": "False"}, False),
        (
            "bits replace an entry",
            cpu(ADDRESSES),
            {P + "cpu_info:maxphysaddr:bits": "1", "hw:maxphysaddr_bits": "42"},
            True,
        ),
        ("null falls through", stats(host_ip="1").ip(None), {"host_ip": "1"}, True),
        (
            "null cpu_info falls through",
            cpu(None).stats(cpu_info='{"a": "b"}'),
            {P + "cpu_info:a": "b"},
            True,
        ),
        ("fractions", host(cpu_allocation_ratio=16.0), {P + "cpu_allocation_ratio": "16.0"}, True),
        ("per host", host(), {P + "host": "<in> h"}, True),
        ("node name", make_host("h", "n"), {P + "hypervisor_hostname": "n"}, True),
        ("an address", host(host_ip="10.0.0.1"), {P + "host_ip": "s== 10.0.0.1"}, True),
        ("stats themselves", stats(a="b"), {P + "stats:a": "b"}, True),
        ("cell", host(cell_uuid="c"), {P + "cell_uuid": "c"}, True),
        ("private", host(), {P + "_row": "<in> H"}, False),
        ("inside a number", host(free_ram_mb=5), {P + "free_ram_mb:x": "1"}, False),
    ],
)
def test_table(row, host, specs, passes):
    assert ask(ComputeCapabilitiesFilter, host, make_request(specs)) is passes


@pytest.mark.parametrize("specs", [{P + "hypervisor_type": ">= 5"}, {P + "vcpus_total": ">= many"}])
def test_row_20_numbers_are_wanted_and_there_are_none(specs):
    with pytest.raises(ValueError, match="could not convert"):
        ask(ComputeCapabilitiesFilter, host(hypervisor_type="QEMU"), make_request(specs))


def test_a_host_that_another_test_rejected_cannot_raise():
    hosts = [stats(a="1", n="x"), stats(a="2", n="5")]
    request = make_request({"a": "2", "n": ">= 5"})
    assert ask_all(ComputeCapabilitiesFilter(make_conf()), hosts, request) == [False, True]


def test_bare_keys_concern_only_hosts_that_have_them():
    hosts = [stats(rack="a"), stats(rack="b"), stats(), host()]
    request = make_request({"rack": "a"})
    assert ask_all(ComputeCapabilitiesFilter(make_conf()), hosts, request) == [True, False, True, True]


def test_values_that_compare_equal_are_told_apart():
    hosts = [stats(flag=True), stats(flag=1), stats(flag="1"), stats(flag=1.0)]
    request = make_request({"flag": "1"})
    assert ask_all(ComputeCapabilitiesFilter(make_conf()), hosts, request) == [False, True, True, False]


def test_the_flavor_is_left_as_it_is():
    request = make_request({"hw:maxphysaddr_bits": "42"})
    ask(ComputeCapabilitiesFilter, cpu(ADDRESSES), request)
    assert request.extra_specs == {"hw:maxphysaddr_bits": "42"}


@pytest.mark.parametrize(
    ("host", "specs", "reason"),
    [
        (host(), {P + "XXYY": "1"}, "XXYY: no such capability"),
        (
            cpu(INTEL),
            {P + "cpu_info:vendor": "s== AMD"},
            "cpu_info:vendor: 'Intel' does not satisfy 's== AMD'",
        ),
        (stats(a="1", b="2"), {"a": "1", "b": "3", "c": "4"}, "b: '2' does not satisfy '3'"),
    ],
)
def test_reasons(host, specs, reason):
    assert why(ComputeCapabilitiesFilter, host, make_request(specs)) == reason


def test_a_text_among_stats_is_parsed_on_the_way():
    described = stats(gpu=json.dumps({"model": "T4"}))
    assert ask(ComputeCapabilitiesFilter, described, make_request({P + "gpu:model": "T4"}))
