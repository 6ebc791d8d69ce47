"""How many writes are in flight, with Placements of different kinds in simulated time."""

import heapq
from itertools import pairwise

import pytest

from scheduler.claims.writes_in_flight import FIRST_TRIAL, SLOW_WRITE, WINDOW, WritesInFlight
from tests.support.clock import Clock

GROUP = 20


def always(seconds):
    return lambda _others: seconds


def shared_by(processors):
    """Writes of 0.2 s that share so many processors."""
    return lambda others: 0.2 * max(1, (others + 1) / processors)


def deadlocking(others):
    return 0.2 if not others else 0.3 + SLOW_WRITE


class Load:
    """Keeps as many writes in flight as are allowed, each of 20 consumers.

    Attributes:
        allowed: What decides on the number.
        limits: The number after each write.
    """

    def __init__(self, most, seconds_of):
        self.clock = Clock(0.0)
        self.allowed = WritesInFlight(most, self.clock)
        self.limits = []
        self._seconds_of = seconds_of
        self._running = []

    def run(self, writes, *, others_wait=True):
        for _ in range(writes):
            while len(self._running) < self.allowed.limit:
                seconds = self._seconds_of(len(self._running))
                heapq.heappush(self._running, (self.clock.now + seconds, seconds))
            self.clock.now, seconds = heapq.heappop(self._running)
            self.allowed.finished(GROUP, seconds, others_wait=others_wait)
            self.limits.append(self.allowed.limit)


@pytest.mark.parametrize("processors", [1, 2, 3])
def test_as_many_writes_are_in_flight_as_placement_carries_out_at_once(processors):
    load = Load(4, shared_by(processors))
    load.run(2000)
    assert max(set(load.limits), key=load.limits.count) == processors


def test_no_more_than_the_option_says():
    load = Load(2, shared_by(8))
    load.run(2000)
    assert max(load.limits) == 2


def test_one_at_a_time_if_the_option_says_so():
    load = Load(1, shared_by(8))
    load.run(1000)
    assert set(load.limits) == {1}


def test_where_writes_deadlock_trials_become_rare():
    load = Load(4, deadlocking)
    load.run(20_000)
    trials = [n for n, (before, after) in enumerate(pairwise(load.limits)) if after > before]
    assert set(load.limits) == {1, 2}
    assert load.limits.count(2) < 0.01 * len(load.limits)
    gaps = [later - earlier for earlier, later in pairwise(trials)]
    assert len(gaps) >= 3
    assert gaps == sorted(gaps)


def test_there_is_no_trial_before_writes_have_waited_for_long():
    load = Load(4, shared_by(4))
    load.run(FIRST_TRIAL * WINDOW - 1)
    assert set(load.limits) == {1}


def test_writes_that_none_waits_for_tell_nothing():
    load = Load(4, shared_by(4))
    load.run(20 * FIRST_TRIAL * WINDOW, others_wait=False)
    assert set(load.limits) == {1}


def test_a_slow_write_takes_one_away_that_had_proved_good():
    load = Load(2, always(0.2))
    load.run(1000)
    assert load.allowed.limit == 2
    load.allowed.finished(GROUP, SLOW_WRITE + 0.1, others_wait=True)
    assert load.allowed.limit == 1
