"""Notifications to systemd, on a real socket."""

import os
import socket

import pytest

from scheduler.health.systemd import Notifier
from tests.support.clock import Clock


@pytest.fixture(params=["path", "abstract"])
def listener(request, tmp_path):
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.setblocking(False)
        name = address if request.param == "path" else f"@{address}"
        listener.bind(name.replace("@", "\0", 1))
        yield listener


def environment(listener, **more):
    address = listener.getsockname()
    name = address if isinstance(address, str) else f"@{address[1:].decode()}"
    return {"NOTIFY_SOCKET": name, "OTHER": "1", **more}


def test_each_state_is_one_datagram(listener):
    notifier = Notifier(environment(listener))
    notifier.notify("READY=1")
    notifier.notify("STATUS=The daemon takes requests")
    assert [listener.recv(100) for _ in range(2)] == [b"READY=1", b"STATUS=The daemon takes requests"]


def test_other_processes_inherit_none_of_it(listener):
    variables = environment(listener, WATCHDOG_USEC="30000000", WATCHDOG_PID="1")
    Notifier(variables)
    assert variables == {"OTHER": "1"}


def test_the_watchdog_is_fed_three_times_within_its_interval(listener):
    clock = Clock()
    notifier = Notifier(environment(listener, WATCHDOG_USEC="30000000"), clock=clock)
    assert notifier.watchdog_interval == 30.0
    fed = 0
    for _ in range(30):
        notifier.feed_watchdog()
        clock.now += 1
        try:
            fed += listener.recv(100) == b"WATCHDOG=1"
        except BlockingIOError:
            continue
    assert fed == 3


@pytest.mark.parametrize(
    "variables",
    [{}, {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid() + 1)}, {"WATCHDOG_USEC": "soon"}],
    ids=["none", "of another process", "no number"],
)
def test_without_a_watchdog_none_is_fed(listener, variables):
    notifier = Notifier(environment(listener, **variables))
    assert notifier.watchdog_interval is None
    notifier.feed_watchdog()
    with pytest.raises(BlockingIOError):
        listener.recv(100)


@pytest.mark.parametrize("variables", [{}, {"NOTIFY_SOCKET": "/absent/socket"}], ids=["no systemd", "gone"])
def test_without_a_listener_nothing_happens(variables):
    notifier = Notifier(dict(variables))
    notifier.notify("READY=1")
    notifier.feed_watchdog()
