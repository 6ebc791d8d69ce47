"""Real processes and real signals (spec: wire-and-config 7.3-7.6)."""

import os
import signal
import socket

import pytest

from tests.support.daemon import Daemon
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def start(tmp_path):
    started = []

    def start(text="", workers=1, **environment):
        daemon = Daemon(tmp_path, f"{text}\n[scheduler]\nworkers={workers}\n", environment)
        started.append(daemon)
        return daemon

    yield start
    for daemon in started:
        daemon.kill()


def test_sigterm_lets_requests_finish_and_exits_0(start):
    daemon = start(workers=2, TEST_BUSY="0.2")
    daemon.expect("server starts .*", times=2)
    daemon.expect("beat .*")
    daemon.expect_log("All workers take requests (2 of 2)")
    daemon.signal(signal.SIGTERM)
    status, told = daemon.end()
    assert status == 0
    assert told.count("last request is answered") == 2
    assert told.count("connections are closed") == 2
    assert told.count("manager stops True") == 2


def test_the_wait_for_requests_is_bounded(start):
    limits = "[DEFAULT]\nmanager_shutdown_timeout=1\n"
    daemon = start(limits, TEST_BUSY="1000")
    daemon.expect("beat .*")
    daemon.signal(signal.SIGTERM)
    status, told = daemon.end()
    assert status == 0
    assert "last request is answered" not in told
    assert "graceful shutdown timed out" in daemon.errors.read_text()


def test_a_slow_stop_without_requests_leaves_none_unanswered(start):
    daemon = start("[DEFAULT]\nmanager_shutdown_timeout=1\n", TEST_SLOW_STOP="1000")
    daemon.expect("beat .*")
    daemon.signal(signal.SIGTERM)
    status, told = daemon.end()
    assert (status, told) == (0, ["server stops", "manager stops True"])
    log = daemon.errors.read_text()
    assert "Worker 0 has stopped" in log
    assert "shutdown timed out" not in log


def test_no_alarm_of_the_stop_can_end_the_master_later(start):
    """It would come while Python ends: the status would be -14."""
    daemon = start(TEST_ALARM="1")
    daemon.expect("beat .*")
    daemon.signal(signal.SIGTERM)
    status, told = daemon.end()
    assert (status, told[-1]) == (0, "no alarm is left")


def test_sigterm_while_the_broker_is_away_exits_at_once(start):
    daemon = start(TEST_NO_BROKER="1")
    daemon.expect("server starts .*")
    daemon.signal(signal.SIGTERM)
    status, told = daemon.end()
    assert (status, told) == (0, ["manager stops True"])


def test_sigint_exits_1_without_waiting(start):
    daemon = start(TEST_BUSY="1000")
    daemon.expect("beat .*")
    daemon.signal(signal.SIGINT)
    assert daemon.end() == (1, [])


def test_sighup_changes_mutable_options_in_the_running_workers(start):
    daemon = start("[DEFAULT]\nreport_interval=7\n", workers=2)
    pids = {match[1] for match in daemon.expect("server starts (.*)", times=2)}
    daemon.expect("beat .*")
    text = daemon.config.read_text().replace("report_interval=7", "report_interval=8")
    daemon.config.write_text(text + "max_attempts=9\nmax_placement_result=9\n")
    daemon.signal(signal.SIGHUP)
    daemon.expect("manager looks anew 9 7", times=2)
    daemon.signal(signal.SIGTERM)
    status, told = daemon.end()
    assert status == 0
    assert not [line for line in told if line.startswith("server starts")], f"only {pids} were there"
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
def test_sighup_with_options_that_no_worker_can_start_with_changes_nothing_anywhere(start, attempts, reason):
    daemon = start(workers=2)
    pids = [match[1] for match in daemon.expect("server starts (.*)", times=2)]
    daemon.expect("beat .*")
    daemon.config.write_text(f"{daemon.config.read_text()}max_attempts={attempts}\n")
    daemon.signal(signal.SIGHUP)
    daemon.expect("manager looks anew 3 10", times=2)
    os.kill(int(pids[0]), signal.SIGKILL)
    daemon.expect("server starts .*")
    daemon.signal(signal.SIGTERM)
    assert daemon.end()[0] == 0
    refusals = [line for line in daemon.errors.read_text().splitlines() if reason in line]
    assert len(refusals) == 1
    assert "all options stay as they were" in refusals[0]
    assert "re-reads its configuration" not in daemon.errors.read_text()
    assert "Worker 0 keeps its options" in daemon.errors.read_text()


def test_a_worker_that_starts_after_a_sighup_has_the_changed_options(start):
    daemon = start()
    (first,) = daemon.expect("server starts (.*)")
    daemon.expect("beat .*")
    daemon.config.write_text(daemon.config.read_text() + "max_attempts=9\n")
    daemon.signal(signal.SIGHUP)
    daemon.expect("manager looks anew 9 10")
    os.kill(int(first[1]), signal.SIGKILL)
    (second,) = daemon.expect("server starts (.*)")
    daemon.expect("beat .*")
    os.kill(int(second[1]), signal.SIGHUP)
    daemon.expect("manager looks anew 9 10")


def test_sighup_to_a_worker_alone_does_not_change_its_options(start):
    daemon = start()
    (first,) = daemon.expect("server starts (.*)")
    daemon.expect("beat .*")
    daemon.config.write_text(daemon.config.read_text() + "max_attempts=9\n")
    os.kill(int(first[1]), signal.SIGHUP)
    daemon.expect("manager looks anew 3 10")


def test_without_the_api_database_no_server_starts_and_the_daemon_ends_with_3(start, tmp_path):
    daemon = start("[berth]\ndatabase_start_timeout=0.1\n", TEST_NO_DATABASE=str(tmp_path / "database"))
    status, told = daemon.end()
    assert status == 3
    assert not [line for line in told if line.startswith("server")]
    log = daemon.errors.read_text()
    assert "waits for the API database before it takes requests, at most 0.1 s" in log
    assert "the API database could not be read within 0.1 seconds" in log
    assert "Traceback" not in log


def test_the_daemon_is_ready_once_placement_has_answered(start, tmp_path):
    placement = tmp_path / "placement"
    daemon = start(TEST_NO_PLACEMENT=str(placement))
    daemon.expect("server starts .*")
    daemon.expect("manager waits for Placement")
    assert "take requests" not in daemon.errors.read_text()
    placement.touch()
    daemon.expect_log("All workers take requests (1 of 1)")


def test_a_daemon_that_waits_for_placement_can_be_stopped(start, tmp_path):
    daemon = start(TEST_NO_PLACEMENT=str(tmp_path / "placement"))
    daemon.expect("manager waits for Placement")
    daemon.signal(signal.SIGTERM)
    assert daemon.end()[0] == 0
    assert "take requests" not in daemon.errors.read_text()


def test_a_worker_that_dies_is_started_again(start):
    daemon = start()
    (first,) = daemon.expect("server starts (.*)")
    daemon.expect("beat .*")
    os.kill(int(first[1]), signal.SIGKILL)
    (second,) = daemon.expect("server starts (.*)")
    assert second[1] != first[1]


def test_a_worker_that_dies_is_started_again_once_the_system_has_room_for_a_process(start):
    daemon = start(TEST_NO_FORK="2")
    (first,) = daemon.expect("server starts (.*)")
    daemon.expect("beat .*")
    os.kill(int(first[1]), signal.SIGKILL)
    daemon.expect("server starts .*")
    log = daemon.errors.read_text()
    assert log.count("Cannot start a worker: [Errno 11]") == 1
    assert "Workers start again" in log


def test_a_daemon_that_cannot_be_given_a_worker_ends_with_1(start):
    daemon = start(TEST_NO_FORK="1000")
    (first,) = daemon.expect("server starts (.*)")
    daemon.expect("beat .*")
    os.kill(int(first[1]), signal.SIGKILL)
    assert daemon.end() == (1, [])
    log = daemon.errors.read_text()
    assert "Cannot start a worker ([Errno 11] Resource temporarily unavailable); stopping the daemon" in log
    assert "Traceback" not in log


def test_a_worker_that_is_frozen_does_not_keep_the_daemon_from_its_end(start):
    daemon = start("[DEFAULT]\ngraceful_shutdown_timeout=1\n")
    (worker,) = daemon.expect("server starts (.*)")
    daemon.expect("beat .*")
    os.kill(int(worker[1]), signal.SIGSTOP)
    daemon.signal(signal.SIGTERM)
    assert daemon.end() == (1, [])
    assert f"Graceful shutdown of process {worker[1]} timed out" in daemon.errors.read_text()


def test_a_worker_alone_stops_gracefully_and_is_started_again(start):
    daemon = start()
    (first,) = daemon.expect("server starts (.*)")
    daemon.expect("beat .*")
    os.kill(int(first[1]), signal.SIGTERM)
    daemon.expect("last request is answered")
    daemon.expect("server starts .*")


def test_a_worker_that_cannot_start_ends_the_daemon_with_1(start):
    daemon = start(TEST_FAIL="1")
    assert daemon.end() == (1, [])
    log = daemon.errors.read_text()
    assert "NoSuchFilter could not be found" in log
    assert "Traceback" not in log


def test_a_daemon_that_waited_long_for_its_broker_is_not_ended_by_a_later_failure(start, tmp_path):
    """It has been ready since: only a first start that cannot succeed ends it."""
    gate, database = tmp_path / "gate", tmp_path / "database"
    database.touch()
    limits = "[berth]\ndatabase_start_timeout=0.1\n"
    daemon = start(limits, TEST_GATE=str(gate), TEST_NO_DATABASE=str(database))
    (first,) = daemon.expect("server starts (.*)")
    daemon.expect_log("Not all workers take requests yet (0 of 1)")
    gate.touch()
    daemon.expect_log("All workers take requests (1 of 1)")
    database.unlink()
    os.kill(int(first[1]), signal.SIGKILL)
    daemon.expect_log("could not be read within 0.1 seconds")
    database.touch()
    daemon.expect("server starts .*")


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


def test_a_worker_that_hangs_is_killed_with_its_stack_traces_and_replaced(start, tmp_path):
    hanging = tmp_path / "hanging"
    hanging.touch()
    daemon = start("[berth]\nworker_timeout=6\n", workers=2, TEST_HANG=str(hanging))
    pids = [match[1] for match in daemon.expect("server starts (.*)", times=2)]
    daemon.expect("beat .*")
    daemon.expect_log("All workers take requests (2 of 2)")
    hanging.write_text(pids[0])
    daemon.signal(signal.SIGHUP)
    (replacement,) = daemon.expect("server starts (.*)")
    assert replacement[1] not in pids
    log = daemon.errors.read_text()
    assert f"(process {pids[0]}) made no progress for" in log
    assert "Fatal Python error: Aborted" in log
    assert 'daemon_process.py", line' in log
    assert f"(process {pids[1]})" not in log
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

    def test_counters_survive_workers_and_reloads(self, start, path):
        daemon = start(f"[berth]\nmonitoring_listen=unix:{path}\n", workers=2)
        (first, _second) = [match[1] for match in daemon.expect("server starts (.*)", times=2)]
        serving = 'berth_workers{phase="serving"}'
        assert eventually(lambda: self.value(path, serving) == 2, 60)
        cpu = [self.value(path, f'berth_worker_cpu_seconds_total{{worker="{n}"}}') for n in (0, 1)]
        assert all(cpu)
        os.kill(int(first), signal.SIGKILL)
        assert eventually(lambda: self.value(path, 'berth_worker_exits_total{reason="killed"}') == 1, 60)
        daemon.signal(signal.SIGHUP)
        assert eventually(lambda: self.value(path, 'berth_reloads_total{result="accepted"}') == 1, 60)
        assert eventually(lambda: self.value(path, serving) == 2, 60)
        after = [self.value(path, f'berth_worker_cpu_seconds_total{{worker="{n}"}}') for n in (0, 1)]
        assert all(new >= old for new, old in zip(after, cpu, strict=True)), (cpu, after)
        assert "200 OK" in self.get(path, "/healthz")

    def test_nothing_listens_after_the_end_of_the_master_alone(self, start, path):
        """A worker that outlives the master for a while must not keep the address from its successor."""
        daemon = start(f"[berth]\nmonitoring_listen=unix:{path}\n", TEST_BUSY="1000")
        daemon.expect("beat .*")
        os.kill(daemon.process.pid, signal.SIGKILL)
        daemon.process.wait()
        with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
            client.connect(path)

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
        daemon = start(
            workers=2, NOTIFY_SOCKET=listener.getsockname(), WATCHDOG_USEC="900000", WATCHDOG_PID=""
        )
        listener.settimeout(60)

        def until(message):
            told = []
            while message not in told:
                told.append(listener.recv(100).partition(b"\n")[0])
            return told

        until(b"READY=1")
        assert until(b"STATUS=All workers take requests (2 of 2)")
        daemon.signal(signal.SIGHUP)
        until(b"RELOADING=1")
        until(b"READY=1")
        until(b"WATCHDOG=1")
        daemon.signal(signal.SIGTERM)
        until(b"STOPPING=1")
        assert daemon.end()[0] == 0

    def test_ready_comes_when_all_workers_take_requests(self, start, listener, tmp_path):
        gate = tmp_path / "gate"
        daemon = start(workers=2, NOTIFY_SOCKET=listener.getsockname(), TEST_GATE=str(gate))
        daemon.expect("server starts .*", times=2)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.recv(100)
        listener.setblocking(True)
        gate.touch()
        assert listener.recv(100) == b"READY=1"

    def test_ready_comes_only_when_the_api_database_was_read(self, start, listener, tmp_path):
        database = tmp_path / "database"
        daemon = start(
            workers=2,
            NOTIFY_SOCKET=listener.getsockname(),
            TEST_NO_DATABASE=str(database),
        )
        daemon.expect("manager starts .*", times=2)
        listener.settimeout(1)
        with pytest.raises(TimeoutError):
            listener.recv(100)
        listener.settimeout(None)
        database.touch()
        assert listener.recv(100) == b"READY=1"
        daemon.expect("server starts .*", times=2)

    def test_ready_comes_in_the_end_without_a_broker(self, start, listener):
        daemon = start(
            "[berth]\ndatabase_start_timeout=0.1\n", NOTIFY_SOCKET=listener.getsockname(), TEST_NO_BROKER="1"
        )
        assert listener.recv(100) == b"READY=1"
        daemon.expect("server starts .*")


class TestReport:
    def report(self, daemon, path, request):
        (text,) = self.reports(daemon, path, request, 1).values()
        return text

    def reports(self, daemon, path, request, number):
        """The reports by what their files are called without the time."""
        daemon.expect("beat .*")
        request(daemon)
        while True:
            files = path.glob("*_gurumeditation_*")
            texts = {file.name.partition("_gurumeditation_")[0]: file.read_text() for file in files}
            if len(texts) == number and all(texts.values()):
                return texts
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
        found = self.reports(daemon, tmp_path, lambda daemon: os.utime(trigger, (later, later)), 2)
        # The master and its worker may report in the same second
        assert f"berth-scheduler-{daemon.process.pid}" in found
        assert ["Threads" in text for text in found.values()] == [True, True]
