"""When the threads of a server count as stuck; the time is that of the test."""

from scheduler.rpc.calls import State
from scheduler.rpc.open_calls import OpenCalls
from tests.support.calls import make_call


def test_a_server_whose_threads_are_all_busy_and_finish_nothing_stalls(clock):
    opened = OpenCalls(2, clock)
    with opened.serving():
        clock.now += 100
        assert opened.stalled() == 0.0, "a thread is free"
        with opened.serving():
            clock.now += 7
            assert (opened.in_flight, opened.stalled()) == (2, 7.0)
            opened.touch()
            clock.now += 2
            assert opened.stalled() == 2.0, "a claim got on meanwhile"
        with opened.serving():
            clock.now += 3
            assert opened.stalled() == 3.0, "a call was finished meanwhile"
    assert (opened.in_flight, opened.stalled()) == (0, 0.0)


def test_a_server_with_free_threads_that_begins_no_call_stalls(clock):
    """Its threads are dead: something has stopped the pool."""
    opened = OpenCalls(2, clock)
    clock.now += 100
    assert opened.stalled() == 0.0, "there is nothing to do"
    opened.add(make_call())
    assert opened.stalled() == 100.0
    with opened.serving():
        clock.now += 7
        assert opened.stalled() == 0.0, "the only call is served, and more could be"
        waiting = make_call()
        opened.add(waiting)
        waiting.state = State.WAITS_FOR_READER
        assert opened.stalled() == 0.0, "what waits for its reader does so without a thread"
        opened.add(make_call())
        assert opened.stalled() == 7.0
