"""What is noted of the waits of a request."""

import contextvars
import threading

import pytest

from scheduler.bounds.waits import Wait, Waits, waiting_for
from tests.support.clock import Clock


def test_the_innermost_wait_counts_until_it_ends():
    clock = Clock(10.0)
    waits = Waits(clock)
    with waits:
        assert waits.current is None
        with waiting_for("the outer"):
            clock.now = 12.0
            with waiting_for("the inner"):
                assert waits.current == Wait("the inner", 12.0)
            assert waits.current == Wait("the outer", 10.0)
    assert waits.current is None


def test_an_error_ends_a_wait():
    waits = Waits()
    with pytest.raises(TimeoutError), waits, waiting_for("a reply"):
        raise TimeoutError
    assert waits.current is None


def test_what_is_waited_for_is_made_when_it_is_asked_for():
    left = ["a", "b"]
    waits = Waits()
    with waits, waiting_for(lambda: " and ".join(left)):
        assert waits.current.text == "a and b"
        left.remove("a")
        assert waits.current.text == "b"


def test_where_nobody_notes_nothing_is_noted():
    waits = Waits()
    with waits:
        pass
    with waiting_for("anything"):
        assert waits.current is None


def test_threads_that_read_for_one_request_end_their_waits_in_any_order():
    waits, first_may_end, first_ended = Waits(), threading.Event(), threading.Event()

    def first():
        with waiting_for("the first"):
            assert first_may_end.wait(30)
        first_ended.set()

    with waits:
        thread = threading.Thread(target=contextvars.copy_context().run, args=(first,))
        thread.start()
        with waiting_for("the second"):
            first_may_end.set()
            assert first_ended.wait(30)
            assert waits.current.text == "the second"
    thread.join()
    assert waits.current is None
