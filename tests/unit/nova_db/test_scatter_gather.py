import logging
import threading

from oslo_db.exception import DBConnectionError
import pytest

from scheduler.bounds.circuit_breaker import FIRST_PROBE
from scheduler.bounds.deadline import Deadline, limit_to
from scheduler.nova_db.cells import Cell
from scheduler.nova_db.scatter_gather import MAX_CALLS_A_CELL, CellCalls, CellUnavailable
from tests.support.waiting import eventually

ONE, TWO = (Cell(number, f"u{number}", f"cell{number}", None, True) for number in (1, 2))


@pytest.fixture
def hung():
    """A function that waits until the test is over."""
    release = threading.Event()
    yield lambda: release.wait(30)
    release.set()


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
    assert probed.wait(60)
    assert eventually(lambda: calls.scatter_gather([ONE], lambda cell: 5)["u1"].value == 5)


def test_after_a_late_answer_a_cell_is_called_again():
    calls = CellCalls(lambda: 0.05)
    release = threading.Event()
    calls.scatter_gather([ONE], lambda cell: release.wait(30))
    release.set()
    assert eventually(lambda: calls.scatter_gather([ONE], lambda cell: 5)["u1"].value == 5)


def test_a_call_of_an_outage_that_ends_after_it_does_not_leave_the_cell_out_again(clock):
    """As when the connection of a call that hangs is closed, and the cell has moved to another server."""
    calls = CellCalls(lambda: 0.05, clock)
    release, ended = threading.Event(), []

    def hang(cell):
        release.wait(30)
        try:
            raise DBConnectionError("closed")
        finally:
            ended.append(threading.current_thread())

    calls.scatter_gather([ONE], hang)
    clock.now += FIRST_PROBE
    calls.scatter_gather([ONE], lambda cell: 5, probe=True)
    assert eventually(lambda: calls.left_out(ONE) is None)
    release.set()
    assert eventually(lambda: ended)
    ended[0].join(60)
    assert calls.left_out(ONE) is None


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


def test_calls_that_hang_are_bounded_in_number(hung):
    calls = CellCalls(lambda: 0.0)
    for _ in range(MAX_CALLS_A_CELL + 10):
        calls.scatter_gather([ONE], lambda cell: hung(), left_out_too=True)
    threads = [thread for thread in threading.enumerate() if thread.name == "cell-cell1"]
    assert len(threads) == MAX_CALLS_A_CELL
    answer = calls.scatter_gather([ONE], lambda cell: 5, left_out_too=True)["u1"]
    assert isinstance(answer.error, CellUnavailable)


def test_the_deadline_of_the_request_ends_the_wait_and_does_not_leave_the_cell_out(hung):
    calls = CellCalls(lambda: 30.0)
    with limit_to(Deadline.after(0.05)):
        answer = calls.scatter_gather([ONE], lambda cell: hung())["u1"]
    assert isinstance(answer.error, CellUnavailable)
    assert calls.left_out(ONE) is None
    assert calls.scatter_gather([ONE], lambda cell: 5)["u1"].value == 5


def test_an_answer_that_the_cell_is_busy_does_not_close_its_breaker(hung):
    calls = CellCalls(lambda: 0.05)
    calls.scatter_gather([ONE], lambda cell: hung())
    calls.scatter_gather([ONE], lambda cell: fail(CellUnavailable("busy")), left_out_too=True)
    assert calls.left_out(ONE) == "no answer within 0.05 seconds"


def test_a_cell_that_is_left_out_is_called_when_the_caller_wants_it():
    calls = CellCalls(lambda: 10.0)
    calls.scatter_gather([ONE], lambda cell: fail(DBConnectionError("refused")))
    assert calls.scatter_gather([ONE], lambda cell: 5, left_out_too=True)["u1"].value == 5
    assert calls.left_out(ONE) is None
