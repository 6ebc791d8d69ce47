"""Placements of others, as one request sees them, and its own."""

import numpy as np
import pytest

from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.request_instances import Needs
from scheduler.hosts.view import HostView
from tests.builders import make_host, make_table, uuid_of
from tests.unit.hosts.test_pending import AMOUNTS_OF_ONE, ONE, three


@pytest.fixture
def pending():
    return PendingPlacements()


@pytest.fixture
def table():
    return make_table(three())


def view(table, pending, source=None):
    return HostView.of(table, np.arange(len(table)), None, source, pending)


def test_amounts_that_placement_guards_are_only_expected_and_counters_count(table, pending):
    pending.add("i1", table, 1, ONE)
    hosts = view(table, pending)
    assert hosts.numbers("free_ram_mb").tolist() == [4000] * 3
    assert hosts.host(1).free_ram_mb == 4000
    assert hosts.expected("free_ram_mb").tolist() == [4000, 3488, 4000]
    assert hosts.at([1]).expected("vcpus_used").tolist() == [1]
    assert hosts.numbers("num_instances").tolist() == hosts.expected("num_instances").tolist() == [0, 1, 0]
    assert hosts.host(1).num_io_ops == 1


def test_an_instance_counts_where_it_is_to_be_on_every_node_of_the_host(pending):
    table = make_table([make_host("h1", "n1"), make_host("h1", "n2"), make_host("h2")])
    pending.add("i1", table, 1, ONE)
    hosts = view(table, pending)
    hosts.load(Needs(frozenset({"i1", "i2"})))
    assert hosts.count_instances(["i1", "i2"]).tolist() == [1, 1, 0]


def test_a_view_sees_what_others_reserve_when_it_catches_up(table, pending):
    first, second = view(table, pending), view(table, pending)
    first.reservations.reserve(first.position(0), "i1", AMOUNTS_OF_ONE)
    part = second.at([0, 1])
    part.consume(1, num_instances=1)
    assert part.numbers("num_instances").tolist() == [0, 1]
    assert part.refresh_pending().tolist() == [0]
    assert part.numbers("num_instances").tolist() == [1, 1]
    assert part.expected("free_disk_mb").tolist() == [99999 - 20480, 99999]
    part.reservations.reserve(part.position(0), "i2", AMOUNTS_OF_ONE)
    assert part.refresh_pending().tolist() == []
    assert first.refresh_pending().tolist() == [0]


def test_what_a_view_reserves_itself_does_not_count_as_others(table, pending):
    hosts = view(table, pending)
    hosts.reservations.reserve(hosts.position(0), "i1", AMOUNTS_OF_ONE)
    hosts.refresh_pending()
    assert hosts.expected("free_ram_mb").tolist() == [4000] * 3
    assert hosts.numbers("num_instances").tolist() == [0, 0, 0]
    hosts.reservations.reserve(hosts.position(0), "i2", AMOUNTS_OF_ONE)
    for instance in ("i1", "i2", "i2"):
        hosts.reservations.unreserve(instance)
    hosts.refresh_pending()
    assert hosts.numbers("num_instances").tolist() == [0, 0, 0]
    assert len(pending) == 0


def test_a_reservation_that_another_scheduler_takes_over_counts_as_others(table, pending):
    hosts = view(table, pending)
    hosts.reservations.reserve(hosts.position(0), "i1", AMOUNTS_OF_ONE)
    pending.share("i1", uuid_of("h2"), ONE, None)
    hosts.refresh_pending()
    assert hosts.numbers("num_instances").tolist() == [0, 1, 0]
    hosts.reservations.unreserve("i1")
    assert pending.node_of("i1") == uuid_of("h2")
