import logging
import threading

import pytest

from scheduler.bounds.circuit_breaker import FIRST_PROBE, MAX_PROBE_INTERVAL, CircuitBreaker, CircuitOpen


def seconds_to_next_probe(breaker, clock):
    start = clock.now
    while not breaker.probe_due():
        clock.now += 0.5
    return clock.now - start


def fail(breaker, error):
    with pytest.raises(type(error)), breaker.guard(OSError):
        raise error


def test_the_interval_between_probes_doubles_up_to_a_limit_until_the_party_answers(clock):
    breaker = CircuitBreaker("Cell one", clock)
    breaker.failed("why")
    intervals = [seconds_to_next_probe(breaker, clock) for _ in range(8)]
    assert intervals == [FIRST_PROBE, 2.0, 4.0, 8.0, 16.0, *[MAX_PROBE_INTERVAL] * 3]
    breaker.reset()
    assert breaker.open_reason is None
    breaker.failed("again")
    assert seconds_to_next_probe(breaker, clock) == FIRST_PROBE


def test_a_party_that_is_away_is_not_called_before_the_probe_is_due(clock):
    breaker = CircuitBreaker("The API database", clock)
    fail(breaker, OSError("refused"))
    with pytest.raises(CircuitOpen, match="The API database is left out: refused"):
        breaker.check()
    clock.now += FIRST_PROBE
    with breaker.guard(OSError):
        assert breaker.open_reason == "refused"
    assert breaker.open_reason is None


def test_the_failure_of_a_call_that_began_before_the_last_answer_does_not_count(clock):
    breaker = CircuitBreaker("The API database", clock)

    def hang():
        clock.now += 1
        with breaker.guard(OSError):
            pass  # another call, which is answered
        raise OSError("closed")

    with pytest.raises(OSError, match="closed"), breaker.guard(OSError):
        hang()
    assert breaker.open_reason is None
    fail(breaker, OSError("refused"))
    assert breaker.open_reason == "refused"


def test_only_failures_in_a_row_open_the_breaker(clock):
    breaker = CircuitBreaker("Placement", clock, failures=3)
    for _ in range(2):
        fail(breaker, OSError("refused"))
    with breaker.guard(OSError):
        pass
    for _ in range(2):
        fail(breaker, OSError("refused"))
    assert breaker.open_reason is None
    fail(breaker, OSError("refused"))
    assert breaker.open_reason == "refused"


def test_an_error_that_is_an_answer_closes_the_breaker(clock):
    breaker = CircuitBreaker("Placement", clock)
    breaker.failed("refused")
    clock.now += FIRST_PROBE
    fail(breaker, ValueError("an answer"))
    assert breaker.open_reason is None


def test_a_failed_probe_leaves_the_party_out(clock):
    breaker = CircuitBreaker("Placement", clock, failures=3)
    for _ in range(3):
        breaker.failed("refused")
    clock.now += FIRST_PROBE
    fail(breaker, OSError("still refused"))
    assert breaker.open_reason == "still refused"


def test_an_outage_is_logged_once_with_its_end(clock, caplog):
    breaker = CircuitBreaker("Cell one", clock)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            breaker.failed("refused")
        breaker.reset()
        breaker.reset()
    assert [record.getMessage() for record in caplog.records] == [
        "Cell one is unavailable; skipping it until it answers: refused",
        "Cell one is available again",
    ]


def test_of_many_threads_one_probes(clock):
    breaker = CircuitBreaker("Placement", clock)
    breaker.failed("refused")
    clock.now += FIRST_PROBE
    results = []

    def check():
        try:
            breaker.check()
        except CircuitOpen:
            results.append("refused")
        else:
            results.append("probe")

    threads = [threading.Thread(target=check) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(results) == ["probe", *["refused"] * 7]
