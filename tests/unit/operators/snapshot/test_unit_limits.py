import numpy as np
import pytest

from scheduler.operators.snapshot import unit_limits
from scheduler.operators.snapshot.unit_limits import learn_unit_limits
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.plain_query import CLASSES
from tests.builders import make_host, make_table, uuid_of
from tests.support.fake_placement import FakePlacement, FakeProvider

VCPU = CLASSES.index("VCPU")


def made(*hosts):
    """Return the mirror, Placement and the table of hosts: name, CPUs, overcommit of them, max_unit."""
    providers = [
        FakeProvider(
            uuid_of(name),
            inventories={"VCPU": {"total": cpus, "allocation_ratio": ratio, "max_unit": most}},
        )
        for name, cpus, ratio, most in hosts
    ]
    placement = FakePlacement(*providers)
    mirror = CandidateMirror(placement, lambda: 0.0)
    mirror.read()
    return mirror.known, placement, make_table([make_host(name).vcpus(cpus, 0) for name, cpus, *_ in hosts])


def limits(mirror, *names):
    nodes = mirror.nodes()
    return nodes.max_unit[VCPU][nodes.rows([uuid_of(name) for name in names])].tolist()


def test_the_limits_of_each_of_few_nodes_are_read():
    mirror, placement, table = made(("h1", 8, 1.0, 4), ("h2", 8, 1.0, 8))
    learn_unit_limits(mirror, placement, table)
    assert limits(mirror, "h1", "h2") == [4, 8]


@pytest.fixture
def few_are_read(monkeypatch):
    monkeypatch.setattr(unit_limits, "MOST_READ", 2)


def test_of_many_nodes_one_of_each_kind_of_hardware_is_read(few_are_read):
    hosts = [(f"h{number}", 8, 2.0, 8) for number in range(4)]
    # of the same capacity, with other hardware
    mirror, placement, table = made(*hosts, ("big", 16, 1.0, 16))
    placement.asked.clear()
    learn_unit_limits(mirror, placement, table)
    assert len(placement.asked) == 2
    assert limits(mirror, "h0", "h1", "h2", "h3", "big") == [8, 8, 8, 8, 16]


def test_amounts_stay_as_they_are():
    mirror, placement, table = made(("h1", 8, 1.0, 4))
    before = mirror.nodes()
    placement.providers[uuid_of("h1")].change(used={"VCPU": 2})
    learn_unit_limits(mirror, placement, table)
    assert np.array_equal(mirror.nodes().used, before.used)


def test_no_node_is_asked_for_again():
    mirror, placement, table = made(("h1", 8, 1.0, 4))
    learn_unit_limits(mirror, placement, table)
    placement.asked.clear()
    learn_unit_limits(mirror, placement, table)
    assert placement.asked == []
