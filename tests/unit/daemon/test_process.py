"""Real processes and real signals (spec: wire-and-config 7.3-7.6)."""

import contextlib
import os
import signal
import socket
import time

import pytest

from tests.support.daemon import Daemon
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

SERVES = "The daemon takes requests"


@pytest.fixture
def start(tmp_path):
    started = []

    def start(text="", **environment):
        daemon = Daemon(tmp_path, f"{text}\n[scheduler]\nworkers=5\n", environment)
        started.append(daemon)
        return daemon

    yield start
    for daemon in started:
        daemon.kill()


def test_sigterm_lets_requests_finish_and_exits_0(start):
    daemon = start(TEST_BUSY="0.2")
    daemon.expect("beat .*")
    daemon.expect_log(SERVES)
    daemon.signal(signal.SIGTERM)
    status, told = daemon.end()
    assert status == 0
    assert told[-3:] == ["last request is answered", "connections are closed", "manager stops True"]


def test_one_process_is_started_whatever_nova_is_to_start(start):
    """kolla-ansible writes ``workers = 5``."""
    daemon = start()
    daemon.expect("beat .*")
    daemon.signal(signal.SIGTERM)
    status, told = daemon.end()
    assert (status, [line for line in told if line.startswith("server starts")]) == (0, [])
    assert "[scheduler]/workers = 5: one process is started, as one scheduler" in daemon.errors.read_text()


def test_the_wait_for_requests_is_bounded(start):
    limits = "[DEFAULT]\nmanager_shutdown_timeout=1\n"
    daemon = start(limits, TEST_BUSY="1000")
    daemon.expect("beat .*")
    daemon.signal(signal.SIGTERM)
    status, told = daemon.end()
    assert status == 0
    assert "last request is answered" not in told
    assert "Graceful shutdown timed out" in daemon.errors.read_text()


def test_a_slow_stop_without_requests_leaves_none_unanswered(start):
    daemon = start("[DEFAULT]\nmanager_shutdown_timeout=1\n", TEST_SLOW_STOP="1000")
    daemon.expect("beat .*")
    daemon.signal(signal.SIGTERM)
    status, told = daemon.end()
    assert (status, told) == (0, ["server stops", "manager stops True"])
    log = daemon.errors.read_text()
    assert "The daemon has stopped" in log
    assert "shutdown timed out" not in log


def test_a_stop_that_hangs_ends_in_its_time_with_the_stacks(start):
    daemon = start("[DEFAULT]\ngraceful_shutdown_timeout=2\n", TEST_STUCK="1")
    daemon.expect("beat .*")
    daemon.signal(signal.SIGTERM)
    assert daemon.end()[0] == 1
    assert "Timeout (0:00:02)!" in daemon.errors.read_text()
    assert 'daemon_process.py", line' in daemon.errors.read_text()


def test_sigterm_while_the_broker_is_away_exits_at_once(start):
    daemon = start(TEST_NO_BROKER="1")
    daemon.expect("server starts .*")
    daemon.signal(signal.SIGTERM)
    status, told = daemon.end()
    assert (status, told) == (0, ["manager stops True"])


@pytest.mark.parametrize("first", [[], [signal.SIGTERM]], ids=["serving", "stopping"])
def test_sigint_exits_1_without_waiting(start, first):
    daemon = start(TEST_BUSY="1000")
    daemon.expect("beat .*")
    for number in first:
        daemon.signal(number)
        daemon.expect("server stops")
    daemon.signal(signal.SIGINT)
    assert daemon.end() == (1, [])


def test_sighup_changes_mutable_options_of_the_running_daemon(start):
    daemon = start("[DEFAULT]\nreport_interval=7\n")
    daemon.expect("beat .*")
    text = daemon.config.read_text().replace("report_interval=7", "report_interval=8")
    daemon.config.write_text(text + "max_attempts=9\nmax_placement_result=9\n")
    daemon.signal(signal.SIGHUP)
    daemon.expect("manager looks anew 9 7")
    daemon.signal(signal.SIGTERM)
    status, told = daemon.end()
    assert status == 0
    assert not [line for line in told if line.startswith("server starts")]
    log = daemon.errors.read_text()
    assert "Ignoring change to immutable option DEFAULT.report_interval" in log
    assert (
        log.count("max_placement_result does not exist and is ignored; did you mean max_placement_results?")
        == 1
    )


def test_sighup_while_the_daemon_starts_is_handled_once_it_can_be(start):
    daemon = start(TEST_HANGUP="1")
    daemon.expect("server starts .*")
    daemon.expect("beat .*")
    daemon.expect_log("Re-reading the configuration")
    daemon.signal(signal.SIGTERM)
    assert daemon.end()[0] == 0


def test_sighup_with_a_mistake_in_the_file_changes_nothing(start):
    daemon = start()
    daemon.expect("beat .*")
    daemon.config.write_text(daemon.config.read_text() + "max_attempts=none\n")
    daemon.signal(signal.SIGHUP)
    daemon.expect("manager looks anew 3 10")
    daemon.signal(signal.SIGTERM)
    assert daemon.end()[0] == 0
    assert "[scheduler]/max_attempts" in daemon.errors.read_text()


@pytest.mark.parametrize(
    ("attempts", "reason"),
    [(13, "NoSuchFilter"), (14, "SystemExit: 5"), (15, "ended the process")],
    ids=["refused", "exits", "killed"],
)
def test_sighup_with_options_that_the_daemon_could_not_start_with_changes_nothing(start, attempts, reason):
    daemon = start()
    daemon.expect("beat .*")
    daemon.config.write_text(f"{daemon.config.read_text()}max_attempts={attempts}\n")
    daemon.signal(signal.SIGHUP)
    daemon.expect("manager looks anew 3 10")
    daemon.signal(signal.SIGTERM)
    assert daemon.end()[0] == 0
    refusals = [line for line in daemon.errors.read_text().splitlines() if reason in line]
    assert len(refusals) == 1
    assert "all options stay as they were" in refusals[0]


def test_without_the_api_database_no_server_starts_and_the_daemon_ends_with_3(start, tmp_path):
    daemon = start("[berth]\ndatabase_start_timeout=0.1\n", TEST_NO_DATABASE=str(tmp_path / "database"))
    status, told = daemon.end()
    assert status == 3
    assert not [line for line in told if line.startswith("server")]
    log = daemon.errors.read_text()
    assert "Waiting for the API database before requests are taken, at most 0.1 s" in log
    assert "the API database could not be read within 0.1 seconds" in log
    assert "Traceback" not in log


def test_the_daemon_is_ready_once_placement_has_answered(start, tmp_path):
    placement = tmp_path / "placement"
    daemon = start(TEST_NO_PLACEMENT=str(placement))
    daemon.expect("server starts .*")
    daemon.expect("manager waits for Placement")
    assert SERVES not in daemon.errors.read_text()
    placement.touch()
    daemon.expect_log(SERVES)


def test_a_daemon_that_waits_for_placement_can_be_stopped(start, tmp_path):
    daemon = start(TEST_NO_PLACEMENT=str(tmp_path / "placement"))
    daemon.expect("manager waits for Placement")
    daemon.signal(signal.SIGTERM)
    assert daemon.end()[0] == 0
    assert SERVES not in daemon.errors.read_text()


def test_a_daemon_that_cannot_start_ends_with_1(start):
    daemon = start(TEST_FAIL="1")
    assert daemon.end() == (1, [])
    log = daemon.errors.read_text()
    assert "NoSuchFilter could not be found" in log
    assert "Traceback" not in log


def test_no_temporary_directory_ends_the_daemon_with_1(start, tmp_path):
    daemon = start(f"[DEFAULT]\ntempdir={tmp_path}/absent\n")
    assert daemon.end() == (1, [])
    assert "[DEFAULT]/tempdir" in daemon.errors.read_text()


@pytest.mark.parametrize(
    "text", ["[metrics]\nrequired=x\n", "[DEFAULT]\nreport_interval=x\n", "no section\n"]
)
def test_a_bad_configuration_is_one_line_and_1(start, text):
    daemon = start(text)
    assert daemon.end() == (1, [])
    log = daemon.errors.read_text()
    assert log.startswith("berth-scheduler: ")
    assert "Traceback" not in log


def test_a_daemon_that_hangs_with_the_interpreter_lock_ends_with_its_stacks(start):
    daemon = start("[berth]\nworker_timeout=6\n", TEST_HANG="1")
    daemon.expect("beat .*")
    daemon.expect_log(SERVES)
    daemon.signal(signal.SIGHUP)
    daemon.expect("manager looks anew .*")
    assert daemon.end()[0] == 1
    log = daemon.errors.read_text()
    assert "Timeout (0:00:06)!" in log
    assert 'daemon_process.py", line' in log


def test_a_daemon_that_was_frozen_for_a_short_time_goes_on(start):
    daemon = start("[berth]\nworker_timeout=60\n")
    daemon.expect("beat .*")
    daemon.expect_log(SERVES)
    daemon.signal(signal.SIGSTOP)
    time.sleep(1)
    daemon.signal(signal.SIGCONT)
    daemon.signal(signal.SIGTERM)
    assert daemon.end()[0] == 0


class TestMonitoring:
    @pytest.fixture
    def path(self, tmp_path):
        return str(tmp_path / "monitoring.sock")

    def get(self, path, page):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(path)
            client.sendall(f"GET {page} HTTP/1.1\r\n\r\n".encode())
            return b"".join(iter(lambda: client.recv(65536), b"")).decode()

    def value(self, path, series):
        for line in self.get(path, "/metrics").splitlines():
            if line.startswith(f"{series} "):
                return float(line.split(" ")[1])
        return None

    def test_metrics_of_the_process_and_its_reloads(self, start, path):
        daemon = start(f"[berth]\nmonitoring_listen=unix:{path}\n")
        daemon.expect_log("are served on")
        assert eventually(lambda: self.value(path, "berth_serving") == 1, 60)
        assert self.value(path, "process_cpu_seconds_total") > 0
        assert self.value(path, "process_resident_memory_bytes") > 1 << 20
        daemon.signal(signal.SIGHUP)
        assert eventually(lambda: self.value(path, 'berth_reloads_total{result="accepted"}') == 1, 60)
        assert "200 OK" in self.get(path, "/healthz")

    def test_an_address_for_others_is_one_line_and_1(self, start):
        daemon = start("[berth]\nmonitoring_listen=0.0.0.0:9812\n")
        assert daemon.end() == (1, [])
        log = daemon.errors.read_text()
        assert "[berth]/monitoring_listen = 0.0.0.0:9812: other machines reach this address" in log
        assert "Traceback" not in log


class TestSystemd:
    @pytest.fixture
    def listener(self, tmp_path):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(str(tmp_path / "notify"))
            yield listener

    def test_ready_reloading_watchdog_and_stopping(self, start, listener):
        daemon = start(NOTIFY_SOCKET=listener.getsockname(), WATCHDOG_USEC="900000", WATCHDOG_PID="")
        listener.settimeout(60)

        def until(message):
            told = []
            while message not in told:
                told.append(listener.recv(100).partition(b"\n")[0])
            return told

        until(b"READY=1")
        assert until(f"STATUS={SERVES}".encode())
        daemon.signal(signal.SIGHUP)
        until(b"RELOADING=1")
        until(b"READY=1")
        until(b"WATCHDOG=1")
        daemon.signal(signal.SIGTERM)
        until(b"STOPPING=1")
        assert daemon.end()[0] == 0

    def test_the_watchdog_of_a_daemon_that_hangs_is_not_fed(self, start, listener):
        daemon = start(
            "[berth]\nworker_timeout=6\n",
            NOTIFY_SOCKET=listener.getsockname(),
            WATCHDOG_USEC="900000",
            TEST_HANG="1",
        )
        daemon.expect_log(SERVES)
        daemon.signal(signal.SIGHUP)
        daemon.expect("manager looks anew .*")
        listener.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            while listener.recv(100):
                pass
        listener.settimeout(3)
        with pytest.raises(TimeoutError):
            listener.recv(100)

    def test_ready_comes_when_requests_are_taken(self, start, listener, tmp_path):
        gate = tmp_path / "gate"
        daemon = start(NOTIFY_SOCKET=listener.getsockname(), TEST_GATE=str(gate))
        daemon.expect("server starts .*")
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.recv(100)
        listener.setblocking(True)
        gate.touch()
        assert listener.recv(100) == b"READY=1"

    def test_ready_comes_only_when_the_api_database_was_read(self, start, listener, tmp_path):
        database = tmp_path / "database"
        daemon = start(NOTIFY_SOCKET=listener.getsockname(), TEST_NO_DATABASE=str(database))
        daemon.expect("manager starts .*")
        listener.settimeout(1)
        with pytest.raises(TimeoutError):
            listener.recv(100)
        listener.settimeout(None)
        database.touch()
        assert listener.recv(100) == b"READY=1"
        daemon.expect("server starts .*")

    def test_ready_comes_in_the_end_without_a_broker(self, start, listener):
        daemon = start(
            "[berth]\ndatabase_start_timeout=0.1\n", NOTIFY_SOCKET=listener.getsockname(), TEST_NO_BROKER="1"
        )
        assert listener.recv(100) == b"READY=1"
        daemon.expect("server starts .*")


class TestReport:
    def report(self, daemon, path, request):
        daemon.expect("beat .*")
        request(daemon)
        while True:
            for file in path.glob("*_gurumeditation_*"):
                if text := file.read_text():
                    assert file.name.startswith(f"berth-scheduler-{daemon.process.pid}_")
                    return text
            assert daemon.process.poll() is None

    def test_sigusr2(self, start, tmp_path):
        daemon = start(
            f"[oslo_reports]\nlog_dir={tmp_path}\n[database]\nconnection=sqlite://secret\n"
            "[placement]\nauth_type=password\nauth_url=http://nova:secret@keystone/v3\n"
        )
        text = self.report(daemon, tmp_path, lambda daemon: daemon.signal(signal.SIGUSR2))
        assert "product = berth-scheduler" in text
        assert "max_attempts = 3" in text
        assert "auth-url = http://***@keystone/v3" in text
        assert "secret" not in text
        assert "Requests in progress" in text
        assert text.rstrip().endswith("none")

    def test_touched_file(self, start, tmp_path):
        trigger = tmp_path / "trigger"
        trigger.touch()
        daemon = start(
            f"[oslo_reports]\nlog_dir={tmp_path}\nfile_event_handler={trigger}\nfile_event_handler_interval=1\n"
        )
        later = trigger.stat().st_mtime + 1000
        text = self.report(daemon, tmp_path, lambda daemon: os.utime(trigger, (later, later)))
        assert "Threads" in text
