import pytest

from scheduler.stream import membership
from scheduler.stream.membership import ALIVE_FOR, Member, Membership
from scheduler.stream.records import Sender
from tests.support.clock import Clock


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def members(clock):
    return Membership(Member("m"), clock)


def senders(members):
    return [member.sender for member in members.alive()]


def test_a_scheduler_begins_alone(members):
    assert members.alive() == members.peers() == (Member("m"),)


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


def test_those_that_were_heard_of_lately_are_told_from_those_that_are_alive(members, clock):
    members.update(Member("a"))
    members.update(Member("b"))
    clock.now += 9
    members.hear("b", age=1)
    assert senders(members) == ["a", "b", "m"]
    assert {member.sender for member in members.heard_within(8)} == {"b", "m"}
    clock.now += 8
    assert members.heard_within(8) == (Member("m"),)


def test_the_members_are_the_same_tuple_until_something_changes(members, clock):
    members.update(Member("a"))
    first = members.alive()
    clock.now += 5
    members.update(Member("a"))
    assert members.alive() is first
    members.update(Member("a", rate=3.0))
    assert members.alive() is not first


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


def test_one_that_never_told_of_itself_is_no_member(members):
    members.hear("a")
    assert senders(members) == ["m"]


def test_the_own_beat_changes_what_others_know_and_never_expires(members, clock):
    members.update(Member("m", rate=5.0))
    clock.now += 10 * ALIVE_FOR
    assert members.own == Member("m", rate=5.0)
    assert members.alive() == (members.own,)


def test_there_is_a_bound_on_how_many_are_known(members):
    for number in range(membership.MOST_MEMBERS + 10):
        members.update(Member(f"a{number}"))
    assert len(members.alive()) == membership.MOST_MEMBERS + 1


def test_peers_are_those_of_the_same_partition(clock):
    members = Membership(Member("m", partition="gpu"), clock)
    members.update(Member("a", partition="gpu"))
    members.update(Member("b"))
    assert [member.sender for member in members.peers()] == ["a", "m"]
    assert len(members.alive()) == 3


def test_a_member_is_what_its_records_say():
    about = Sender(host="c1", rate=2.0, partition="gpu", topic="berth.c1.0")
    assert Member.of("a", about) == Member("a", "c1", 2.0, "gpu", "berth.c1.0")


@pytest.mark.parametrize(
    ("rate", "expected"), [(0, 1), (0.9, 1), (1.1, 1), (2, 2), (2.2, 2), (64, 64), (70, 64), (10, 11.313708)]
)
def test_weights_follow_rates_in_coarse_steps(rate, expected):
    assert Member("a", rate=rate).weight == pytest.approx(expected)


def test_all_agree_on_the_owner_of_a_key_and_keys_are_spread():
    views = []
    for own in "abc":
        view = Membership(Member(own))
        for other in "abc":
            view.update(Member(other, rate=ord(other)))
        views.append(view)
    keys = [f"group-{number}" for number in range(300)]
    found = [[view.owner_of(key).sender for key in keys] for view in views]
    assert found[0] == found[1] == found[2]
    assert all(60 < found[0].count(sender) < 140 for sender in "abc")


def test_the_owner_of_a_key_is_one_that_takes_calls_if_any_does(members):
    keys = [f"group-{number}" for number in range(50)]
    members.update(Member("a"))
    assert {members.owner_of(key).sender for key in keys} == {"a", "m"}
    members.update(Member("b", topic="berth.b.0"))
    assert {members.owner_of(key).sender for key in keys} == {"b"}
