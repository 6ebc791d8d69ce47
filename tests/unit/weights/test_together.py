import pytest

from scheduler.weights import builtin
from tests.builders import make_host
from tests.unit.weights.weighing import totals


def test_all_weighers_with_their_defaults():
    """spec: filters-and-weighers 3.13"""
    hosts = [
        make_host("h1").ram(8192).disk(102400).vcpus(8, 2, 4.0).hypervisor("QEMU", 7000000),
        make_host("h2").ram(16384).disk(51200).vcpus(8, 10, 4.0).io_ops(1).hypervisor("QEMU", 8000000),
        make_host("h3")
        .ram(4096)
        .disk(204800)
        .vcpus(8, 0, 4.0)
        .io_ops(4)
        .hypervisor("QEMU", 8000000)
        .failed_builds(1),
    ]
    found = totals(builtin.ALL, hosts)
    assert found == {"h1": 1.9375, "h2": 2.6875, "h3": pytest.approx(-999997.75)}
