"""What pending placements take of NUMA cells and PCI devices, as views of other requests see it."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter
from scheduler.numa.usage import InstanceDemand, consume_instance
from scheduler.pci.pools import from_flat
from scheduler.pci.requests import make_request
from tests.builders import make_host, make_table, uuid_of
from tests.unit.hosts.test_pending import AMOUNTS_OF_ONE, ONE
from tests.unit.numa.shapes import guest, host, host_cell, pinned

GPU = InstanceDemand(requests=(make_request(1, [{"vendor_id": "10de"}], alias_name="gpu"),))
PINNED = InstanceDemand(guest(pinned(vcpus=2)))


def gpus(count):
    pool = {"vendor_id": "10de", "product_id": "1", "numa_node": 0, "count": count}
    return from_flat([pool] if count else [])


def two(*devices):
    return make_table(
        [
            make_host(f"h{number}").pci(gpus(count)).numa(host(host_cell(0)))
            for number, count in enumerate(devices or (4, 1), 1)
        ]
    )


@pytest.fixture
def pending():
    return PendingPlacements()


def view(table, pending, rows=None):
    return HostView.of(table, np.arange(len(table)) if rows is None else np.array(rows), pending=pending)


def free(hosts):
    return [pools.free_devices for pools in map(hosts.coded("pci_stats").__getitem__, range(len(hosts)))]


def pinned_cpus(hosts):
    return [
        len(each.cells[0].pinned) for each in map(hosts.coded("numa_topology").__getitem__, range(len(hosts)))
    ]


def test_devices_and_cells_of_pending_placements_are_taken(pending):
    table = two()
    pending.add("i1", table, 0, ONE, demand=GPU)
    pending.add("i2", table, 0, ONE, demand=PINNED)
    pending.share("i3", uuid_of("h2"), ONE, None, demand=GPU)
    assert free(view(table, pending)) == [3, 0]
    assert pinned_cpus(view(table, pending)) == [2, 0]
    assert free(view(table, pending, [1])) == [0]
    assert view(table, pending).host(0).pci_stats.pools[0]["count"] == 3


def test_what_the_compute_reports_replaces_what_was_laid_over_it(pending):
    pending.add("i1", two(), 0, ONE, demand=GPU)
    assert free(view(two(2, 1), pending)) == [1, 1]


def test_a_view_of_an_older_table_keeps_what_the_compute_has_reported_since(pending):
    table = two()
    for number in (1, 2):
        pending.add(f"i{number}", table, 0, ONE, demand=GPU)
    hosts = view(table, pending)
    pending.settle([pending.get("i1")], read_at=1.0)
    assert hosts.refresh_pending().tolist() == []
    assert free(hosts) == free(view(table, pending)) == [2, 1]
    pending.settle([pending.get("i2")], read_at=1.0)
    assert free(view(table, pending)) == [2, 1]


def test_what_a_host_has_no_longer_is_not_taken_of_it(pending):
    table = two(0, 1)
    pending.add("i1", table, 0, ONE, demand=GPU)
    assert free(view(table, pending)) == [0, 1]


def test_a_view_sees_what_others_take_when_it_catches_up_and_keeps_what_it_took_itself(pending):
    table = two()
    hosts = view(table, pending)
    hosts.reservations.reserve(hosts.position(0), "i1", AMOUNTS_OF_ONE, GPU)
    taken = consume_instance(Fitter(), hosts.coded("numa_topology")[0], hosts.coded("pci_stats")[0], GPU)
    hosts.consume_demand(0, GPU, (taken.host, taken.pools))
    assert free(hosts) == [3, 1]
    pending.add("i2", table, 0, ONE, demand=GPU)
    assert hosts.refresh_pending().tolist() == [0]
    assert free(hosts) == [2, 1]
    pending.remove(["i2"])
    hosts.refresh_pending()
    assert free(hosts) == [3, 1]
    assert free(view(table, pending)) == [3, 1]


def test_what_is_forgotten_does_not_count_and_other_amounts_still_do(pending):
    table = two()
    pending.add("i1", table, 1, ONE, demand=GPU)
    hosts = view(table, pending)
    assert pending.demands.forget({"i1": uuid_of("h2"), "unknown": uuid_of("h1")}) == 1
    assert hosts.refresh_pending().tolist() == [1]
    assert free(hosts) == [4, 1]
    assert hosts.numbers("num_instances").tolist() == [0, 1]
    pending.remove(["i1"])
    assert pending.demands.forget({"i1": uuid_of("h2")}) == 0


def test_a_demand_that_cannot_be_read_takes_nothing(pending):
    table = two()
    pending.add("i1", table, 0, ONE, demand=InstanceDemand(requests="?"))
    assert free(view(table, pending)) == [4, 1]


def test_what_others_announce_is_bounded_and_what_is_decided_here_is_not(pending, monkeypatch):
    monkeypatch.setattr("scheduler.hosts.pending.MOST_SHARED_DEMANDS", 2)
    table = two()
    for number in (1, 2, 2, 3):
        pending.share(f"i{number}", uuid_of("h1"), ONE, None, demand=GPU)
    assert (len(pending), free(view(table, pending))) == (3, [2, 1])
    pending.add("own", table, 0, ONE, demand=GPU)
    assert free(view(table, pending)) == [1, 1]
    pending.remove(["i1", "own"])
    pending.share("i4", uuid_of("h1"), ONE, None, demand=GPU)
    assert free(view(table, pending)) == [2, 1]


def test_hosts_in_equal_states_share_one_value(pending):
    table = two(2, 2)
    for row in (0, 1):
        pending.add(f"i{row}", table, row, ONE, demand=GPU)
    hosts = view(table, pending)
    assert hosts.coded("pci_stats")[0] is hosts.coded("pci_stats")[1]


@given(
    st.lists(st.tuples(st.sampled_from(["add", "remove", "view"]), st.integers(0, 5), st.integers(0, 2))),
)
def test_whatever_happens_a_view_has_what_consuming_one_after_the_other_leaves(steps):
    pending, table = PendingPlacements(), two(4, 3, 1)
    placed = {}
    for step, number, row in steps:
        instance, demand = f"i{number}", GPU if number % 2 else PINNED
        if step == "add":
            placed.pop(instance, None)
            placed[instance] = row, demand
            pending.add(instance, table, row, ONE, demand=demand)
        elif step == "remove":
            placed.pop(instance, None)
            pending.remove([instance])
        else:
            view(table, pending).coded("pci_stats")
    expected = [(each.numa_topology, each.pci_stats) for each in table.rows]
    for row, demand in placed.values():
        after = consume_instance(Fitter(), *expected[row], demand)
        expected[row] = after.host, after.pools
    hosts = view(table, pending)
    assert [(hosts.coded("numa_topology")[i], hosts.coded("pci_stats")[i]) for i in range(3)] == expected
