import numpy as np
import pytest

from scheduler.stream.membership import Membership, hash64
from scheduler.stream.owners import Owners, owners
from scheduler.stream.records import Member
from tests.builders import make_host, make_table, uuid_of

HOSTS = np.array([hash64(uuid_of(f"h{number}")) for number in range(6000)], np.uint64)
GROUPS = [f"group-{number}" for number in range(300)]


def shares(found, count):
    return (np.bincount(found, minlength=count) / len(found)).tolist()


def member(name, **fields):
    return Member(name, name, topic=f"berth.{name}.0", **fields)


def make_owners(own, *others, in_step=True, slices=True):
    membership = Membership(own)
    for other in others:
        membership.update(other)
    return Owners(membership, lambda: in_step, lambda: slices)


def table(count=300):
    return make_table([make_host(f"h{number}") for number in range(count)])


# -- hosts


@pytest.mark.parametrize("senders", ["a", "ab", "abc", "abcdefgh"])
def test_slices_are_equal(senders):
    assert shares(owners(HOSTS, senders), len(senders)) == pytest.approx(
        [1 / len(senders)] * len(senders), abs=0.02
    )


def test_the_order_of_schedulers_does_not_matter():
    assert (2 - owners(HOSTS, "cba")).tolist() == owners(HOSTS, "abc").tolist()


def test_when_one_leaves_only_its_hosts_change_their_owner():
    before, after = owners(HOSTS, "abc"), owners(HOSTS, "ab")
    assert (before[before != 2] == after[before != 2]).all()
    assert shares(after[before == 2], 2) == pytest.approx([0.5, 0.5], abs=0.05)


def test_owners_are_the_same_on_every_machine():
    assert owners(HOSTS[:16], "abc").tolist() == [0, 2, 0, 2, 1, 0, 1, 0, 2, 0, 1, 2, 2, 1, 2, 2]


def test_a_single_scheduler_has_no_slice():
    assert make_owners(Member("a")).owned(table()) is None


def test_slices_that_are_switched_off_are_none():
    assert make_owners(Member("a"), Member("b"), slices=False).owned(table()) is None


def test_every_host_is_owned_by_one_scheduler():
    hosts, names = table(), "abc"
    owned = [make_owners(Member(own), *map(Member, names)).owned(hosts) for own in names]
    assert np.sum(owned, axis=0).tolist() == [1] * 300
    assert all(60 < mask.sum() < 140 for mask in owned)


def test_a_slice_is_worked_out_again_only_when_schedulers_or_hosts_change():
    membership, hosts = Membership(Member("a")), table()
    membership.update(Member("b"))
    slices = Owners(membership, lambda: True, lambda: True)
    first = slices.owned(hosts)
    membership.update(Member("b", "another"))
    assert slices.owned(hosts) is first
    assert len(slices.owned(table(301))) == 301
    membership.update(Member("c"))
    assert slices.owned(hosts).sum() < first.sum()


# -- server groups


class Call:
    def __init__(self):
        self.sent = []

    def forward(self, topic, reason):
        self.sent.append((topic, reason))


def sent(found):
    """What is forwarded of the calls for many groups."""
    calls = [Call() for _ in GROUPS]
    for group, call in zip(GROUPS, calls, strict=True):
        found.forward_for_group(group, call)
    return [each for call in calls for each in call.sent]


def test_all_agree_on_the_owner_of_a_group_and_groups_are_spread():
    views = [make_owners(Member(own), *map(Member, "abc")) for own in "abc"]
    found = [[view.owner_of_group(group).sender for group in GROUPS] for view in views]
    assert found[0] == found[1] == found[2]
    assert all(60 < found[0].count(sender) < 140 for sender in "abc")


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([Member("a")], {"a", "m"}),
        ([Member("a"), member("b")], {"b"}),
    ],
    ids=["nobody takes calls", "one takes calls"],
)
def test_the_owner_of_a_group_is_one_that_takes_calls_if_any_does(others, expected):
    found = make_owners(Member("m"), *others)
    assert {found.owner_of_group(group).sender for group in GROUPS} == expected


def test_a_call_is_sent_on_to_the_owner_of_its_group_and_stays_with_the_owner():
    found = make_owners(member("m"), member("a"))
    for group in GROUPS:
        call = Call()
        found.forward_for_group(group, call)
        elsewhere = found.owner_of_group(group).sender == "a"
        assert call.sent == ([("berth.a.0", "server_group")] if elsewhere else [])


@pytest.mark.parametrize(
    ("others", "options"),
    [
        ([], {}),
        ([member("a")], {"in_step": False}),
        ([Member("a")], {}),
    ],
    ids=["alone", "not in step", "takes no calls"],
)
def test_a_call_is_decided_here(others, options):
    assert sent(make_owners(member("m"), *others, **options)) == []


def test_outside_of_a_server_nothing_is_sent_on():
    found = make_owners(member("m"), member("a"))
    for group in GROUPS:
        found.forward_for_group(group, None)
