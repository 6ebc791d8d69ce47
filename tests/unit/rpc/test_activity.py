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
