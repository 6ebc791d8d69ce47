"""The daemon with its real RPC server on a real RabbitMQ: signals while requests are in progress."""

import contextlib
import os
import signal
import threading

import oslo_messaging as messaging
import pytest

from scheduler import conf as options
from scheduler.rpc import server
from tests.support.daemon import Daemon
from tests.support.wire_examples import message

pytestmark = pytest.mark.rabbitmq

ARGUMENTS = message("boot_two_instances")["args"]


class Call(threading.Thread):
    """A call on its way; ``reply`` is the answer once joined."""

    def __init__(self, url):
        super().__init__(daemon=True)
        conf = options.load([], default_config_files=[])
        conf.set_override("transport_url", url)
        transport = messaging.get_rpc_transport(conf)
        target = messaging.Target(topic="scheduler", version="4.5")
        self.client = messaging.get_rpc_client(transport, target, timeout=60)
        self.reply = None
        self.start()

    def run(self):
        try:
            self.reply = self.client.call({}, "select_destinations", **ARGUMENTS)
        except messaging.RemoteError as error:
            self.reply = error
        self.client.transport.cleanup()


@pytest.fixture
def daemon(tmp_path, rabbit_url):
    text = f"[DEFAULT]\ntransport_url={rabbit_url}\n"
    daemon = Daemon(tmp_path, text, {"TEST_RPC": "2"})
    daemon.text = text
    daemon.expect_log("The daemon takes requests")
    yield daemon
    daemon.kill()


def test_a_request_in_progress_is_answered_before_the_daemon_stops(daemon, rabbit_url):
    call = Call(rabbit_url)
    daemon.expect("request begins .*")
    daemon.signal(signal.SIGTERM)
    status, told = daemon.end()
    assert status == 0
    assert "request ends" in told
    call.join(60)
    assert call.reply == []


@contextlib.contextmanager
def two_daemons(tmp_path, rabbit_url, text, **variables):
    """A daemon that has begun a request, the call, and another daemon that takes requests."""
    places = [tmp_path / name for name in ("first", "other")]
    for place in places:
        place.mkdir()
    with contextlib.ExitStack() as stack:
        first = Daemon(places[0], text, {"TEST_RPC": "1000", **variables})
        stack.callback(first.kill)
        first.expect_log("The daemon takes requests")
        call = Call(rabbit_url)
        first.expect("request begins .*")
        other = Daemon(places[1], text, {"TEST_RPC": "0"})
        stack.callback(other.kill)
        other.expect_log("The daemon takes requests")
        yield first, call, other


def test_a_request_of_a_killed_daemon_is_answered_by_another(tmp_path, rabbit_url):
    text = f"[DEFAULT]\ntransport_url={rabbit_url}\n"
    with two_daemons(tmp_path, rabbit_url, text) as (first, call, other):
        os.killpg(first.process.pid, signal.SIGKILL)
        other.expect("request begins .*")
        call.join(60)
        assert call.reply == []


def test_a_request_of_a_daemon_that_hangs_with_the_interpreter_lock_is_answered_by_another(
    tmp_path, rabbit_url
):
    text = f"[DEFAULT]\ntransport_url={rabbit_url}\n[berth]\nworker_timeout=6\n"
    with two_daemons(tmp_path, rabbit_url, text, TEST_HANG="1") as (first, call, other):
        first.signal(signal.SIGHUP)
        assert first.end()[0] == 1
        assert "Timeout (0:00:06)!" in first.errors.read_text()
        other.expect("request begins .*")
        call.join(60)
        assert call.reply == []


def test_requests_of_a_daemon_that_is_killed_are_answered_after_its_next_start(daemon, rabbit_url, tmp_path):
    calls = [Call(rabbit_url) for _ in range(5)]
    daemon.expect("request begins .*", times=5)
    daemon.kill()
    successor = Daemon(tmp_path, daemon.text, {"TEST_RPC": "0"})
    try:
        for call in calls:
            call.join(60)
            assert call.reply == []
    finally:
        successor.kill()


def test_a_request_that_kills_its_daemon_is_answered_with_an_error_after_some_runs(tmp_path, rabbit_url):
    text, poison = f"[DEFAULT]\ntransport_url={rabbit_url}\n", {"TEST_RPC": "0", "TEST_POISON": "1"}
    call = None
    for _ in range(server.MOST_RUNS):
        daemon = Daemon(tmp_path, text, poison)
        if call is None:
            daemon.expect_log("The daemon takes requests")
            call = Call(rabbit_url)
        daemon.expect("request begins .*")
        assert daemon.process.wait(60) == -signal.SIGKILL
        daemon.kill()
    daemon = Daemon(tmp_path, text, poison)
    try:
        call.join(60)
        assert "schedulers had it and did not answer it" in str(call.reply)
        daemon.signal(signal.SIGTERM)
        status, told = daemon.end()
        assert (status, [line for line in told if line.startswith("request")]) == (0, [])
        assert daemon.errors.read_text().count("with an error instead of serving it again") == 1
    finally:
        daemon.kill()


def test_sighup_does_not_touch_a_request_in_progress(daemon, rabbit_url):
    call = Call(rabbit_url)
    (begun,) = daemon.expect("request begins (.*)")
    daemon.signal(signal.SIGHUP)
    daemon.expect("manager looks anew .*")
    daemon.expect("request ends")
    call.join(60)
    assert call.reply == []
    assert begun


def test_the_daemon_waits_for_its_broker_and_stops_without_it(tmp_path):
    daemon = Daemon(tmp_path, "[DEFAULT]\ntransport_url=rabbit://127.0.0.1:1\n", {"TEST_RPC": "0"})
    try:
        daemon.expect("manager starts .*")
        daemon.signal(signal.SIGTERM)
        assert daemon.end()[0] == 0
    finally:
        daemon.kill()
