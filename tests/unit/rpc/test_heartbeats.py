import math
import threading
import time

import pytest

from scheduler.rpc import heartbeats
from tests.support.clock import Clock
from tests.support.idle_loop import IdleLoop
from tests.support.waiting import eventually


class Incoming:
    def __init__(self, client_timeout, fails=False):
        self.client_timeout = client_timeout
        self.fails = fails
        self.beats = 0

    def heartbeat(self):
        self.beats += 1
        if self.fails:
            raise ConnectionError("broker away")


@pytest.fixture
def clock():
    return Clock(100.0)


def make(clock):
    return heartbeats.Heartbeats(clock, make_loop=IdleLoop)


def beats_at(clock, watched, times):
    sender = make(clock)
    for incoming in watched:
        sender.watch(incoming)
    start, seen = clock.now, []
    for when in times:
        clock.now = start + when
        sender.send_due()
        seen.append([incoming.beats for incoming in watched])
    return sender, seen


def test_every_half_of_the_timeout(clock):
    watched = [Incoming(60), Incoming("4")]
    _, seen = beats_at(clock, watched, [1, 2, 4, 8, 29, 30, 31, 60])
    assert [beats for beats, _ in seen] == [0, 0, 0, 0, 0, 1, 1, 2]
    assert [beats for _, beats in seen[:4]] == [0, 1, 2, 3]


@pytest.mark.parametrize(("silence", "first"), [(0, 30), (12, 18), (30, 0), (45, 0), (math.inf, 0)])
def test_the_first_is_due_earlier_after_silence_of_others_and_the_next_as_usual(clock, silence, first):
    incoming, sender, begun = Incoming(60), make(clock), clock.now
    sender.watch(incoming, silence)
    for when, beats in ((first - 1, 0), (first, 1), (first + 29, 1), (first + 30, 2)):
        clock.now = begun + when
        sender.send_due()
        assert incoming.beats == beats


def test_none_after_release(clock):
    incoming = Incoming(60)
    sender, _ = beats_at(clock, [incoming], [30])
    sender.release(incoming)
    clock.now += 100
    sender.send_due()
    assert incoming.beats == 1


@pytest.mark.parametrize(("patience", "waits"), [(0.05, False), (30.0, True)])
def test_a_reply_waits_for_a_heartbeat_that_is_being_sent_but_not_for_an_outage(
    clock, monkeypatch, patience, waits
):
    monkeypatch.setattr(heartbeats, "LAST_TIMEOUT", patience)
    incoming, sending, sent = Incoming(60), threading.Event(), threading.Event()

    def heartbeat():
        sending.set()
        sent.wait(20 if not waits else 0.2)
        incoming.beats += 1

    incoming.heartbeat = heartbeat
    sender = make(clock)
    sender.watch(incoming)
    clock.now += 30
    thread = threading.Thread(target=sender.send_due)
    thread.start()
    sending.wait(20)
    sender.release(incoming)
    assert incoming.beats == waits
    sent.set()
    thread.join(20)


def test_a_call_that_fails_does_not_keep_others_from_theirs(clock):
    dead, alive = Incoming(60, fails=True), Incoming(60)
    _, seen = beats_at(clock, [dead, alive], [30, 60, 90])
    assert seen == [[1, 1], [2, 2], [3, 3]]


@pytest.mark.parametrize("timeout", [1, 1.9, "x", "", [], {}, True, -60, float("inf"), 0, None])
def test_timeouts_that_get_none(clock, timeout):
    _, seen = beats_at(clock, [Incoming(timeout)], [1000])
    assert seen == [[0]]


@pytest.mark.parametrize(("timeout", "warnings"), [(1, 1), ("x", 1), (None, 0), (0, 0), (60, 0)])
def test_nonsense_is_logged(clock, caplog, timeout, warnings):
    beats_at(clock, [Incoming(timeout)], [])
    assert len(caplog.records) == warnings


def test_the_library_s_own_are_switched_off(clock):
    incoming = Incoming(60)
    make(clock).watch(incoming)
    assert incoming.client_timeout is None


def test_release_of_a_message_that_was_not_watched(clock):
    make(clock).release(Incoming(None))


def fast():
    made = heartbeats.Heartbeats(clock=lambda: time.monotonic() * 1000, tick=0.001)
    made.start()
    return made


def test_the_thread_sends():
    incoming, sender = Incoming(60), fast()
    sender.watch(incoming)
    assert eventually(lambda: incoming.beats > 1)
    sender.release(incoming)


def test_the_thread_sends_for_a_call_that_comes_after_an_idle_time():
    first, second, sender = Incoming(60), Incoming(60), fast()
    sender.watch(first)
    sender.release(first)
    time.sleep(0.05)
    sender.watch(second)
    assert eventually(lambda: second.beats)
    sender.release(second)


def test_bad_timeouts_are_logged_once_in_an_interval(clock, caplog):
    beats_at(clock, [Incoming("x") for _ in range(100)], [])
    assert len(caplog.records) == 1
