import logging
import threading

from oslo_db.exception import DBConnectionError
import pytest

from scheduler.nova_db.cells import Cell
from scheduler.nova_db.scatter_gather import (
    FIRST_PROBE,
    MAX_PROBE_INTERVAL,
    CellCalls,
    CellUnavailable,
    CircuitBreaker,
)
from tests.support.clock import Clock
from tests.support.waiting import eventually

ONE, TWO = (Cell(number, f"u{number}", f"cell{number}", None, True) for number in (1, 2))


@pytest.fixture
def hung():
    """A function that waits until the test is over."""
    release = threading.Event()
    yield lambda: release.wait(30)
    release.set()


@pytest.fixture
def clock():
    return Clock()


def of(cell, **functions):
    return functions[cell.name]()


def fail(error):
    raise error


def test_each_answer_has_the_value_or_the_error_of_its_cell():
    error = ValueError("odd")
    answers = CellCalls(lambda: 10.0).scatter_gather(
        [ONE, TWO], lambda cell: of(cell, cell1=lambda: 5, cell2=lambda: fail(error))
    )
    assert (answers["u1"].value, answers["u1"].error) == (5, None)
    assert (answers["u2"].value, answers["u2"].error) == (None, error)


def test_without_cells_there_is_no_answer():
    assert CellCalls(lambda: 10.0).scatter_gather([], print) == {}


def test_cells_are_called_at_the_same_time():
    barrier = threading.Barrier(2, timeout=10)
    answers = CellCalls(lambda: 20.0).scatter_gather([ONE, TWO], lambda cell: barrier.wait())
    assert {answer.error for answer in answers.values()} == {None}


def test_a_hung_cell_does_not_delay_the_others(hung):
    calls = CellCalls(lambda: 0.2)
    answers = calls.scatter_gather([ONE, TWO], lambda cell: of(cell, cell1=hung, cell2=lambda: 5))
    assert isinstance(answers["u1"].error, CellUnavailable)
    assert answers["u2"].value == 5


def test_after_a_timeout_a_cell_is_left_out(hung, caplog):
    calls = CellCalls(lambda: 0.1)
    calls.scatter_gather([ONE], lambda cell: hung())
    asked = []
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        answers = calls.scatter_gather([ONE, TWO], lambda cell: asked.append(cell.name))
    assert asked == ["cell2"]
    assert isinstance(answers["u1"].error, CellUnavailable)
    assert caplog.text == ""


def test_a_cell_that_cannot_be_connected_to_is_left_out():
    calls = CellCalls(lambda: 10.0)
    calls.scatter_gather([ONE], lambda cell: fail(DBConnectionError("refused")))
    assert isinstance(calls.scatter_gather([ONE], lambda cell: 5)["u1"].error, CellUnavailable)


def test_after_another_error_a_cell_is_called_again():
    calls = CellCalls(lambda: 10.0)
    calls.scatter_gather([ONE], lambda cell: fail(ValueError()))
    assert calls.scatter_gather([ONE], lambda cell: 5)["u1"].value == 5


def test_a_cell_that_is_left_out_is_probed_and_comes_back(clock):
    calls = CellCalls(lambda: 10.0, clock)
    calls.scatter_gather([ONE], lambda cell: fail(DBConnectionError("refused")))
    probed = threading.Event()
    clock.now += FIRST_PROBE
    answers = calls.scatter_gather([ONE], lambda cell: probed.set(), probe=True)
    assert isinstance(answers["u1"].error, CellUnavailable)
    assert probed.wait(10)
    assert eventually(lambda: calls.scatter_gather([ONE], lambda cell: 5)["u1"].value == 5)


def seconds_to_next_probe(breaker, clock):
    start = clock.now
    while not breaker.probe_due():
        clock.now += 0.5
    return clock.now - start


def test_the_interval_between_probes_doubles_up_to_a_limit_until_the_cell_answers(clock):
    breaker = CircuitBreaker(clock)
    breaker.trip(ONE, "why")
    intervals = [seconds_to_next_probe(breaker, clock) for _ in range(8)]
    assert intervals == [FIRST_PROBE, 2.0, 4.0, 8.0, 16.0, *[MAX_PROBE_INTERVAL] * 3]
    breaker.reset(ONE)
    assert breaker.open_reason is None
    breaker.trip(ONE, "again")
    assert seconds_to_next_probe(breaker, clock) == FIRST_PROBE


def test_after_a_late_answer_a_cell_is_called_again():
    calls = CellCalls(lambda: 0.05)
    release = threading.Event()
    calls.scatter_gather([ONE], lambda cell: release.wait(30))
    release.set()
    assert eventually(lambda: calls.scatter_gather([ONE], lambda cell: 5)["u1"].value == 5)


def test_after_a_reset_of_the_breakers_all_cells_are_called(hung):
    timeouts = iter([0.05, 0.05])
    calls = CellCalls(lambda: next(timeouts, 10.0))
    calls.scatter_gather([ONE], lambda cell: hung())
    calls.reset_breakers()
    assert calls.scatter_gather([ONE], lambda cell: 5)["u1"].value == 5


def test_without_a_thread_for_a_cell_its_answer_is_the_error(monkeypatch):
    error = RuntimeError("can't start new thread")
    monkeypatch.setattr(threading.Thread, "start", lambda thread: fail(error))
    answers = CellCalls(lambda: 10.0).scatter_gather([ONE], lambda cell: 5)
    assert answers["u1"].error is error
