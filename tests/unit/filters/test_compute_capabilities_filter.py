"""ComputeCapabilitiesFilter (spec: filters-and-weighers 2.4); tests/recorded has more verdicts, of nova."""

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


@pytest.mark.parametrize(
    ("host", "specs", "passes"),
    [
        (stats(num_instances="9").num_instances(3), {P + "num_instances": "<= 5"}, True),
        (stats(uptime=None), {"uptime": "x"}, False),
        (cpu("[1, 2]"), {P + "cpu_info:x": "1"}, False),
        (cpu(ADDRESSES), {P + "cpu_info:maxphysaddr:bits": "1", "hw:maxphysaddr_bits": "42"}, True),
        (stats(host_ip="1").ip(None), {"host_ip": "1"}, True),
        (cpu(None).stats(cpu_info='{"a": "b"}'), {P + "cpu_info:a": "b"}, True),
        (host(), {P + "host": "<in> h"}, True),
        (make_host("h", "n"), {P + "hypervisor_hostname": "n"}, True),
        (stats(a="b"), {P + "stats:a": "b"}, True),
        (stats(opt1={"a": 1, "b": {"aa": 2}}), {P + "opt1:b:aa": "2"}, True),
        (host(cell_uuid="c"), {P + "cell_uuid": "c"}, True),
        (host(), {P + "_row": "<in> H"}, False),
        (host(free_ram_mb=5), {P + "free_ram_mb:x": "1"}, False),
    ],
    ids=[
        *("a counter before stats", "null among stats", "a list", "bits replace an entry"),
        *("null falls through", "null cpu_info falls through", "per host", "node name", "stats themselves"),
        *("deeper in stats", "cell", "private", "inside a number"),
    ],
)
def test_where_values_are_looked_for(host, specs, passes):
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
