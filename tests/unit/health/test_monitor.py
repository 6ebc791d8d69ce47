"""What watches a service, round by round, with a socket in the place of systemd."""

import contextlib
from dataclasses import replace
import json
import socket

import pytest

from scheduler import conf as options
from scheduler import errors
from scheduler.health.counters import Counters
from scheduler.health.monitor import Monitor
from scheduler.health.state import ServiceState
from scheduler.health.systemd import Notifier
from tests.support.clock import Clock

TIMEOUT = 60.0


class World:
    """``ends`` are the seconds after which the process was to end, as they were set one after the other."""

    def __init__(self, path, text=""):
        self.clock = Clock()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.listener.bind(str(path / "notify"))
        self.listener.setblocking(False)
        variables = {"NOTIFY_SOCKET": str(path / "notify"), "WATCHDOG_USEC": "3000000"}
        self.conf = options.load([], default_config_files=[])
        self.conf.set_override("worker_timeout", TIMEOUT, "berth")
        self.conf.set_override("monitoring_listen", text or None, "berth")
        self.state = ServiceState()
        self.counters = Counters()
        self.ends = []
        notifier = Notifier(variables, clock=self.clock)
        self.monitor = Monitor(
            self.conf, lambda: self.state, self.counters, notifier, self.clock, self.ends.append
        )

    def set(self, **changes):
        self.state = replace(self.state, **changes)

    def told(self):
        """What systemd was told, without the signs of life."""
        return [line for line in self.told_all() if line != "WATCHDOG=1"]

    def told_all(self):
        lines = []
        with contextlib.suppress(BlockingIOError):
            while True:
                lines.append(self.listener.recv(200).decode().partition("\n")[0])
        return lines

    def round(self, seconds=1):
        self.clock.now += seconds
        self.monitor.run_round()
        return self.told()


@pytest.fixture
def starting(tmp_path):
    world = World(tmp_path)
    yield world
    world.listener.close()


@pytest.fixture
def world(starting):
    starting.monitor.serving()
    assert starting.round() == READY
    starting.ends.clear()
    return starting


READY = ["READY=1", "STATUS=The daemon takes requests"]


def test_each_round_puts_the_end_off_and_feeds_the_watchdog(world):
    for _ in range(5):
        world.clock.now += 1
        world.monitor.run_round()
    assert world.ends == [TIMEOUT] * 5
    assert world.told_all() == ["WATCHDOG=1"] * 5


def test_the_end_of_a_service_that_makes_no_progress_is_not_put_off(world, caplog):
    for stalled in range(4, 60):
        world.set(stalled=float(stalled))
        world.round()
    assert world.ends == [TIMEOUT], "at 4 s, when it may be short of CPU time"
    (line,) = [record for record in caplog.messages if "No progress" in record]
    assert line == "No progress for 31 s; the daemon ends after 60 s, and the broker redelivers its requests"


def test_a_service_that_makes_progress_again_goes_on(world):
    for stalled in (50.0, 0.0):
        world.set(stalled=stalled)
        world.round()
    assert world.ends == [TIMEOUT]


@pytest.mark.parametrize(("timeout", "ends"), [(0.0, [0.0]), (1.0, [5.0]), (300.0, [300.0])])
def test_the_time_is_that_of_the_option_but_not_shorter_than_a_round_may_take(world, timeout, ends):
    world.conf.set_override("worker_timeout", timeout, "berth")
    world.round()
    assert world.ends == ends


@pytest.mark.parametrize("limit", [180, 0])
def test_a_service_that_stops_ends_in_its_time_and_feeds_its_watchdog(world, limit):
    world.monitor.stopping(limit)
    assert world.told() == ["STOPPING=1"]
    world.set(stalled=100.0)
    for _ in range(3):
        world.clock.now += 1
        world.monitor.run_round()
    assert world.ends == [limit]
    assert world.told_all() == ["WATCHDOG=1"] * 3


def test_a_state_that_cannot_be_read_is_logged_and_is_no_hang(world, caplog):
    world.monitor._read_state = lambda: 1 / 0
    world.round()
    assert world.ends == [TIMEOUT]
    assert "Cannot read the state of the daemon" in caplog.text


@pytest.mark.parametrize("result", ["accepted", "refused"])
def test_a_reload_is_counted_and_told(world, result):
    world.monitor.begin_reload()
    microseconds = int(world.clock.now * 1e6)
    assert world.listener.recv(200).decode() == f"RELOADING=1\nMONOTONIC_USEC={microseconds}"
    world.monitor.end_reload(accepted=result == "accepted")
    assert world.told() == ["READY=1"]
    assert world.counters.registry.get_sample_value("berth_reloads_total", {"result": result}) == 1


def test_a_reload_during_the_start_does_not_end_it(starting):
    starting.monitor.begin_reload()
    starting.monitor.end_reload(accepted=True)
    assert starting.told() == []


def test_systemd_is_notified_once_when_requests_are_taken(starting):
    assert starting.round() == []
    starting.monitor.serving()
    assert starting.round() == READY
    assert starting.round() == []


def test_systemd_is_notified_of_a_start_without_a_broker_once_the_databases_were_read(starting):
    limit = starting.conf.berth.database_start_timeout
    assert starting.round(limit) == []
    starting.set(api_database=True)
    assert starting.round() == []
    assert starting.round(limit) == ["READY=1", "STATUS=The daemon takes no requests yet"]
    assert starting.round(limit) == []
    starting.monitor.serving()
    assert starting.round() == READY


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
    world.monitor.serving()
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
    assert "berth_serving 1.0" in body
    assert "process_resident_memory_bytes " in body


def get(path, page):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(f"{path}/monitoring.sock")
        client.sendall(f"GET {page} HTTP/1.1\r\n\r\n".encode())
        text = b"".join(iter(lambda: client.recv(65536), b"")).decode()
    head, _, body = text.partition("\r\n\r\n")
    return head, body
