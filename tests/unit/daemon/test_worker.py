"""One worker in this process, its parts replaced."""

import sys
import threading
from types import SimpleNamespace

import pytest

from scheduler import conf as options
from scheduler import errors
from scheduler.daemon.parts import Periodic, WorkerParts
from scheduler.daemon.worker import Worker
from scheduler.health.reports import ReportChannel
from tests.support.waiting import eventually


def shared_state():
    return SimpleNamespace(
        accepted=SimpleNamespace(value=0),
        taken_over=0,
        reloads=SimpleNamespace(value=0),
        calls=SimpleNamespace(of=lambda worker_id: None),
        monitor=SimpleNamespace(channel=ReportChannel(), close_in_child=lambda: None),
    )


def is_reported(worker, phase):
    """Whether the worker reports this phase, and none that would follow it."""
    seen = set()

    def is_last():
        seen.update(report.phase for report in worker.shared.monitor.channel.received())
        return phase in seen

    phases = ("starting", "serving", "stopping")
    return eventually(is_last) and not seen.intersection(phases[phases.index(phase) + 1 :])


def accept(shared):
    """Do what the master does when it has taken over a change."""
    shared.accepted.value += 1
    shared.reloads.value += 1


class Manager:
    """Writes down what is asked of it."""

    def __init__(self, log, failure=None, reset_failure=None, database=True, on_start=None, on_reset=None):
        self.log = log
        self.on_start = on_start
        self.on_reset = on_reset
        self.database = database
        self.failure = failure
        self.reset_failure = reset_failure

    def start(self):
        self.log.append("manager.start")
        if self.on_start:
            self.on_start()
        if self.failure:
            raise self.failure

    def wait_until_ready(self, timeout):
        if not self.database:
            self.log.append(("manager.wait", timeout))
        return self.database

    def wait_until_able(self, timeout):
        return True

    def stop_claiming(self):
        self.log.append("manager.stop_claiming")

    def catch_up(self, worker):
        self.log.append("manager.catch_up")

    def stop(self, timeout):
        self.log.append(("manager.stop", timeout > 0))

    def reset(self):
        self.log.append("manager.reset")
        if self.on_reset:
            self.on_reset()
        if self.reset_failure:
            raise self.reset_failure


class Transport:
    def __init__(self, log):
        self.log = log

    def cleanup(self):
        self.log.append("transport.cleanup")


class Server:
    def __init__(self, log, answered=None, on_start=None):
        self.log = log
        self.on_start = on_start
        self.transport = Transport(log)
        self.answered = answered
        self.busy = answered is not None

    def start(self):
        self.log.append("server.start")
        if self.on_start:
            self.on_start()

    def stop(self):
        self.log.append("server.stop")

    def wait(self):
        if self.answered:
            self.answered.wait()
        self.log.append("server.wait")


@pytest.fixture
def build(tmp_path):
    def build(
        worker_id=0,
        manager=None,
        answered=None,
        periodics=(),
        text="",
        explanations=None,
        accepted_since_fork=0,
        on_server_start=None,
    ):
        path = tmp_path / "nova.conf"
        path.write_text(text)
        argv = ["--config-file", str(path)]
        log = []
        parts = WorkerParts(
            manager=lambda conf: Manager(log, **(manager or {})),
            server=lambda conf, manager, worker: Server(log, answered, on_server_start),
            periodics=lambda conf, manager: list(periodics),
            explanations=explanations,
        )
        shared = shared_state()
        shared.accepted.value = accepted_since_fork
        worker = Worker(worker_id, options.load(argv), argv, parts, shared)
        worker.shared = shared
        return worker, log, path

    return build


def test_a_worker_loads_before_it_takes_requests(build):
    worker, log, _ = build()
    worker.run()
    assert log == ["manager.start", "manager.catch_up", "server.start"]
    assert is_reported(worker, "serving")


def test_a_worker_stops_consuming_then_answers_then_closes(build):
    worker, log, _ = build()
    worker.run()
    del log[:]
    worker.terminate()
    assert log == [
        "manager.stop_claiming",
        "server.stop",
        "server.wait",
        "transport.cleanup",
        ("manager.stop", True),
    ]


def test_a_worker_that_has_not_started_has_nothing_to_stop(build):
    worker, log, _ = build()
    worker.terminate()
    assert log == []


def test_a_worker_that_stops_during_its_start_takes_no_requests(build):
    """It may stop for long: what it finds in the journal is given back first."""

    def stop():
        worker.terminate()

    worker, log, _ = build(manager={"on_start": stop})
    worker.run()
    assert log == ["manager.start", "manager.catch_up"]
    assert is_reported(worker, "stopping")


def test_a_worker_that_stops_while_it_waits_for_the_broker_takes_no_requests_once_that_is_there(build):
    def stop():
        worker.terminate()

    worker, log, _ = build(on_server_start=stop)
    worker.run()
    assert log[-4:] == ["server.start", "manager.stop_claiming", ("manager.stop", True), "server.stop"]
    assert is_reported(worker, "stopping")


def test_requests_that_take_too_long_are_left(build):
    answered = threading.Event()
    worker, log, _ = build(answered=answered, text="[DEFAULT]\nmanager_shutdown_timeout=1\n")
    worker.run()
    worker.terminate()
    assert "server.wait" not in log
    assert log[-1][0] == "manager.stop"
    answered.set()


@pytest.mark.parametrize(
    "failure",
    [
        errors.ConfigError("no"),
        errors.HostFilterNotFound(["X"]),
        OSError("disk"),
        ValueError(),
        SystemExit(0),
    ],
    ids=repr,
)
def test_a_worker_that_cannot_start_exits_1_and_is_not_ready(build, failure):
    worker, log, _ = build(manager={"failure": failure})
    with pytest.raises(SystemExit) as end:
        worker.run()
    assert end.value.code == 1
    assert log == ["manager.start"]
    assert is_reported(worker, "starting")


def test_a_worker_without_the_api_database_exits_3_and_takes_no_requests(build):
    worker, log, _ = build(manager={"database": False}, text="[berth]\ndatabase_start_timeout=7\n")
    with pytest.raises(SystemExit) as end:
        worker.run()
    assert end.value.code == 3
    assert log == ["manager.start", ("manager.wait", 0), ("manager.wait", 7)]
    assert is_reported(worker, "starting")


def test_reload_reads_options_before_the_manager_looks_at_them(build):
    worker, log, path = build(text="[scheduler]\nmax_attempts=4\n")
    worker.run()
    path.write_text("[scheduler]\nmax_attempts=5\n")
    accept(worker.shared)
    worker.reload()
    assert worker.conf.scheduler.max_attempts == 5
    assert log[-1] == "manager.reset"


def test_a_change_that_comes_while_the_manager_starts_reaches_it(build):
    """It may wait for Placement then, and was built from the old options."""

    def change():
        path.write_text("[scheduler]\nmax_attempts=5\n")
        accept(worker.shared)
        worker.reload()

    worker, log, path = build(manager={"on_start": change})
    worker.run()
    assert worker.conf.scheduler.max_attempts == 5
    assert log == ["manager.start", "manager.reset", "manager.catch_up", "server.start"]


def test_a_change_that_comes_during_a_reload_follows_it(build):
    """cotyledon drops the signal: a reload reads databases, which may take long."""
    changes = ["[scheduler]\nmax_attempts=6\n"]

    def change():
        if changes:
            path.write_text(changes.pop())
            accept(worker.shared)

    worker, log, path = build(manager={"on_reset": change})
    worker.run()
    worker.reload()
    assert worker.conf.scheduler.max_attempts == 6
    assert log[-2:] == ["manager.reset", "manager.reset"]


def test_a_worker_that_was_forked_before_a_change_follows_it(build):
    """The master may accept it between the fork and the first line of the worker."""
    worker, _, path = build(accepted_since_fork=1)
    worker.run()
    path.write_text("[scheduler]\nmax_attempts=5\n")
    worker.reload()
    assert worker.conf.scheduler.max_attempts == 5


def test_a_change_that_fails_half_way_does_not_end_the_worker(build, caplog):
    """As when a file that the master has read is gone."""
    worker, log, path = build()
    worker.run()
    accept(worker.shared)
    path.write_text(f"[DEFAULT]\nlog_config_append={path}.absent\n")
    worker.reload()
    assert log[-1] == "manager.reset"
    assert "Worker 0 cannot re-read its configuration" in caplog.text


def test_a_change_that_cannot_be_read_is_read_with_the_next_signal(build, caplog):
    worker, log, path = build()
    worker.run()
    accept(worker.shared)
    path.write_bytes(b"\xff")
    worker.reload()
    assert log[-1] == "manager.reset"
    path.write_text("[scheduler]\nmax_attempts=5\n")
    worker.reload()
    assert worker.conf.scheduler.max_attempts == 5


@pytest.mark.parametrize(
    "failure", [OSError("database"), errors.HostFilterNotFound(["X"]), SystemExit(1)], ids=repr
)
def test_a_reset_that_fails_does_not_end_the_worker(build, caplog, failure):
    worker, log, _ = build(manager={"reset_failure": failure})
    worker.run()
    worker.reload()
    assert log[-1] == "manager.reset"
    assert "Worker 0 cannot reload everything" in caplog.text


def test_reload_before_the_start_is_over(build):
    worker, log, _ = build()
    worker.reload()
    assert log == []


@pytest.mark.parametrize(("worker_id", "expected"), [(0, True), (1, False)])
def test_only_worker_0_has_periodic_work(build, worker_id, expected):
    done = threading.Event()
    works = [Periodic("work", done.set, interval=1000)]
    worker, _, _ = build(worker_id, periodics=works)
    worker.run()
    if expected:
        assert done.wait(60)
    worker.terminate()
    assert done.is_set() is expected


class Explanations:
    """The server of questions; notes what is asked of it."""

    def __init__(self, failure=None, stop_failure=None):
        self.failure = failure
        self.stop_failure = stop_failure
        self.log = []

    def __call__(self, conf, manager, transport, worker_id):
        self.log.append(("build", worker_id))
        return self

    def start(self):
        if self.failure:
            raise self.failure
        self.log.append("start")

    def stop(self):
        self.log.append("stop")
        if self.stop_failure:
            raise self.stop_failure


def test_questions_are_answered_as_long_as_requests_are(build):
    explanations = Explanations()
    worker, _, _ = build(3, explanations=explanations)
    worker.run()
    assert explanations.log == [("build", 3), "start"]
    worker.terminate()
    assert explanations.log[-1] == "stop"


def test_a_worker_that_stops_takes_no_requests_while_its_server_of_questions_stops(build):
    """It would return each of them. Both waits are one."""
    explanations = Explanations()
    worker, log, _ = build(explanations=explanations)
    worker.run()
    explanations.stop = lambda: log.append(eventually(lambda: "server.wait" in log))
    worker.terminate()
    assert log[-5:] == ["server.stop", "server.wait", True, "transport.cleanup", ("manager.stop", True)]


def test_requests_are_finished_although_the_server_of_questions_cannot_stop(build, caplog):
    """oslo.messaging starts a thread for that, which the system may refuse."""
    explanations = Explanations(stop_failure=RuntimeError("can't start new thread"))
    worker, log, _ = build(explanations=explanations)
    worker.run()
    worker.terminate()
    assert log[-3:] == ["server.wait", "transport.cleanup", ("manager.stop", True)]
    assert "Worker 0 cannot stop answering berth-explain" in caplog.text


def test_a_worker_whose_standard_error_is_closed_takes_requests(build, monkeypatch):
    worker, _, _ = build()
    monkeypatch.setattr(sys, "stderr", None)
    worker.run()
    assert is_reported(worker, "serving")


def test_a_worker_that_cannot_be_asked_for_reports_takes_requests(build, tmp_path, caplog):
    """The file was there when the daemon was started; each worker that followed would end at once."""
    worker, _, _ = build(text=f"[oslo_reports]\nfile_event_handler={tmp_path}/absent\n")
    worker.run()
    assert is_reported(worker, "serving")
    assert "Worker 0 cannot install the report on SIGUSR2: [oslo_reports]/file_event_handler" in caplog.text


def test_a_worker_that_can_answer_no_questions_takes_requests(build, caplog):
    worker, log, _ = build(explanations=Explanations(OSError("broker")))
    worker.run()
    assert log == ["manager.start", "manager.catch_up", "server.start"]
    assert is_reported(worker, "serving")
    assert "Worker 0 cannot answer berth-explain" in caplog.text
    worker.terminate()
