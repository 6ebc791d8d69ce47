from types import SimpleNamespace

import pytest

from scheduler.weights.amounts import PCIWeigher, free_devices
from tests.builders import make_host
from tests.unit.weights.weighing import totals


def pools(*counts):
    return SimpleNamespace(free_devices=sum(counts))


# spec: filters-and-weighers 3.6
@pytest.mark.parametrize(
    ("free", "expected"),
    [
        ([pools(4), None, pools(150)], [95 / 99, 1.0, 0]),
        ([pools(5), pools(6, 4), pools(4)], [5 / 6, 0, 1.0]),
        ([pools(500), pools(2000)], [0, 0]),
    ],
)
def test_hosts_with_fewer_free_devices_come_first(free, expected):
    hosts = [make_host(f"h{number}").pci(pool) for number, pool in enumerate(free, 1)]
    assert list(totals([PCIWeigher], hosts).values()) == pytest.approx(expected)


def test_no_devices_where_pools_are_unknown():
    assert free_devices(None) == 0
