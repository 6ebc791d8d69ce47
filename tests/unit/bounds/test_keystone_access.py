import threading
import time
from types import SimpleNamespace

from keystoneauth1 import exceptions
import pytest

from scheduler.bounds.circuit_breaker import FIRST_PROBE, CircuitBreaker
from scheduler.bounds.deadline import Deadline, limit_to
from scheduler.bounds.keystone_access import guard, guarded


def test_a_keystone_that_is_away_is_asked_once_until_the_probe_is_due(clock):
    asked = []

    def get_access(_session):
        asked.append(1)
        raise exceptions.ConnectTimeout("slow")

    access = guarded(get_access, CircuitBreaker("Keystone", clock))
    for _ in range(5):
        with pytest.raises(exceptions.ConnectionError):
            access(None)
    assert len(asked) == 1
    clock.now += FIRST_PROBE
    with pytest.raises(exceptions.ConnectionError):
        access(None)
    assert len(asked) == 2


def test_requests_that_wait_for_a_hung_keystone_fail_together():
    release = threading.Event()

    def get_access(_session):
        release.wait(30)
        raise exceptions.ConnectTimeout("slow")

    access = guarded(get_access, CircuitBreaker("Keystone"))
    results = []

    def ask():
        with pytest.raises(exceptions.ConnectionError):
            access(None)
        results.append(1)

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    release.set()
    for thread in threads:
        thread.join(60)
    assert len(results) == 10


def test_the_deadline_of_a_request_ends_its_wait_for_another_thread():
    asked, release = threading.Event(), threading.Event()
    access = guarded(lambda _session: asked.set() or release.wait(30), CircuitBreaker("Keystone"))
    thread = threading.Thread(target=access, args=(None,))
    thread.start()
    assert asked.wait(60)
    begun = time.monotonic()
    with limit_to(Deadline.after(0.05)), pytest.raises(exceptions.ConnectionError):
        access(None)
    assert time.monotonic() - begun < 5
    release.set()
    thread.join(60)


def test_nobody_waits_for_the_probe_of_a_keystone_that_is_left_out(clock):
    """A hung one keeps each probe for its whole timeout, and is probed every few seconds."""
    asked, probes, release = [], threading.Event(), threading.Event()

    def get_access(_session):
        asked.append(1)
        if len(asked) > 1:
            probes.set()
            release.wait(30)
        raise exceptions.ConnectTimeout("slow")

    def ask():
        with pytest.raises(exceptions.ConnectionError):
            access(None)

    access = guarded(get_access, CircuitBreaker("Keystone", clock))
    ask()
    clock.now += FIRST_PROBE
    prober = threading.Thread(target=ask)
    prober.start()
    assert probes.wait(60)
    begun = time.monotonic()
    ask()
    assert time.monotonic() - begun < 10
    release.set()
    prober.join(60)


def test_a_refusal_is_an_answer(clock):
    access = guarded(
        lambda _session: (_ for _ in ()).throw(exceptions.Unauthorized()), CircuitBreaker("Keystone", clock)
    )
    for _ in range(3):
        with pytest.raises(exceptions.Unauthorized):
            access(None)


def test_a_plugin_that_asks_no_keystone_is_left_as_it_is():
    plugin = SimpleNamespace(get_token=lambda: "t")
    guard(plugin, "placement")
    guard(None, "placement")
    assert not hasattr(plugin, "get_access")
