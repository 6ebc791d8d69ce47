import threading

import pytest

from scheduler.bounds.background import BackgroundLoop
from tests.support.waiting import eventually


class Rounds:
    """Work that says what each round does: a number is returned, an error raised. The last one repeats."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.count = 0

    def __call__(self):
        outcome = self.outcomes[min(self.count, len(self.outcomes) - 1)]
        self.count += 1
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


@pytest.fixture
def made():
    loops = []

    def make(work, **options):
        loops.append(BackgroundLoop("sweeper", work, **options))
        return loops[-1]

    yield make
    for loop in loops:
        assert loop.stop(10)


def test_rounds_follow_each_other_after_the_seconds_that_each_returns(made):
    waited = []

    def wait(event, seconds):
        waited.append(seconds)
        return event.wait(1000 if len(waited) > 3 else 0)

    loop = made(Rounds(5.0, 7.0, 9.0), wait=wait)
    loop.start(delay=2.0)
    assert eventually(lambda: waited == [2.0, 5.0, 7.0, 9.0])


@pytest.mark.parametrize("error", [ValueError("odd"), SystemExit(1)], ids=["error", "SystemExit"])
def test_after_an_error_the_loop_logs_it_pauses_and_goes_on(made, caplog, error):
    work = Rounds(error, 1000.0)
    made(work, pause_after_error=0.01).start()
    assert eventually(lambda: work.count == 2)
    assert "Background loop sweeper failed" in caplog.text
    assert type(error).__name__ in caplog.text


def test_wake_does_not_shorten_the_pause_after_an_error(made):
    work = Rounds(ValueError())
    loop = made(work, pause_after_error=1000.0)
    loop.start()
    assert eventually(lambda: work.count == 1)
    loop.wake()
    assert not eventually(lambda: work.count > 1, seconds=0.05)


def test_wake_ends_the_wait_between_rounds(made):
    work = Rounds(1000.0)
    loop = made(work)
    loop.start(delay=1000.0)
    for count in (1, 2, 3):
        loop.wake()
        assert eventually(lambda count=count: work.count == count), count


def test_wake_during_a_round_lets_another_one_follow_at_once(made):
    begun, release, count = threading.Event(), threading.Event(), []

    def work():
        count.append(1)
        begun.set()
        release.wait(60)
        return 1000.0

    loop = made(work)
    loop.start()
    assert begun.wait(60)
    loop.wake()
    release.set()
    assert eventually(lambda: len(count) == 2)


def test_start_while_running_does_nothing(made):
    work = Rounds(1000.0)
    loop = made(work)
    for _ in range(3):
        loop.start()
    assert eventually(lambda: work.count == 1)
    assert sum(thread.name == "sweeper" for thread in threading.enumerate()) == 1


def test_a_stopped_loop_makes_no_more_rounds_and_can_be_started_again(made):
    work = Rounds(0.001)
    loop = made(work)
    loop.start()
    assert eventually(lambda: work.count > 1)
    assert loop.stop(10)
    assert not loop.running
    count = work.count
    assert not eventually(lambda: work.count > count, seconds=0.02)
    loop.start()
    assert eventually(lambda: work.count > count)


def test_stop_waits_for_a_hung_round_only_until_its_timeout(made):
    begun, release = threading.Event(), threading.Event()

    def work():
        begun.set()
        release.wait(60)
        return 0.0

    loop = made(work)
    loop.start()
    assert begun.wait(60)
    assert not loop.stop(0.01)
    release.set()
    assert loop.stop(10)


def test_after_a_failed_thread_start_the_next_start_succeeds(made, monkeypatch):
    work = Rounds(1000.0)
    loop = made(work)

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            loop.start()
    assert not loop.running
    loop.start()
    assert eventually(lambda: work.count == 1)


def test_stop_by_the_loop_itself_ends_it(made):
    loop = made(lambda: loop.stop() or 0.0)
    loop.start()
    assert eventually(lambda: not loop.running)
