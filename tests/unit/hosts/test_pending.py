from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from scheduler.hosts.pending import AMOUNTS, LIFETIME, PendingPlacements
from tests.builders import make_host, make_table, uuid_of

ONE = np.array([-512, -20480, 1, 1, 1])
NOTHING = np.zeros(5, int)
AMOUNTS_OF_ONE = dict(zip(AMOUNTS, ONE.tolist(), strict=True))
EARLIER, LATER = datetime(2026, 1, 1, 12), datetime(2026, 1, 1, 13)


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
    return pending.overlay(table, np.array([row]))[:, 0].tolist()


def test_a_placement_lies_over_its_row_until_it_is_removed(pending):
    table = table_of(three())
    assert pending.add("i1", table, 1, ONE)
    assert pending.add("i2", table, 1, ONE)
    assert (len(pending), pending.node_of("i1")) == (2, uuid_of("h2"))
    assert on(pending, table, 1) == (2 * ONE).tolist()
    assert on(pending, table, 0) == NOTHING.tolist()
    pending.remove(["i1", "unknown"])
    assert on(pending, table, 1) == ONE.tolist()
    assert pending.node_of("i1") is None


def test_tables_with_other_rows_show_the_same(pending):
    hosts = three()
    old, new = table_of(hosts), table_of([make_host("h0"), *hosts[1:]])
    pending.add("i1", old, 0, ONE)
    pending.add("i2", old, 2, ONE)
    assert on(pending, new, 2) == ONE.tolist()
    assert on(pending, new, 0) == NOTHING.tolist()
    pending.remove(["i1"])
    pending.add("i3", new, 1, ONE)
    assert [on(pending, old, row) for row in range(3)] == [NOTHING.tolist(), ONE.tolist(), ONE.tolist()]


@pytest.mark.parametrize(("updated", "expected"), [(EARLIER, []), (LATER, ["i1"])], ids=["same", "changed"])
def test_placements_on_changed_rows_are_those_whose_row_has_another_stamp(pending, updated, expected):
    pending.add("i1", table_of(three()), 0, ONE)
    changed = pending.on_changed_rows(table_of(three(updated)))
    assert [placement.instance for placement in changed] == expected


def test_a_node_that_is_gone_has_no_changed_row(pending):
    pending.add("i1", table_of(three()), 0, ONE)
    assert pending.on_changed_rows(table_of(three(LATER)[1:])) == []


def test_settling_removes_what_was_reported_and_leaves_the_rest(pending):
    table = table_of(three())
    pending.add("i1", table, 0, ONE)
    pending.add("i2", table, 0, ONE)
    pending.settle(
        placement
        for placement in pending.on_changed_rows(table_of(three(LATER)))
        if placement.instance == "i1"
    )
    assert [pending.node_of(instance) for instance in ("i1", "i2")] == [None, uuid_of("h1")]
    assert on(pending, table, 0) == ONE.tolist()


def test_what_was_reported_goes_on_to_count_for_tables_that_were_read_before(pending):
    table, later = make_table(three(), read_at=5.0), make_table(three(LATER), read_at=6.0)
    for number in range(3):
        pending.add(f"i{number}", table, 0, ONE)
    pending.settle([pending.get("i0")], read_at=5.5)  # as one that was looked for later
    pending.settle([pending.get("i1"), pending.get("i2")], read_at=6.0)
    assert pending.node_of("i1") is None
    assert on(pending, table, 0) == (3 * ONE).tolist()
    assert on(pending, later, 0) == NOTHING.tolist()
    assert (pending.row_of("i1", table), pending.row_of("i1", later)) == (0, None)
    assert on(pending, make_table(three(), read_at=5.7), 0) == (2 * ONE).tolist()


def test_a_placement_that_nothing_confirms_is_removed_after_its_lifetime(pending, clock):
    table = table_of(three())
    pending.add("i1", table, 0, ONE)
    clock.now += LIFETIME - 1
    pending.settle()
    assert len(pending) == 1
    clock.now += 2
    pending.settle()
    assert len(pending) == 0
    assert on(pending, table, 0) == NOTHING.tolist()


def test_a_placement_that_was_added_while_the_databases_were_asked_is_kept(pending):
    pending.add("i1", table_of(three()), 0, ONE)
    changed = table_of(three(LATER))
    reported = pending.on_changed_rows(changed)
    pending.add("i1", changed, 1, ONE)
    pending.settle(reported)
    assert pending.node_of("i1") == uuid_of("h2")


def test_the_row_of_a_placement_is_that_of_its_node_in_any_table(pending):
    hosts = three()
    pending.add("i1", table_of(hosts), 2, ONE)
    assert pending.row_of("i1", table_of(hosts[1:])) == 1
    assert pending.row_of("i1", table_of(hosts[:2])) is None
    assert pending.row_of("unknown", table_of(hosts)) is None


# -- placements of other schedulers


class Listener:
    def __init__(self):
        self.seen = []

    def reserved(self, placement):
        self.seen.append(("reserved", placement.instance, placement.node))

    def unreserved(self, placement):
        self.seen.append(("unreserved", placement.instance, placement.node))


def test_a_shared_placement_lies_over_its_row_as_an_own_one_does(pending):
    table = table_of(three())
    assert pending.share("i1", uuid_of("h2"), ONE, EARLIER)
    assert on(pending, table, 1) == ONE.tolist()
    assert pending.row_of("i1", table) == 1
    assert [one.instance for one in pending.on_changed_rows(table_of(three(LATER)))] == ["i1"]
    pending.unshare("i1", uuid_of("h2"))
    assert on(pending, table, 1) == NOTHING.tolist()


def test_the_last_decision_on_an_instance_counts_whoever_made_it(pending):
    table = table_of(three())
    pending.add("i1", table, 0, ONE)
    pending.share("i1", uuid_of("h2"), ONE, None)
    assert [on(pending, table, row) for row in (0, 1)] == [NOTHING.tolist(), ONE.tolist()]
    pending.add("i1", table, 2, ONE)
    assert [on(pending, table, row) for row in (1, 2)] == [NOTHING.tolist(), ONE.tolist()]


def test_a_placement_on_another_node_is_not_unshared(pending):
    pending.add("i1", table_of(three()), 0, ONE)
    pending.unshare("i1", uuid_of("h2"))
    pending.unshare("unknown", uuid_of("h2"))
    assert pending.node_of("i1") == uuid_of("h1")


def test_a_shared_placement_has_the_rest_of_its_lifetime(pending, clock):
    assert not pending.share("i0", uuid_of("h1"), ONE, None, age=LIFETIME)
    pending.share("i1", uuid_of("h1"), ONE, None, age=LIFETIME - 10)
    clock.now += 9
    pending.settle()
    assert len(pending) == 1
    clock.now += 2
    pending.settle()
    assert len(pending) == 0


def test_there_is_a_bound_on_shared_placements_and_none_on_own_ones(pending, monkeypatch):
    monkeypatch.setattr("scheduler.hosts.pending.MOST_SHARED", 2)
    table = table_of(three())
    assert [pending.share(f"i{n}", uuid_of("h1"), ONE, None) for n in range(4)] == [True, True, False, False]
    assert pending.share("i1", uuid_of("h2"), ONE, None)
    assert pending.add("own", table, 0, ONE)
    assert len(pending) == 3


def test_of_many_shared_placements_some_are_looked_for_at_once_and_all_in_the_end(pending, monkeypatch):
    """Anyone on the bus can announce placements that no compute will report; requests wait for the looks."""
    monkeypatch.setattr("scheduler.hosts.pending.MOST_LOOKED_FOR", 10)
    table, changed = table_of(three()), table_of(three(LATER))
    for number in range(30):
        pending.share(f"i{number}", uuid_of("h1"), ONE, None)
    pending.add("own", table, 0, ONE)
    seen = set()
    while len(seen) < 31:
        found = [one.instance for one in pending.on_changed_rows(changed)]
        assert len(found) == 11
        assert "own" in found
        seen.update(found)


ASKED_AT = 1000.0


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("", False),
        ("add", True),
        ("add remove", False),
        ("add grant", False),
        ("add later grant", True),
        ("add later grant settle", True),
        ("add grant later settle", False),
        ("add elsewhere", False),
        ("share", True),
        ("share unshare", False),
        ("share_granted", False),
        ("later share_granted", True),
        ("share later share_granted", True),
    ],
)
def test_what_placement_may_not_have_counted_when_it_was_asked(clock, events, expected):
    """What is being claimed, and what was granted later; that computes have reported it does not matter."""
    clock.now, pending, table = ASKED_AT, PendingPlacements(clock), table_of(three())
    h1 = uuid_of("h1")
    actions = {
        "add": lambda: pending.add("i1", table, 0, ONE),
        "elsewhere": lambda: pending.add("i1", table, 1, ONE),
        "remove": lambda: pending.remove(["i1"]),
        "grant": lambda: pending.grant("i1"),
        "settle": lambda: pending.settle([pending.get("i1")]),
        "share": lambda: pending.share("i1", h1, ONE, None),
        "share_granted": lambda: pending.share("i1", h1, ONE, None, granted=True),
        "unshare": lambda: pending.unshare("i1", h1),
        "later": lambda: setattr(clock, "now", ASKED_AT + 1),
    }
    for event in events.split():
        actions[event]()
    assert pending.claims.has_newer(h1, ASKED_AT) == expected


def test_what_a_request_claims_itself_is_not_newer_for_it(pending):
    pending.add("i1", table_of(three()), 0, ONE)
    assert not pending.claims.has_newer(uuid_of("h1"), ASKED_AT, {"i1"})
    assert pending.claims.has_newer(uuid_of("h1"), ASKED_AT, {"i2"})


@pytest.mark.parametrize(
    ("factor", "moment", "expected"),
    [(1, 999, True), (2, 999, True), (1, 1001, False), (0.5, 999, False)],
    ids=["as much", "more", "before the moment", "less"],
)
def test_a_refusal_holds_for_as_much_and_more(pending, factor, moment, expected):
    pending.claims.refuse(uuid_of("h1"), 2 * ONE)
    assert pending.claims.was_refused(uuid_of("h1"), factor * 2 * ONE, moment) == expected
    assert not pending.claims.was_refused(uuid_of("h2"), 2 * ONE, 999)


def test_what_is_known_of_nodes_that_are_gone_is_forgotten(pending, clock):
    table, clock.now, h1 = table_of(three()), ASKED_AT + 1, uuid_of("h1")
    pending.add("i1", table, 0, ONE)
    pending.grant("i1")
    pending.claims.refuse(h1, ONE)
    assert pending.claims.has_newer(h1, ASKED_AT)
    pending.overlay(table_of(three()[1:]), np.array([0]))
    assert not pending.claims.has_newer(h1, ASKED_AT)
    assert not pending.claims.was_refused(h1, ONE, ASKED_AT)


def test_a_listener_is_told_of_own_placements_only(pending):
    pending.listener = Listener()
    table = table_of(three())
    pending.add("i1", table, 0, ONE)
    pending.share("i3", uuid_of("h2"), ONE, None)
    pending.remove(["i1", "i3", "unknown"])
    pending.add("i4", table, 0, ONE)
    pending.settle([pending.get("i4")])
    assert pending.listener.seen == [
        ("reserved", "i1", uuid_of("h1")),
        ("unreserved", "i1", uuid_of("h1")),
        ("reserved", "i4", uuid_of("h1")),
    ]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2) | st.none()), max_size=30))
def test_sums_are_those_of_what_is_there(steps):
    pending, table, where = PendingPlacements(), table_of(three()), {}
    for instance, row in steps:
        where.pop(instance, None)
        if row is None:
            pending.remove([instance])
        else:
            pending.add(instance, table, row, ONE)
            where[instance] = row
    expected = [sum(place == row for place in where.values()) for row in range(3)]
    assert pending.overlay(table, np.arange(3))[AMOUNTS.index("num_instances")].tolist() == expected


def test_each_change_is_counted(pending):
    table = table_of(three())
    assert [pending.add("i1", table, row, ONE)[1] for row in (0, 1)] == [1, 2]
    pending.share("i2", uuid_of("h2"), ONE, None)
    assert (pending.remove(["i1", "i1", "unknown"]), pending.changes) == (1, 5)
