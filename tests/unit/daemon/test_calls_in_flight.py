"""A call that ends its worker again and again is known."""

import multiprocessing

import pytest

from scheduler.daemon.calls_in_flight import COUNTED, SLOTS, CallsInFlight


@pytest.fixture
def calls():
    return CallsInFlight(multiprocessing.get_context("fork"), 2)


def test_what_a_worker_runs_when_it_dies_is_counted(calls):
    for _ in range(3):
        worker = calls.of(1)
        for name in ("a", "b", "ended"):
            worker.begin(name)
        worker.end("ended")
        calls.note_death(1)
    assert [calls.of(0).deaths(name) for name in ("a", "b", "ended", "other")] == [3, 3, 0, 0]


def test_the_death_of_another_worker_is_not_counted(calls):
    calls.of(0).begin("a")
    calls.note_death(1)
    assert calls.deaths("a") == 0


def test_the_number_of_calls_is_bounded(calls):
    worker = calls.of(0)
    for number in range(SLOTS + 9):
        worker.begin(str(number))
    for number in range(SLOTS + 9):
        worker.end(str(number))
    worker.begin("again")
    calls.note_death(0)
    assert calls.deaths("again") == 1


def test_the_oldest_deaths_are_forgotten(calls):
    for number in range(COUNTED + 1):
        worker = calls.of(0)
        worker.begin(str(number))
        calls.note_death(0)
    assert (calls.deaths("0"), calls.deaths(str(COUNTED))) == (0, 1)
