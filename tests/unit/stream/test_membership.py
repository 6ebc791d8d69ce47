import pytest

from scheduler.stream import membership
from scheduler.stream.membership import ALIVE_FOR, Membership
from scheduler.stream.records import Member
from tests.support.clock import Clock


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def members(clock):
    return Membership(Member("m", "c1"), clock)


def senders(members):
    return [member.sender for member in members.alive()]


def test_a_scheduler_begins_alone(members):
    assert members.alive() == [Member("m", "c1")]


def test_others_are_alive_until_they_are_not_heard_of_for_too_long(members, clock):
    members.update(Member("z"))
    members.update(Member("a"))
    assert senders(members) == ["a", "m", "z"]
    clock.now += ALIVE_FOR - 1
    members.hear("a")
    clock.now += 2
    assert senders(members) == ["a", "m"]
    clock.now += ALIVE_FOR
    assert senders(members) == ["m"]


@pytest.mark.parametrize(
    ("started", "left"),
    [
        (Member("new", "c2", 0), ["m", "new", "other-host", "other-worker"]),
        (Member("new", "c2", 3), ["m", "new", "old", "other-host", "other-worker"]),
        (Member("m", "c2", 0), ["m", "other-host", "other-worker"]),
        (Member("new"), ["m", "nameless", "new", "old", "other-host", "other-worker"]),
    ],
    ids=["a predecessor", "none", "one's own predecessor", "no host"],
)
def test_a_scheduler_that_comes_back_replaces_its_predecessor_at_once(members, started, left):
    """One that was killed has not said goodbye; taken for alive, it would be counted twice."""
    if started.sender == "new" and not started.host:
        members.update(Member("nameless"))
    members.update(Member("old", "c2", 0))
    members.update(Member("other-worker", "c2", 1))
    members.update(Member("other-host", "c3", 0))
    members.update(started, has_started=True)
    assert senders(members) == left


def test_of_two_daemons_with_one_name_both_stay_members(members):
    members.update(Member("a", "c2"))
    members.update(Member("b", "c2"), has_started=True)
    assert senders(members) == ["b", "m"]
    for sender in "aba":
        members.update(Member(sender, "c2"))
    assert senders(members) == ["a", "b", "m"]


def test_what_was_written_long_ago_shows_no_life(members):
    members.update(Member("a"), age=ALIVE_FOR + 1)
    members.update(Member("b"), age=ALIVE_FOR - 1)
    assert senders(members) == ["b", "m"]


def test_an_older_record_does_not_shorten_a_life(members, clock):
    members.update(Member("a"))
    members.update(Member("a"), age=ALIVE_FOR - 1)
    members.hear("a", age=ALIVE_FOR - 1)
    clock.now += 5
    assert senders(members) == ["a", "m"]


def test_one_that_says_bye_is_gone_at_once(members):
    members.update(Member("a"))
    members.remove("a")
    members.remove("unknown")
    assert senders(members) == ["m"]


def test_one_that_never_described_itself_is_no_member(members):
    members.hear("a")
    assert senders(members) == ["m"]


def test_the_own_beat_changes_what_others_know_and_never_expires(members, clock):
    members.update(Member("m", "c1"))
    clock.now += 10 * ALIVE_FOR
    assert members.own == Member("m", "c1")
    assert members.alive() == [members.own]


def test_there_is_a_bound_on_how_many_are_known(members):
    for number in range(membership.MOST_MEMBERS + 10):
        members.update(Member(f"a{number}"))
    assert len(members.alive()) == membership.MOST_MEMBERS + 1
