"""Which limit of an inventory refuses an amount, and how that is said."""

import pytest

from scheduler.decisions.refusals import Stock, refusals
from scheduler.placement.providers import Inventory


def of(amount, *hosts):
    return list(refusals("VCPU", amount, hosts))


def stock(total=128, used=0, max_unit=128, **more):
    return Stock(Inventory(total, max_unit=max_unit, **more), used)


@pytest.mark.parametrize(
    ("amount", "found", "words"),
    [
        (200, stock(allocation_ratio=4), "VCPU max_unit 128 on 1 host"),
        (2, stock(min_unit=4), "VCPU min_unit 4 on 1 host"),
        (6, stock(step_size=4), "VCPU step_size 4 on 1 host"),
        (
            127,
            stock(reserved=4),
            "VCPU capacity 124 on 1 host: total 128, reserved 4, allocation_ratio 1",
        ),
        (
            100,
            stock(allocation_ratio=0.5),
            "VCPU capacity 64 on 1 host: total 128, reserved 0, allocation_ratio 0.5",
        ),
        (100, stock(used=500, allocation_ratio=4), "at most 12 VCPU free on 1 host"),
        (12, stock(used=500, allocation_ratio=4), "12 VCPU alone would fit on 1 host"),
    ],
    ids=["max_unit", "min_unit", "step_size", "reserved", "allocation_ratio", "used", "none"],
)
def test_the_limit_that_refuses_is_named(amount, found, words):
    assert of(amount, [found]) == [words]


def test_hosts_with_the_same_limit_are_counted_together_most_first():
    hosts = [[stock()], [stock(max_unit=64)], [stock(used=28)], []]
    assert of(120, *hosts, [stock(max_unit=32)]) == [
        "VCPU max_unit 32-64 on 2 hosts",
        "120 VCPU alone would fit on 1 host",
        "at most 100 VCPU free on 1 host",
        "no VCPU on 1 host",
    ]


def test_of_several_providers_of_a_host_the_mildest_refusal_counts():
    assert of(100, [stock(max_unit=32), stock(used=50)]) == ["at most 78 VCPU free on 1 host"]


def test_what_is_no_host_is_not_called_so():
    assert list(refusals("DISK_GB", 10, [[stock(used=120)]], "provider")) == [
        "at most 8 DISK_GB free on 1 provider"
    ]
