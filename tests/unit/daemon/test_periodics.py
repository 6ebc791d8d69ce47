import threading

import pytest

from scheduler.daemon.periodics import Periodic, PeriodicLoops


@pytest.fixture
def loops():
    made = PeriodicLoops()
    yield made
    made.stop()


def test_work_goes_on_after_a_failure_which_is_logged_by_the_name_of_the_work(loops, caplog):
    again, calls = threading.Event(), []

    def call():
        calls.append(1)
        if len(calls) == 1:
            raise OSError("database")
        again.set()

    loops.start([Periodic("heartbeat", call, interval=0.01)])
    assert again.wait(60)
    assert "Background loop heartbeat failed" in caplog.text


def test_nothing_is_begun_after_the_stop(loops):
    called = threading.Event()
    loops.stop()
    loops.start([Periodic("work", called.set, interval=0.01)])
    assert not called.wait(0.05)
