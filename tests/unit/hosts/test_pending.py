from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from scheduler.hosts.pending import AMOUNTS, LIFETIME, PendingPlacements
from scheduler.hosts.view import HostView
from tests.builders import Instances, make_host, make_table, uuid_of
from tests.support.clock import Clock

ONE = np.array([-512, -20480, 1, 1, 1])
NOTHING = np.zeros(5, int)
AMOUNTS_OF_ONE = dict(zip(AMOUNTS, ONE.tolist(), strict=True))
EARLIER, LATER = datetime(2026, 1, 1, 12), datetime(2026, 1, 1, 13)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def pending(clock):
    return PendingPlacements(clock)


def three(updated=EARLIER, **holding):
    """h1, h2 and h3; ``holding`` says which instance is on which."""
    hosts = [make_host(f"h{n}").ram(4000).disk(99999).vcpus(16).set(updated=updated) for n in (1, 2, 3)]
    for instance, number in holding.items():
        hosts[number - 1].holding(instance)
    return hosts


def table_of(hosts):
    return make_table(hosts)


def on(pending, table, row):
    return pending.over(table, np.array([row]))[:, 0].tolist()


def test_what_is_added_lies_over_its_row_until_it_is_dropped(pending):
    table = table_of(three())
    assert pending.add("i1", table, 1, ONE)
    assert pending.add("i2", table, 1, ONE)
    assert (len(pending), pending.node_of("i1")) == (2, uuid_of("h2"))
    assert on(pending, table, 1) == (2 * ONE).tolist()
    assert on(pending, table, 0) == NOTHING.tolist()
    pending.drop(["i1", "unknown"])
    assert on(pending, table, 1) == ONE.tolist()
    assert pending.node_of("i1") is None


def test_an_instance_is_to_be_in_one_place(pending):
    table = table_of(three())
    pending.add("i1", table, 0, ONE)
    pending.add("i1", table, 2, ONE)
    assert (on(pending, table, 0), on(pending, table, 2)) == (NOTHING.tolist(), ONE.tolist())


def test_who_does_not_see_what_is_there_does_not_get_the_host(pending):
    table = table_of(three())
    assert pending.add("i1", table, 0, ONE, seen=NOTHING)
    assert not pending.add("i2", table, 0, ONE, seen=NOTHING)
    assert pending.node_of("i2") is None
    assert pending.add("i2", table, 0, ONE, seen=ONE)
    assert on(pending, table, 0) == (2 * ONE).tolist()


def test_tables_with_other_rows_show_the_same(pending):
    hosts = three()
    old, new = table_of(hosts), table_of([make_host("h0"), *hosts[1:]])
    pending.add("i1", old, 0, ONE)
    pending.add("i2", old, 2, ONE)
    assert on(pending, new, 2) == ONE.tolist()
    assert on(pending, new, 0) == NOTHING.tolist()
    pending.drop(["i1"])
    pending.add("i3", new, 1, ONE)
    assert [on(pending, old, row) for row in range(3)] == [NOTHING.tolist(), ONE.tolist(), ONE.tolist()]


@pytest.mark.parametrize(
    ("updated", "holding", "stays"),
    [
        (EARLIER, {}, True),
        (EARLIER, {"i1": 1}, True),  # the compute has not counted it yet
        (LATER, {}, True),  # the row changed for another reason
        (LATER, {"i1": 1}, False),
        (LATER, {"i1": 2}, False),  # it went elsewhere
    ],
)
def test_it_ends_when_the_row_has_changed_and_the_instance_is_somewhere(pending, updated, holding, stays):
    pending.add("i1", table_of(three()), 0, ONE)
    hosts = three(updated, **holding)
    pending.settle(table_of(hosts), Instances(hosts).locate)
    assert (pending.node_of("i1") is not None) == stays


def test_nothing_is_looked_up_while_no_row_has_changed(pending):
    instances = Instances(three())
    pending.settle(table_of(three()), instances.locate)
    pending.add("i1", table_of(three()), 0, ONE)
    pending.settle(table_of(three()), instances.locate)
    assert instances.asked == 0


def test_what_nobody_confirms_ends_in_time(pending, clock):
    table = table_of(three())
    pending.add("i1", table, 0, ONE)
    clock.now += LIFETIME - 1
    pending.settle(table, Instances([]).locate)
    assert len(pending) == 1
    clock.now += 2
    pending.settle(table, Instances([]).locate)
    assert len(pending) == 0
    assert on(pending, table, 0) == NOTHING.tolist()


def test_a_decision_made_while_the_databases_are_asked_is_kept(pending):
    pending.add("i1", table_of(three()), 0, ONE)
    changed = table_of(three(LATER))

    def locate(uuids):
        pending.add("i1", changed, 1, ONE)
        return {uuid: [("cell", "h1")] for uuid in uuids}

    pending.settle(changed, locate)
    assert pending.node_of("i1") == uuid_of("h2")


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2) | st.none()), max_size=30))
def test_sums_are_those_of_what_is_there(steps):
    pending, table, where = PendingPlacements(), table_of(three()), {}
    for instance, row in steps:
        where.pop(instance, None)
        if row is None:
            pending.drop([instance])
        else:
            pending.add(instance, table, row, ONE)
            where[instance] = row
    expected = [sum(place == row for place in where.values()) for row in range(3)]
    assert pending.over(table, np.arange(3))[AMOUNTS.index("num_instances")].tolist() == expected


# -- in a view


@pytest.fixture
def table():
    return table_of(three())


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
    assert view(table, pending).count_instances(["i1", "i2"]).tolist() == [1, 1, 0]


def test_a_view_sees_what_others_reserve_when_it_catches_up(table, pending):
    first, second = view(table, pending), view(table, pending)
    assert first.reserve(0, "i1", AMOUNTS_OF_ONE)
    part = second.at([0, 1])
    part.take(1, num_instances=1)
    assert not part.reserve(0, "i2", AMOUNTS_OF_ONE)
    part.catch_up()
    assert part.numbers("num_instances").tolist() == [1, 1]
    assert part.expected("free_disk_mb").tolist() == [99999 - 20480, 99999]
    assert part.reserve(0, "i2", AMOUNTS_OF_ONE)


def test_what_a_view_reserves_itself_is_not_anothers(table, pending):
    hosts = view(table, pending)
    assert hosts.reserve(0, "i1", AMOUNTS_OF_ONE)
    hosts.catch_up()
    assert hosts.expected("free_ram_mb").tolist() == [4000] * 3
    assert hosts.numbers("num_instances").tolist() == [0, 0, 0]
    assert hosts.reserve(0, "i2", AMOUNTS_OF_ONE)
    for instance in ("i1", "i2", "i2"):
        hosts.unreserve(instance)
    hosts.catch_up()
    assert hosts.numbers("num_instances").tolist() == [0, 0, 0]
    assert len(pending) == 0


def test_turns_are_waited_for_but_not_without_end(pending, monkeypatch):
    monkeypatch.setattr("scheduler.hosts.pending.PATIENCE", 0.01)
    with pending.turn(), pending.turn():
        pass
    with pending.turn():
        assert pending._turn.locked()
    assert not pending._turn.locked()


def test_a_reservation_can_be_had_anyway(table, pending):
    first, second = view(table, pending), view(table, pending)
    first.reserve(0, "i1", AMOUNTS_OF_ONE)
    assert second.reserve(0, "i2", AMOUNTS_OF_ONE, anyway=True)
    assert len(pending) == 2
