import pytest

from scheduler.stream.decision_stream import ALIVE_FOR, MOST_MEMBERS, Membership
from scheduler.stream.records import Kind, Record


@pytest.fixture
def members(clock):
    return Membership("m", clock)


def record(kind, sender, host=""):
    return Record(version=1, kind=kind, sender=sender, counter=0, time=0, host=host)


def beat(sender, host=""):
    return record(Kind.BEAT, sender, host)


def test_a_scheduler_begins_alone(members):
    assert members.alive() == ["m"]


@pytest.mark.parametrize("kind", [Kind.BEAT, Kind.INTENT], ids=str)
def test_others_are_alive_until_they_are_not_heard_of_for_too_long(members, clock, kind):
    members.note(beat("z"))
    members.note(beat("a"))
    assert members.alive() == ["a", "m", "z"]
    clock.now += ALIVE_FOR - 1
    members.note(record(kind, "a"))
    clock.now += 2
    assert members.alive() == ["a", "m"]
    clock.now += ALIVE_FOR
    assert members.alive() == ["m"]


@pytest.mark.parametrize(
    ("started", "left"),
    [
        (("new", "c2"), ["m", "nameless", "new", "other-host"]),
        (("new", "c4"), ["m", "nameless", "new", "old", "other-host"]),
        (("m", "c2"), ["m", "nameless", "other-host"]),
        (("new", ""), ["m", "nameless", "new", "old", "other-host"]),
    ],
    ids=["a predecessor", "none", "one's own predecessor", "no host"],
)
def test_a_scheduler_that_comes_back_replaces_its_predecessor_at_once(members, started, left):
    """One that was killed has not said goodbye; taken for alive, it would be counted twice."""
    for other in (("nameless",), ("old", "c2"), ("other-host", "c3")):
        members.note(beat(*other))
    members.note(record(Kind.HELLO, *started))
    assert members.alive() == left


def test_of_two_daemons_with_one_name_both_stay_members(members):
    members.note(beat("a", "c2"))
    members.note(record(Kind.HELLO, "b", "c2"))
    assert members.alive() == ["b", "m"]
    for sender in "aba":
        members.note(beat(sender, "c2"))
    assert members.alive() == ["a", "b", "m"]


def test_what_was_written_long_ago_shows_no_life(members):
    members.note(beat("a"), age=ALIVE_FOR + 1)
    members.note(beat("b"), age=ALIVE_FOR - 1)
    assert members.alive() == ["b", "m"]


def test_one_that_says_bye_is_gone_at_once(members):
    members.note(beat("a"))
    members.note(record(Kind.BYE, "a"))
    members.note(record(Kind.BYE, "unknown"))
    members.note(record(Kind.BYE, "m"))
    assert members.alive() == ["m"]


def test_a_sender_without_a_sign_of_life_is_no_member(members):
    members.note(record(Kind.INTENT, "a"))
    assert members.alive() == ["m"]


def test_this_scheduler_never_expires(members, clock):
    members.note(beat("m", "c1"))
    clock.now += 10 * ALIVE_FOR
    assert members.alive() == ["m"]


def test_there_is_a_bound_on_how_many_are_known(members):
    for number in range(MOST_MEMBERS + 10):
        members.note(beat(f"a{number}"))
    assert len(members.alive()) == MOST_MEMBERS + 1
