import logging
import threading

from oslo_db.exception import DBConnectionError
import pytest

from scheduler.nova_db import scatter_gather
from scheduler.nova_db.cells import Cell
from scheduler.nova_db.scatter_gather import CellCalls, CellUnavailable
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


def test_values_and_errors():
    error = ValueError("odd")
    outcomes = CellCalls(lambda: 10.0).gather(
        [ONE, TWO], lambda cell: of(cell, cell1=lambda: 5, cell2=lambda: fail(error))
    )
    assert (outcomes["u1"].value, outcomes["u1"].error) == (5, None)
    assert (outcomes["u2"].value, outcomes["u2"].error) == (None, error)


def test_no_cells():
    assert CellCalls(lambda: 10.0).gather([], print) == {}


def test_cells_are_asked_at_the_same_time():
    barrier = threading.Barrier(2, timeout=10)
    outcomes = CellCalls(lambda: 20.0).gather([ONE, TWO], lambda cell: barrier.wait())
    assert {outcome.error for outcome in outcomes.values()} == {None}


def test_a_hung_cell_does_not_keep_the_others(hung):
    calls = CellCalls(lambda: 0.2)
    outcomes = calls.gather([ONE, TWO], lambda cell: of(cell, cell1=hung, cell2=lambda: 5))
    assert isinstance(outcomes["u1"].error, CellUnavailable)
    assert outcomes["u2"].value == 5


def test_a_suspect_cell_is_not_asked_again(hung, caplog):
    calls = CellCalls(lambda: 0.1)
    calls.gather([ONE], lambda cell: hung())
    asked = []
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        outcomes = calls.gather([ONE, TWO], lambda cell: asked.append(cell.name))
    assert asked == ["cell2"]
    assert isinstance(outcomes["u1"].error, CellUnavailable)
    assert caplog.text == ""


def test_a_cell_that_cannot_be_connected_to_is_suspect():
    calls = CellCalls(lambda: 10.0)
    calls.gather([ONE], lambda cell: fail(DBConnectionError("refused")))
    assert isinstance(calls.gather([ONE], lambda cell: 5)["u1"].error, CellUnavailable)


def test_another_error_makes_no_suspect():
    calls = CellCalls(lambda: 10.0)
    calls.gather([ONE], lambda cell: fail(ValueError()))
    assert calls.gather([ONE], lambda cell: 5)["u1"].value == 5


def test_a_suspect_cell_is_probed_and_comes_back(monkeypatch):
    monkeypatch.setattr(scatter_gather, "FIRST_PROBE", 0.0)
    calls = CellCalls(lambda: 10.0)
    calls.gather([ONE], lambda cell: fail(DBConnectionError("refused")))
    probed = threading.Event()
    outcomes = calls.gather([ONE], lambda cell: probed.set(), probe=True)
    assert isinstance(outcomes["u1"].error, CellUnavailable)
    assert probed.wait(10)
    assert eventually(lambda: calls.gather([ONE], lambda cell: 5)["u1"].value == 5)


def test_probes_grow_rarer():
    breaker = scatter_gather.CircuitBreaker()
    breaker.trip(ONE, "why")
    assert not breaker.probe_due()
    breaker._probe_at = 0.0
    assert breaker.probe_due()
    assert not breaker.probe_due()
    for _ in range(9):
        breaker._probe_at = 0.0
        breaker.probe_due()
    assert breaker._pause == scatter_gather.LAST_PROBE
    breaker.reset(ONE)
    assert (breaker._pause, breaker.suspicion) == (scatter_gather.FIRST_PROBE, None)


def test_an_answer_that_comes_late_clears_the_cell():
    calls = CellCalls(lambda: 0.05)
    release = threading.Event()
    calls.gather([ONE], lambda cell: release.wait(30))
    release.set()
    assert eventually(lambda: calls.gather([ONE], lambda cell: 5)["u1"].value == 5)


def test_forgetting(hung):
    calls = CellCalls(lambda: 0.05)
    calls.gather([ONE], lambda cell: hung())
    calls.forget()
    calls._timeout = lambda: 10.0
    assert calls.gather([ONE], lambda cell: 5)["u1"].value == 5
