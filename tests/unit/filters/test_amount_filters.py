"""RamFilter, CoreFilter, DiskFilter and their variants (spec: filters-and-weighers 2.21)."""

import pytest

from scheduler.filters.amount_filters import (
    AggregateCoreFilter,
    AggregateDiskFilter,
    AggregateRamFilter,
    CoreFilter,
    DiskFilter,
    ExactCoreFilter,
    ExactDiskFilter,
    ExactRamFilter,
    RamFilter,
)
from tests.builders import make_host, make_view
from tests.unit.filters.asking import host_in, make_conf, make_request, verdicts, why


def verdict_and_limits(rule, host, request):
    view = make_view([host])
    return verdicts(rule(make_conf()), view, request)[0], view.limits(0)


@pytest.mark.parametrize(
    ("row", "total", "free", "ratio", "wanted", "limit", "passes"),
    [
        (1, 1024, 1023, 1.0, 1024, None, False),
        (2, 1024, 1024, 1.0, 1024, 1024.0, True),
        (3, 1024, -1024, 2.0, 1024, None, False),
        (4, 1024, 0, 2.0, 1024, 2048.0, True),
        (5, 512, 512, 2.0, 1024, None, False),
        (6, 8192, 4096, 1.0, 8192, None, False),
        (7, 8192, 4096, 1.5, 8192, 12288.0, True),
        (8, 1000, 500, 1.3, 700, 1300.0, True),
    ],
)
@pytest.mark.parametrize("rule", [RamFilter, AggregateRamFilter])
def test_ram(rule, row, total, free, ratio, wanted, limit, passes):
    host = make_host("h").ram(free, total).ratios(ram=ratio)
    request = make_request(sizes={"memory_mb": wanted})
    limits = {} if limit is None else {"memory_mb": limit}
    assert verdict_and_limits(rule, host, request) == (passes, limits)


@pytest.mark.parametrize(
    ("row", "total", "used", "ratio", "wanted", "limit", "passes"),
    [
        (1, 4, 7, 2.0, 1, 8.0, True),
        (2, 4, 8, 2.0, 1, 8.0, False),
        (3, 0, 0, 16.0, 1, None, True),
        (4, 1, 0, 2.0, 2, 2.0, False),
        (5, 1, 1, 2.0, 1, 2.0, True),
        (6, 4, 4, 1.0, 1, 4.0, False),
        (7, 8, 100, 16.0, 8, 128.0, True),
        ("no ratio", 4, 0, 0.0, 1, None, False),
    ],
)
@pytest.mark.parametrize("rule", [CoreFilter, AggregateCoreFilter])
def test_cores(rule, row, total, used, ratio, wanted, limit, passes):
    host = make_host("h").vcpus(total, used, ratio)
    request = make_request(sizes={"vcpus": wanted})
    limits = {} if limit is None else {"vcpu": limit}
    assert verdict_and_limits(rule, host, request) == (passes, limits)


@pytest.mark.parametrize(
    ("row", "total_gb", "free", "ratio", "sizes", "limit", "passes"),
    [
        (1, 13, 11264, 1.0, (1, 1, 512), 13.0, True),
        (2, 13, 2048, 1.0, (1, 1, 512), None, False),
        (3, 12, 0, 10.0, (100, 18, 19456), None, False),
        (4, 20, 0, 2.0, (5, 0, 0), 40.0, True),
        (5, 20, -20480, 2.0, (5, 0, 0), None, False),
        (6, 10, 10240, 1.0, (10, 0, 0), 10.0, True),
    ],
)
@pytest.mark.parametrize("rule", [DiskFilter, AggregateDiskFilter])
def test_disk(rule, row, total_gb, free, ratio, sizes, limit, passes):
    host = make_host("h").disk(free, total_gb).ratios(disk=ratio)
    request = make_request(sizes=dict(zip(("root_gb", "ephemeral_gb", "swap"), sizes, strict=True)))
    limits = {} if limit is None else {"disk_gb": limit}
    assert verdict_and_limits(rule, host, request) == (passes, limits)


@pytest.mark.parametrize(
    ("values", "limit"),
    [([], 1024.0), (["2.0"], 2048.0), (["4", "3"], 3072.0), (["4", "many"], 1024.0), (["nan"], 1024.0)],
)
def test_ratios_of_aggregates(values, limit):
    host = host_in(*({"ram_allocation_ratio": value} for value in values)).ram(1024, 1024)
    request = make_request(sizes={"memory_mb": 1})
    assert verdict_and_limits(AggregateRamFilter, host, request) == (True, {"memory_mb": limit})
    assert verdict_and_limits(RamFilter, host, request) == (True, {"memory_mb": 1024.0})


@pytest.mark.parametrize(
    ("rule", "host", "sizes", "limits", "passes"),
    [
        (ExactRamFilter, make_host("h").ram(512, 1024), {"memory_mb": 512}, {"memory_mb": 1024}, True),
        (ExactRamFilter, make_host("h").ram(512, 1024), {"memory_mb": 511}, {}, False),
        (ExactDiskFilter, make_host("h").disk(2048, 5), {"root_gb": 2}, {"disk_gb": 5}, True),
        (ExactDiskFilter, make_host("h").disk(2048, 5), {"root_gb": 1, "swap": 5}, {}, False),
        (ExactCoreFilter, make_host("h").vcpus(4, 1), {"vcpus": 3}, {"vcpu": 4}, True),
        (ExactCoreFilter, make_host("h").vcpus(4, 1), {"vcpus": 2}, {}, False),
        (ExactCoreFilter, make_host("h").vcpus(0, -1), {"vcpus": 1}, {}, False),
    ],
)
def test_exact(rule, host, sizes, limits, passes):
    assert verdict_and_limits(rule, host, make_request(sizes=sizes)) == (passes, limits)


@pytest.mark.parametrize(
    ("rule", "host", "sizes", "reason"),
    [
        (RamFilter, make_host("h").ram(4096, 8192), {"memory_mb": 8192}, "requested 8192 MB, usable 4096 MB"),
        (
            RamFilter,
            make_host("h").ram(512),
            {"memory_mb": 1024},
            "requested 1024 MB, host has 512 MB in all",
        ),
        (
            AggregateRamFilter,
            host_in({"ram_allocation_ratio": "0.75"}).ram(1000, 1000),
            {"memory_mb": 800},
            "requested 800 MB, usable 750 MB",
        ),
        (CoreFilter, make_host("h").vcpus(4, 7, 2.0), {"vcpus": 2}, "requested 2 vCPUs, free 1 of 8"),
        (DiskFilter, make_host("h").disk(100, 10), {"root_gb": 1}, "requested 1024 MB, usable 100 MB"),
        (DiskFilter, make_host("h").disk(100, 0), {"root_gb": 1}, "requested 1024 MB, host has 0 MB in all"),
        (ExactRamFilter, make_host("h").ram(5), {"memory_mb": 4}, "requested 4 MB, free 5 MB"),
        (ExactDiskFilter, make_host("h").disk(5), {"root_gb": 1}, "requested 1024 MB, free 5 MB"),
        (ExactCoreFilter, make_host("h").vcpus(5), {"vcpus": 1}, "requested 1 vCPUs, free 5"),
    ],
)
def test_reasons(rule, host, sizes, reason):
    assert why(rule, host, make_request(sizes=sizes)) == reason
