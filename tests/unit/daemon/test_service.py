"""A service in this process, its parts replaced."""

import threading

import pytest

from scheduler import conf as options
from scheduler import errors
from scheduler.daemon.service import Periodic, Service, ServiceParts


class Monitor:
    """Notes what is told to it."""

    def __init__(self):
        self.told = []

    def serving(self):
        self.told.append("serving")

    def stopping(self, limit):
        self.told.append(("stopping", limit))

    def begin_reload(self):
        self.told.append("reload begins")

    def end_reload(self, *, accepted):
        self.told.append(("reload ends", accepted))


class Manager:
    """Writes down what is asked of it."""

    def __init__(self, log, failure=None, reset_failure=None, database=True, on_start=None):
        self.log = log
        self.on_start = on_start
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

    def catch_up(self):
        self.log.append("manager.catch_up")

    def stop(self, seconds_left):
        self.log.append(("manager.stop", seconds_left() > 0))

    def reset(self):
        self.log.append("manager.reset")
        if self.reset_failure:
            raise self.reset_failure


class Bus:
    def __init__(self, log):
        self.log = log

    def close(self):
        self.log.append("bus.close")


class Server:
    def __init__(self, log, answered=None, on_start=None):
        self.log = log
        self.on_start = on_start
        self.bus = Bus(log)
        self.answered = answered
        self.open_calls = [answered] if answered else []

    def connect(self):
        self.log.append("server.connect")

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
        manager=None,
        answered=None,
        periodics=(),
        text="",
        explanations=None,
        on_server_start=None,
        try_options=lambda conf: None,
    ):
        path = tmp_path / "nova.conf"
        path.write_text(text)
        argv = ["--config-file", str(path)]
        log = []
        parts = ServiceParts(
            manager=lambda conf: Manager(log, **(manager or {})),
            server=lambda conf, manager: Server(log, answered, on_server_start),
            periodics=lambda conf, manager: list(periodics),
            explanations=explanations,
        )
        service = Service(options.load(argv), argv, parts, Monitor(), try_options)
        service.told = service._monitor.told
        return service, log, path

    return build


def test_a_service_loads_before_it_takes_requests(build):
    service, log, _ = build()
    assert service.start() == 0
    assert log == ["manager.start", "server.connect", "manager.catch_up", "server.start"]
    assert service.told == ["serving"]


def test_a_service_stops_consuming_then_answers_then_closes(build):
    service, log, _ = build()
    service.start()
    del log[:]
    service.stop()
    assert log == [
        "manager.stop_claiming",
        "server.stop",
        "server.wait",
        "bus.close",
        ("manager.stop", True),
    ]
    assert service.told[-1] == ("stopping", service.conf.graceful_shutdown_timeout)


def test_a_service_that_has_not_started_has_nothing_to_stop(build):
    service, log, _ = build()
    service.stop()
    assert log == []


def test_a_service_that_stops_during_its_start_takes_no_requests(build):
    """It may stop for long: what it finds in the journal is given back first."""
    service, log, _ = build(manager={"on_start": lambda: service.stop()})  # noqa: PLW0108
    assert service.start() == 0
    assert log == ["manager.start", "server.connect", "manager.catch_up"]
    assert "serving" not in service.told


def test_a_service_that_stops_while_it_waits_for_the_broker_takes_no_requests_once_that_is_there(build):
    service, log, _ = build(on_server_start=lambda: service.stop())  # noqa: PLW0108
    service.start()
    assert log[-4:] == ["server.start", "manager.stop_claiming", ("manager.stop", True), "server.stop"]
    assert "serving" not in service.told


def test_requests_that_take_too_long_are_left(build):
    answered = threading.Event()
    service, log, _ = build(answered=answered, text="[DEFAULT]\nmanager_shutdown_timeout=1\n")
    service.start()
    service.stop()
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
def test_a_service_that_cannot_start_has_status_1_and_is_not_ready(build, failure):
    service, log, _ = build(manager={"failure": failure})
    assert service.start() == 1
    assert log == ["manager.start"]
    assert service.told == []


def test_a_service_without_the_api_database_has_status_3_and_takes_no_requests(build):
    service, log, _ = build(manager={"database": False}, text="[berth]\ndatabase_start_timeout=7\n")
    assert service.start() == 3
    assert log == ["manager.start", ("manager.wait", 0), ("manager.wait", 7)]
    assert service.told == []


def test_reload_reads_options_before_the_manager_looks_at_them(build):
    service, log, path = build(text="[scheduler]\nmax_attempts=4\n")
    service.start()
    path.write_text("[scheduler]\nmax_attempts=5\n")
    service.reload()
    assert service.conf.scheduler.max_attempts == 5
    assert log[-1] == "manager.reset"
    assert service.told[-2:] == ["reload begins", ("reload ends", True)]


def test_options_that_cannot_work_change_nothing(build, caplog):
    def refuse(conf):
        raise errors.ConfigError(f"no manager with {conf.scheduler.max_attempts} attempts")

    service, log, path = build(text="[scheduler]\nmax_attempts=4\n", try_options=refuse)
    service.start()
    path.write_text("[scheduler]\nmax_attempts=5\n")
    service.reload()
    assert service.conf.scheduler.max_attempts == 4
    assert log[-1] == "manager.reset", "connections are opened again all the same"
    assert service.told[-1] == ("reload ends", False)
    assert "all options stay as they were: no manager with 5 attempts" in caplog.text


def test_a_change_that_comes_while_the_manager_starts_reaches_it(build):
    """It may wait for Placement then, and was built from the old options."""

    def change():
        path.write_text("[scheduler]\nmax_attempts=5\n")
        service.reload()

    service, log, path = build(manager={"on_start": change})
    service.start()
    assert service.conf.scheduler.max_attempts == 5
    assert log == ["manager.start", "manager.reset", "server.connect", "manager.catch_up", "server.start"]


def test_a_change_that_fails_half_way_does_not_end_the_service(build, caplog):
    """As when a file that was checked is gone."""
    service, log, path = build()
    service.start()
    path.write_text(f"[DEFAULT]\nlog_config_append={path}.absent\n")
    service.reload()
    assert log[-1] == "manager.reset"
    assert "Cannot re-read the configuration" in caplog.text


def test_a_change_that_cannot_be_read_is_read_with_the_next_signal(build):
    service, log, path = build()
    service.start()
    path.write_bytes(b"\xff")
    service.reload()
    assert log[-1] == "manager.reset"
    path.write_text("[scheduler]\nmax_attempts=5\n")
    service.reload()
    assert service.conf.scheduler.max_attempts == 5


@pytest.mark.parametrize(
    "failure", [OSError("database"), errors.HostFilterNotFound(["X"]), SystemExit(1)], ids=repr
)
def test_a_reset_that_fails_does_not_end_the_service(build, caplog, failure):
    service, log, _ = build(manager={"reset_failure": failure})
    service.start()
    service.reload()
    assert log[-1] == "manager.reset"
    assert "Cannot reload everything" in caplog.text


def test_reload_before_the_start(build):
    service, log, _ = build()
    service.reload()
    assert log == []


def test_periodic_work_begins_with_the_service(build):
    done = threading.Event()
    service, _, _ = build(periodics=[Periodic("work", done.set, interval=1000)])
    service.start()
    assert done.wait(60)
    service.stop()


class Explanations:
    """The server of questions; notes what is asked of it."""

    def __init__(self, failure=None, stop_failure=None):
        self.failure = failure
        self.stop_failure = stop_failure
        self.log = []

    def __call__(self, conf, manager, server):
        return self

    def start(self):
        if self.failure:
            raise self.failure
        self.log.append("start")

    def stop(self):
        self.log.append("stop")
        if self.stop_failure:
            raise self.stop_failure

    def wait(self):
        self.log.append("wait")


def test_questions_are_answered_until_the_last_request_is(build):
    explanations = Explanations()
    service, log, _ = build(explanations=explanations)
    service.start()
    assert explanations.log == ["start"]
    explanations.log = log
    service.stop()
    assert log[-6:] == ["server.stop", "server.wait", "stop", "wait", "bus.close", ("manager.stop", True)]


def test_requests_are_finished_although_the_server_of_questions_cannot_stop(build, caplog):
    explanations = Explanations(stop_failure=RuntimeError("can't start new thread"))
    service, log, _ = build(explanations=explanations)
    service.start()
    service.stop()
    assert log[-3:] == ["server.wait", "bus.close", ("manager.stop", True)]
    assert "Cannot stop answering berth-explain" in caplog.text


def test_a_service_that_can_answer_no_questions_takes_requests(build, caplog):
    service, log, _ = build(explanations=Explanations(OSError("broker")))
    service.start()
    assert log == ["manager.start", "server.connect", "manager.catch_up", "server.start"]
    assert service.told == ["serving"]
    assert "Cannot answer berth-explain" in caplog.text
    service.stop()
