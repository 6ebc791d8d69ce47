"""The master's part, round by round, with a socket in the place of systemd."""

import contextlib
import json
import socket

import pytest

from scheduler import conf as options
from scheduler import errors
from scheduler.health.catalogue import FILTERED
from scheduler.health.monitor import RELOAD_TIMEOUT, Monitor
from scheduler.health.reports import Report, WorkerState
from scheduler.health.systemd import Notifier
from tests.support.clock import Clock


class World:
    def __init__(self, path, workers=2, text=""):
        self.clock = Clock()
        self.lines = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.listener.bind(str(path / "notify"))
        self.listener.setblocking(False)
        variables = {"NOTIFY_SOCKET": str(path / "notify"), "WATCHDOG_USEC": "3000000"}
        self.conf = options.load([], default_config_files=[])
        self.conf.set_override("worker_timeout", 60.0, "berth")
        self.conf.set_override("monitoring_listen", text or None, "berth")
        self.monitor = Monitor(self.conf, workers, Notifier(variables, clock=self.clock), self.clock)

    def read(self):
        # after each round: a kernel may keep ten datagrams only
        with contextlib.suppress(BlockingIOError):
            while True:
                self.lines.append(self.listener.recv(200).decode().partition("\n")[0])

    def told(self):
        self.read()
        lines, self.lines = self.lines, []
        return lines

    def report(self, worker, pid=1_000_000_000, reloads=0, phase="serving", database=None, **counts):
        found = {(name, ()): [value] for name, value in counts.items()}
        state = WorkerState(api_database=database)
        self.monitor.channel.send(Report(worker, pid, phase, reloads, state, found))

    def pass_time(self, seconds, *workers):
        for _ in range(seconds):
            self.clock.now += 1
            for worker in workers:
                self.report(worker)
            self.monitor.run_round()
            self.read()


@pytest.fixture
def starting(tmp_path):
    world = World(tmp_path)
    yield world
    world.monitor.channel.close()
    world.listener.close()


@pytest.fixture
def world(starting):
    assert round_after(starting, {"worker": 0}, {"worker": 1}) == READY
    return starting


def round_after(world, *reports, seconds=0):
    world.clock.now += seconds
    for report in reports:
        world.report(**report)
    world.monitor.run_round()
    return [line for line in world.told() if line != "WATCHDOG=1"]


READY = ["READY=1", "STATUS=All workers take requests (2 of 2)"]


def test_the_counts_of_all_workers_are_added_up(world):
    for worker, refused in [(0, 2.0), (1, 3.0), (0, 4.0)]:
        world.report(worker, berth_messages_refused=refused)
    world.monitor.run_round()
    assert world.monitor.totals.copy()["berth_messages_refused", ()] == [9.0]


def test_a_worker_that_ends_takes_no_count_along(world):
    world.report(0, berth_messages_refused=2.0)
    world.monitor.worker_ended(0, -9)
    world.report(0, pid=1_000_000_001, berth_messages_refused=1.0)
    world.monitor.run_round()
    totals = world.monitor.totals.copy()
    assert totals["berth_messages_refused", ()] == [3.0]
    assert totals["berth_worker_exits", ("killed",)] == [1.0]


@pytest.mark.parametrize(("status", "reason"), [(0, "ended"), (1, "ended"), (-9, "killed")])
def test_the_end_of_a_worker_is_counted_by_its_reason(world, status, reason):
    world.monitor.worker_ended(1, status)
    assert world.monitor.totals.copy()["berth_worker_exits", (reason,)] == [1.0]


def test_the_watchdog_is_fed_while_all_workers_report(world):
    world.pass_time(10, 0, 1)
    assert world.told() == ["WATCHDOG=1"] * 10


def test_the_watchdog_is_not_fed_if_a_worker_cannot_be_replaced(world):
    world.pass_time(121, 0)
    world.told()
    world.pass_time(10, 0)
    assert world.told() == []


def test_a_daemon_that_stops_feeds_its_watchdog_and_kills_no_worker(world, caplog):
    world.pass_time(1, 0, 1)
    world.monitor.stopping()
    world.pass_time(200)
    assert world.told()[:2] == ["WATCHDOG=1", "STOPPING=1"]
    assert "no progress" not in caplog.text


@pytest.mark.parametrize("accepted", [True, False], ids=["accepted", "refused"])
def test_a_reload_is_over_when_all_workers_have_followed(world, accepted):
    world.conf.set_override("worker_timeout", 0.0, "berth")
    world.monitor.begin_reload()
    world.monitor.end_reload(accepted=accepted)
    world.report(0, reloads=1)
    world.report(1, reloads=0)
    world.monitor.run_round()
    assert [line for line in world.told() if line != "WATCHDOG=1"] == ["RELOADING=1"]
    world.report(1, reloads=1)
    world.monitor.run_round()
    assert [line for line in world.told() if line != "WATCHDOG=1"] == ["READY=1"]
    result = "accepted" if accepted else "refused"
    assert world.monitor.totals.copy()["berth_reloads", (result,)] == [1.0]


def test_a_reload_that_a_worker_does_not_follow_is_over_in_the_end(world):
    world.monitor.begin_reload()
    world.monitor.end_reload(accepted=True)
    world.pass_time(int(RELOAD_TIMEOUT), 0, 1)
    assert "READY=1" not in world.told()
    world.pass_time(1, 0, 1)
    assert "READY=1" in world.told()


def test_systemd_is_notified_once_when_all_workers_take_requests(starting):
    """A worker that ends and starts again counts once."""
    assert round_after(starting, {"worker": 0}, {"worker": 1, "phase": "starting", "database": True}) == []
    starting.monitor.worker_ended(0, -9)
    assert round_after(starting, {"worker": 1}) == READY
    assert round_after(starting, {"worker": 0, "pid": 1_000_000_001}) == []


def test_systemd_is_notified_of_a_start_without_a_broker_once_the_databases_were_read(starting):
    loading = {"phase": "starting", "database": True}
    limit = starting.conf.berth.database_start_timeout
    assert round_after(starting, {"worker": 0, **loading}) == []
    assert round_after(starting, {"worker": 0}, {"worker": 1, "phase": "starting"}, seconds=limit) == []
    assert round_after(starting, {"worker": 1, **loading}) == []
    assert round_after(starting, {"worker": 1, **loading}, seconds=limit) == [
        "READY=1",
        "STATUS=Not all workers take requests yet (1 of 2)",
    ]
    assert round_after(starting, {"worker": 1, **loading}, seconds=limit) == []
    assert round_after(starting, {"worker": 1}) == READY


def test_nothing_is_served_unless_it_is_asked_for(world):
    assert world.monitor.endpoint is None
    world.monitor.start()
    world.monitor.stop()


@pytest.mark.parametrize("address", ["0.0.0.0:9812", "nonsense"])
def test_an_address_that_others_reach_is_refused(tmp_path, address):
    with pytest.raises(errors.ConfigError, match=r"\[berth\]/monitoring_listen"):
        World(tmp_path, text=address)


def test_the_three_pages(tmp_path):
    world = World(tmp_path, text=f"unix:{tmp_path}/monitoring.sock")
    world.report(0, **{FILTERED.name: 0.0})
    world.monitor.run_round()
    world.monitor.start()
    try:
        answers = {path: get(tmp_path, path) for path in ("/healthz", "/readyz", "/metrics")}
    finally:
        world.monitor.stop()
    head, body = answers["/healthz"]
    assert head.startswith("HTTP/1.1 200 OK")
    assert "Content-Type: application/health+json" in head
    assert json.loads(body)["status"] == "pass"
    head, body = answers["/readyz"]
    assert head.startswith("HTTP/1.1 503 Service Unavailable")
    assert json.loads(body)["status"] == "fail"
    head, body = answers["/metrics"]
    assert "Content-Type: text/plain; version=" in head
    assert 'berth_workers{phase="serving"} 1.0' in body


def get(path, page):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(f"{path}/monitoring.sock")
        client.sendall(f"GET {page} HTTP/1.1\r\n\r\n".encode())
        text = b"".join(iter(lambda: client.recv(65536), b"")).decode()
    head, _, body = text.partition("\r\n\r\n")
    return head, body
