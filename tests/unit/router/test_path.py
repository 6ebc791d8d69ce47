import pytest

from scheduler.router import path
from scheduler.router.path import Stop


def test_the_way_of_a_call_through_three_partitions():
    entries = path.sent((), "a")
    assert path.current(entries) == "a"
    entries = path.answered(entries, "a", "ctl1: no host")
    assert path.current(entries) == ""
    entries = path.sent(entries, "b")
    assert path.current(entries) == "b"
    assert path.stops(entries) == [Stop("a", "ctl1: no host"), Stop("b")]


def test_one_that_was_not_sent_the_call_answers_too():
    assert path.stops(path.answered((), "a", "x: no")) == [Stop("a", "x: no")]


def test_one_that_did_not_take_the_call_stays_without_an_answer():
    entries = path.answered(path.sent((), "a"), "b", "x: no")
    assert path.stops(entries) == [Stop("a"), Stop("b", "x: no")]


def test_other_entries_stay():
    entries = path.answered(("x", *path.sent((), "a"), "server_group:a"), "a", "r")
    assert entries == ("x", "partition:a r", "server_group:a")


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ((), False),
        (("partition:a",), False),
        (("partition:a", "server_group:a"), True),
        (("partition:a r", "server_group:a"), False),
        (("server_group",), False),
    ],
)
def test_a_call_that_was_lost_within_a_partition_came_back(entries, expected):
    assert path.came_back(entries) is expected


@pytest.mark.parametrize(
    ("entries", "again", "given_up"),
    [
        ((), set(), set()),
        (("partition:a", "server_group:a"), {"a"}, set()),
        (("partition:a", "partition:b", "partition:c r"), {"a", "b"}, set()),
        (("partition:a",) * (path.MOST_SENT - 1), {"a"}, set()),
        (("partition:a",) * path.MOST_SENT, set(), {"a"}),
        ((*("partition:a",) * path.MOST_SENT, "partition:a r"), set(), set()),
        (("partition:a", "partition:a r"), set(), set()),
    ],
)
def test_partitions_that_have_not_answered_may_be_asked_again_some_times(entries, again, given_up):
    assert (path.unanswered(entries), path.given_up(entries)) == (again, given_up)


def test_reasons_are_cut():
    (entry,) = path.answered((), "a" * 64, "r" * 1000)
    assert len(entry) < 255
