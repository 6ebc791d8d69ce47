"""Weighers of one number each: RAM, CPU, disk, I/O operations, instances, version, build failures."""

import pytest

from scheduler.weights.amounts import (
    CPUWeigher,
    DiskWeigher,
    HypervisorVersionWeigher,
    IoOpsWeigher,
    NumInstancesWeigher,
    RAMWeigher,
)
from scheduler.weights.build_failure import BuildFailureWeigher
from tests.builders import make_host
from tests.unit.weights.weighing import totals


def hosts(set_amount, amounts):
    return [set_amount(make_host(f"h{number}"), amount) for number, amount in enumerate(amounts, 1)]


def ram(host, amount):
    return host.ram(amount)


def disk(host, amount):
    return host.disk(amount)


def cpu(host, amount):
    total, used, ratio = amount
    return host.vcpus(total, used, ratio)


def io_ops(host, amount):
    return host.io_ops(amount)


def instances(host, amount):
    return host.num_instances(amount)


def version(host, amount):
    return host.hypervisor("QEMU", amount)


def failures(host, amount):
    return host.failed_builds(amount)


# spec: filters-and-weighers 3.1-3.3, 3.5, 3.8, 3.10, 3.11: weigher, amounts of h1, h2 ..., options, totals
CASES = [
    (RAMWeigher, ram, [2048, 6144, 8192], {}, [0.25, 0.75, 1.0]),
    (RAMWeigher, ram, [-512, 4096, 8192], {}, [0, 0.5, 1.0]),
    (RAMWeigher, ram, [2048, 6144, 8192], {"ram_weight_multiplier": -1.0}, [-0.25, -0.75, -1.0]),
    (RAMWeigher, ram, [5, 5], {}, [1.0, 1.0]),
    (RAMWeigher, ram, [0, -3], {}, [0, 0]),
    (CPUWeigher, cpu, [(8, 4, 4.0), (16, 16, 1.0), (8, 18, 4.0)], {}, [1.0, 0, 0.5]),
    (
        CPUWeigher,
        cpu,
        [(8, 8, 1.0), (4, 2, 1.0), (6, 0, 1.0), (8, 0, 2.0), (4, 6, 1.0)],
        {},
        [0, 0.125, 0.375, 1.0, 0],
    ),
    (DiskWeigher, disk, [102400, 51200, 204800], {}, [0.5, 0.25, 1.0]),
    (IoOpsWeigher, io_ops, [0, 2, 8], {}, [0, -0.25, -1.0]),
    (IoOpsWeigher, io_ops, [5, 5, 5], {}, [-1.0, -1.0, -1.0]),
    (IoOpsWeigher, io_ops, [1, 2, 0, 4], {"io_ops_weight_multiplier": 2.0}, [0.5, 1.0, 0, 2.0]),
    (BuildFailureWeigher, failures, [0, 3, 10], {}, [0, -300000, -1000000]),
    (BuildFailureWeigher, failures, [4, 4, 4], {}, [0, 0, 0]),
    (
        BuildFailureWeigher,
        failures,
        [0, 1, 10, 100],
        {"build_failure_weight_multiplier": 1000.0},
        [0, -10, -100, -1000],
    ),
    (BuildFailureWeigher, failures, [0, 1], {}, [0, -1000000]),
    (HypervisorVersionWeigher, version, [7000000, 8000000, 9000000], {}, [0, 0.5, 1.0]),
    (HypervisorVersionWeigher, version, [7001000, 8000000, 0], {}, [0.875125, 1.0, 0]),
    (NumInstancesWeigher, instances, [2, 5, 10], {}, [0, 0, 0]),
    (NumInstancesWeigher, instances, [2, 5, 10], {"num_instances_weight_multiplier": -2.0}, [0, -0.75, -2.0]),
    (NumInstancesWeigher, instances, [2, 5, 10], {"num_instances_weight_multiplier": 2.0}, [0, 0.75, 2.0]),
]


@pytest.mark.parametrize(("weigher", "set_amount", "amounts", "options", "expected"), CASES)
def test_totals(weigher, set_amount, amounts, options, expected):
    found = totals([weigher], hosts(set_amount, amounts), **options)
    assert list(found.values()) == pytest.approx(expected)


def test_ram_multiplier_by_aggregate():
    h1, h2, h3 = hosts(ram, [2048, 6144, 8192])
    h2.aggregate("a", ram_weight_multiplier="3").aggregate("b", ram_weight_multiplier="2")
    h3.aggregate("c", ram_weight_multiplier="0.25")
    assert totals([RAMWeigher], [h1, h2, h3]) == {"h1": 0.25, "h2": 1.5, "h3": 0.25}


def test_build_failure_multiplier_is_negated_after_the_smallest_was_taken():
    h1, h2, h3 = hosts(failures, [0, 3, 10])
    h2.aggregate("a", build_failure_weight_multiplier="5").aggregate("b", build_failure_weight_multiplier="9")
    found = totals([BuildFailureWeigher], [h1, h2, h3])
    assert found == {"h1": 0, "h2": pytest.approx(-1.5), "h3": -1000000}
