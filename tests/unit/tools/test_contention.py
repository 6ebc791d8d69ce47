"""What a contention run concludes; the run itself is an integration test and a command."""

import random

import pytest

from tests.support.clock import Clock
from tools.rig.load import FLAVORS
from tools.scenarios.contention_history import History, Verdict


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def history(clock):
    return History(clock)


def free(history, clock, provider, start, end):
    clock.now = start
    with history.freeing(provider):
        clock.now = end


@pytest.mark.parametrize(
    ("offered", "freed", "verdict"),
    [
        ([], ["a"], Verdict.TRUE),
        (["a"], [], Verdict.FALSE),
        (["a"], ["b"], Verdict.FALSE),
        (["a", "b"], ["b"], Verdict.FALSE),
        (["a"], ["a"], Verdict.UNDECIDED),
        (["a", "b"], ["b", "a"], Verdict.UNDECIDED),
    ],
    ids=["none", "one, nothing freed", "one, other freed", "two, one freed", "one, freed", "two, both freed"],
)
def test_no_valid_host_is_false_if_a_host_had_room_all_the_time(history, clock, offered, freed, verdict):
    for provider in freed:
        free(history, clock, provider, 11, 12)
    assert history.judge(offered, started=10) is verdict


@pytest.mark.parametrize(
    ("start", "end", "verdict"),
    [(5, 9, Verdict.FALSE), (5, 10, Verdict.UNDECIDED), (5, 20, Verdict.UNDECIDED)],
    ids=["ended before", "ended with the request", "ended after"],
)
def test_only_what_was_freed_after_the_request_leaves_doubt(history, clock, start, end, verdict):
    free(history, clock, "a", start, end)
    assert history.judge(["a"], started=10) is verdict


def test_a_deletion_in_progress_leaves_doubt(history):
    with history.freeing("a"):
        assert history.judge(["a"], started=10) is Verdict.UNDECIDED


def test_each_instance_is_given_to_one_deleter(history):
    for instance in ("i", "j"):
        history.add(instance, "p", FLAVORS[0])
    assert history.used() == 2 * FLAVORS[0].memory_mb
    assert history.expected().keys() == {"i", "j"}
    rng = random.Random(1)
    removed = [history.remove_one(rng) for _ in range(3)]
    assert sorted(filter(None, removed)) == [("i", "p"), ("j", "p")]
    assert removed[-1] is None
    assert history.expected() == {}
