"""Which workers hang, and what is done about it."""

import signal

import pytest

from scheduler.health.reports import Report, WorkerState
from scheduler.health.supervision import ABORT_TIME, MOVING, STALE, WorkerTable
from tests.support.clock import Clock

TIMEOUT = 60.0


class World:
    def __init__(self, count=2, timeout=TIMEOUT):
        self.clock = Clock()
        self.killed = []
        self.table = WorkerTable(count, lambda: timeout, self.clock, self.kill)

    def kill(self, pid, number):
        self.killed.append((pid, signal.Signals(number).name))

    def report(self, worker, pid=None, **state):
        pid = 100 + worker if pid is None else pid
        self.table.reported([Report(worker, pid, "serving", 0, WorkerState(**state), {})])

    def pass_time(self, seconds, *workers, **state):
        """Let these workers report once a second, and the master look at them."""
        for _ in range(int(seconds)):
            self.clock.now += 1
            for worker in workers:
                self.report(worker, **state)
            self.table.check()


@pytest.fixture
def world():
    return World()


def test_workers_that_report_are_left_alone(world):
    world.pass_time(10 * TIMEOUT, 0, 1)
    assert world.killed == []
    assert world.table.all_alive()


def test_a_worker_without_a_report_is_aborted_then_killed(world, caplog):
    world.pass_time(1, 0, 1)
    world.pass_time(TIMEOUT, 0)
    assert world.killed == []
    world.pass_time(1, 0)
    assert world.killed == [(101, "SIGABRT")]
    world.pass_time(ABORT_TIME + 1, 0)
    assert world.killed == [(101, "SIGABRT"), (101, "SIGKILL")]
    assert "Worker 1 (process 101) made no progress for 61 seconds and is killed" in caplog.text


def test_a_worker_that_reports_that_nothing_moves_is_killed(world):
    world.pass_time(1, 0, 1)
    for _ in range(int(TIMEOUT)):
        world.report(1)
        world.pass_time(1, 0, stalled=MOVING)
    assert world.killed == []
    world.report(1)
    world.pass_time(1, 0, stalled=MOVING)
    assert world.killed == [(100, "SIGABRT")]


def test_a_worker_that_is_slow_is_not_killed(world):
    world.pass_time(3 * TIMEOUT, 0, 1, stalled=MOVING - 1)
    assert world.killed == []


def test_a_worker_that_goes_on_in_time_is_not_killed_after_all(world):
    world.pass_time(1, 0, 1)
    world.pass_time(TIMEOUT + 1, 0)
    assert world.killed == [(101, "SIGABRT")]
    world.pass_time(ABORT_TIME + 10, 0, 1)
    assert world.killed == [(101, "SIGABRT")]


def test_after_a_pause_of_the_whole_daemon_no_worker_is_killed(world, caplog):
    """A container was paused: the master may run before its workers do, and what they report first is old."""
    world.pass_time(1, 0, 1)
    world.clock.now += 10 * TIMEOUT
    world.table.check()
    world.pass_time(3, 0, 1, stalled=10 * TIMEOUT)
    assert world.killed == []
    assert world.table.all_alive()
    assert "Master process was suspended for 600 s" in caplog.text
    world.pass_time(TIMEOUT, 0)
    assert world.killed == [(101, "SIGABRT")], "it did not go on"


def test_a_worker_that_has_not_reported_yet_has_no_process_to_kill(world):
    world.pass_time(3 * TIMEOUT)
    assert world.killed == []
    assert not world.table.all_alive(), "the service has to be restarted as a whole"


def test_with_a_timeout_of_0_no_worker_hangs():
    world = World(timeout=0.0)
    world.pass_time(1, 0)
    world.pass_time(1000)
    assert world.killed == []
    assert world.table.all_alive()


def test_the_end_of_a_worker_tells_whether_it_hung(world):
    world.pass_time(1, 0, 1)
    world.pass_time(TIMEOUT + 1, 1)
    assert world.table.ended(0)
    world.report(0, pid=200)
    assert not world.table.ended(0)
    assert not world.table.ended(99), "no such worker"


def test_a_late_report_of_a_process_that_has_ended_is_not_taken_for_its_successor(world):
    world.table.reported([Report(0, 100, "starting", 0, WorkerState(), {})])
    world.table.ended(0)
    world.report(0, pid=100, api_database=True)
    assert world.table.records[0].report is None
    assert world.table.loaded == world.table.served == {0}, "it came that far"
    world.report(0, pid=200)
    assert world.table.records[0].report.pid == 200


def test_a_process_that_is_gone_when_it_is_killed_is_no_error(world):
    def gone(pid, number):
        raise ProcessLookupError

    world.table = WorkerTable(1, lambda: TIMEOUT, world.clock, gone)
    world.pass_time(1, 0)
    world.pass_time(TIMEOUT + ABORT_TIME + 5)


def test_a_worker_that_is_killed_and_does_not_end_means_that_the_service_is_not_alive(world):
    world.pass_time(1, 0, 1)
    world.pass_time(2 * TIMEOUT, 0)
    assert world.table.all_alive()
    world.pass_time(1, 0)
    assert not world.table.all_alive()


def test_old_reports_are_not_shown(world):
    world.report(0)
    world.clock.now += STALE + 1
    world.report(1)
    assert [record.number for record in world.table.current()] == [1]
    assert [record.phase for record in world.table.records] == ["serving", "serving"]
    world.table.ended(0)
    assert [record.phase for record in world.table.records] == ["missing", "serving"]
