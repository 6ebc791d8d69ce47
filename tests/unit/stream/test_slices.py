import numpy as np
import pytest

from scheduler.stream.membership import Member, Membership, hash64
from scheduler.stream.slices import OwnedSlices, owners
from tests.builders import make_host, make_table, uuid_of

HOSTS = np.array([hash64(uuid_of(f"h{number}")) for number in range(6000)], np.uint64)


def members(**rates):
    return [Member(sender, rate=rate) for sender, rate in rates.items()]


def shares(found, count):
    return (np.bincount(found, minlength=count) / len(found)).tolist()


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({"a": 0, "b": 0, "c": 0}, [1 / 3, 1 / 3, 1 / 3]),
        ({"a": 64, "b": 8, "c": 8}, [0.8, 0.1, 0.1]),
        ({"a": 9}, [1]),
    ],
    ids=["equal", "one busy", "alone"],
)
def test_slices_are_as_large_as_weights_say(rates, expected):
    assert shares(owners(HOSTS, members(**rates)), len(expected)) == pytest.approx(expected, abs=0.02)


def test_the_order_of_schedulers_does_not_matter():
    given = members(a=5, b=0, c=2)
    backwards = owners(HOSTS, given[::-1])
    assert (2 - backwards).tolist() == owners(HOSTS, given).tolist()


def test_when_one_leaves_only_its_hosts_change_their_owner():
    before, after = owners(HOSTS, members(a=0, b=0, c=0)), owners(HOSTS, members(a=0, b=0))
    assert (before[before != 2] == after[before != 2]).all()
    assert shares(after[before == 2], 2) == pytest.approx([0.5, 0.5], abs=0.05)


def test_when_a_weight_changes_few_hosts_change_their_owner():
    before, after = owners(HOSTS, members(a=4, b=4, c=4)), owners(HOSTS, members(a=5.66, b=4, c=4))
    moved = before != after
    assert 0 < moved.mean() < 0.12
    assert set(after[moved]) == {0}


def test_owners_are_the_same_on_every_machine():
    found = owners(HOSTS[:16], members(a=0, b=0, c=4))
    assert found.tolist() == [0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 2, 2, 1, 2, 2]


def table(count=300):
    return make_table([make_host(f"h{number}") for number in range(count)])


def test_a_single_scheduler_has_no_slice():
    assert OwnedSlices(Membership(Member("a"))).owned(table()) is None


def test_slices_that_are_switched_off_are_none():
    alive = Membership(Member("a"))
    alive.update(Member("b"))
    assert OwnedSlices(alive, lambda: False).owned(table()) is None


def test_every_host_is_owned_by_one_scheduler():
    hosts, owned = table(), []
    for own in "abc":
        alive = Membership(Member(own))
        for other in "abc":
            alive.update(Member(other))
        owned.append(OwnedSlices(alive).owned(hosts))
    assert np.sum(owned, axis=0).tolist() == [1] * 300
    assert all(60 < mask.sum() < 140 for mask in owned)


def test_a_slice_is_worked_out_again_only_when_schedulers_or_hosts_change():
    alive, hosts = Membership(Member("a")), table()
    alive.update(Member("b"))
    slices = OwnedSlices(alive)
    first = slices.owned(hosts)
    alive.update(Member("b", rate=1.1))  # of the same weight
    assert slices.owned(hosts) is first
    other = table(301)
    assert len(slices.owned(other)) == 301
    alive.update(Member("c"))
    assert slices.owned(hosts).sum() < first.sum()


def test_schedulers_of_other_partitions_own_nothing():
    alive = Membership(Member("a", partition="x"))
    alive.update(Member("b", partition="y"))
    assert OwnedSlices(alive).owned(table()) is None
