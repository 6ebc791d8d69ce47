from scheduler.rpc.activity import Activity
from tests.support.clock import Clock


def test_a_server_whose_threads_are_all_busy_and_finish_nothing_stalls():
    clock = Clock()
    activity = Activity(2, clock)
    with activity.message():
        clock.now += 100
        assert activity.stalled() == 0.0, "a thread is free"
        with activity.message():
            clock.now += 7
            assert (activity.in_flight, activity.stalled()) == (2, 7.0)
        with activity.message():
            clock.now += 3
            assert activity.stalled() == 3.0, "a message was finished meanwhile"
    assert (activity.in_flight, activity.stalled()) == (0, 0.0)


def test_a_server_with_free_threads_that_begins_no_call_stalls():
    """Its threads are dead: something has stopped the pool."""
    clock = Clock()
    activity = Activity(2, clock)
    clock.now += 100
    assert activity.stalled(unanswered=0) == 0.0, "there is nothing to do"
    assert activity.stalled(unanswered=1) == 100.0
    with activity.message():
        clock.now += 7
        assert activity.stalled(unanswered=1) == 0.0, "the only call is handled, and more could be"
        assert activity.stalled(unanswered=2) == 7.0


def test_a_server_whose_threads_are_all_busy_does_not_stall_while_its_claims_get_on():
    clock = Clock()
    activity = Activity(1, clock)
    with activity.message():
        clock.now += 100
        activity.touch()
        clock.now += 3
        assert activity.stalled() == 3.0
