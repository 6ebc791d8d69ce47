"""Heartbeats, and calls whose reply nobody reads; the time is that of the test."""

import threading

import pytest

from scheduler.request.past import Past
from scheduler.rpc import keepalive
from scheduler.rpc.calls import Event, State
from scheduler.rpc.keepalive import LONGEST_UNACKNOWLEDGED, OpenCalls
from tests.support.calls import Bus, make_call
from tests.support.idle_loop import IdleLoop
from tests.support.waiting import eventually
from tests.unit.rpc.conftest import boot


class World:
    """The open calls of a server with two threads."""

    def __init__(self, clock):
        self.clock, self.bus, self.went_on = clock, Bus(), []
        self.open = OpenCalls(2, self.bus, lambda *told: self.went_on.append(told), clock, IdleLoop)
        self.open._senders = self
        self.begun = clock.now

    def submit(self, function, *arguments):
        function(*arguments)

    def add(self, **fields):
        call = make_call(boot(), **{"received": self.clock.now, **fields})
        self.open.add(call)
        return call

    def at(self, seconds):
        self.clock.now = self.begun + seconds
        return self.open.look()


@pytest.fixture
def world(clock):
    return World(clock)


# -- heartbeats


def test_heartbeats_come_every_half_of_the_timeout(world):
    slow, fast = world.add(timeout=60), world.add(timeout="4")
    seen = []
    for seconds in (1, 2, 4, 8, 29, 30, 31, 60):
        world.at(seconds)
        seen.append((world.bus.beats.count(slow.frame.msg_id), world.bus.beats.count(fast.frame.msg_id)))
    assert [beats for beats, _ in seen] == [0, 0, 0, 0, 0, 1, 1, 2]
    assert [beats for _, beats in seen[:4]] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("past", "first"), [(Past.REDELIVERED, 0.0), (Past.NONE, 30.0), (Past.QUEUED, 30.0)], ids=str
)
def test_a_caller_hears_early_from_a_scheduler_that_gets_its_call_late(world, past, first):
    world.add(timeout=60, past=past)
    beats = []
    for seconds in (0.0, 29.9, 30.0):
        world.at(seconds)
        beats += [seconds] * (len(world.bus.beats) > len(beats))
    assert beats[0] == first


@pytest.mark.parametrize("end", ["replies", "over"])
def test_no_heartbeat_follows_a_reply(world, end):
    call = world.add(timeout=60)
    if end == "over":
        world.open.remove(call)
    else:
        call.state = State.REPLIES
    world.at(100)
    assert world.bus.beats == []


@pytest.mark.parametrize("timeout", [1, 1.9, "x", "", [], {}, True, -60, float("inf"), 0, None])
def test_timeouts_that_get_none(world, timeout):
    world.add(timeout=timeout)
    world.at(1000)
    assert world.bus.beats == []


@pytest.mark.parametrize(("timeout", "lines"), [(1, 1), ("x", 1), (None, 0), (0, 0), (60, 0)])
def test_timeouts_that_are_none_are_one_line_of_the_log(world, caplog, timeout, lines):
    for _ in range(100):
        world.add(timeout=timeout)
    assert len(caplog.records) == lines


def test_a_reply_queue_that_is_slow_delays_no_other_one(clock):
    """On a node of the broker that is lost each heartbeat takes ten seconds."""
    bus, go_on, sent = Bus(), threading.Event(), []

    def reply(queue, *_arguments, **_options):
        if queue == "slow":
            assert go_on.wait(20)
        sent.append(queue)

    bus.reply = reply
    opened = OpenCalls(2, bus, lambda *_: None, clock, IdleLoop)
    opened.start()
    for queue in ["slow"] * 20 + ["quick"] * 2:
        opened.add(make_call(boot(), queue=queue, timeout=60))
    for _ in range(3):
        clock.now += 30
        opened.look()
        assert eventually(lambda: sent.count("quick") >= 2)
        sent.clear()
    assert "slow" not in sent
    go_on.set()
    opened.stop()


def test_the_thread_is_woken_by_the_first_call(world):
    world.add(timeout=60)
    assert world.open._loop.woken
    assert world.at(0) == keepalive.TICK
    for call in world.open:
        world.open.remove(call)
    assert world.at(1) == keepalive.IDLE


# -- replies that nobody reads


def waiting(world, queue="reply"):
    call = world.add(queue=queue)
    world.open.wait(call)
    return call


def test_calls_go_on_once_their_queue_is_read(world):
    world.bus.unread = {"reply", "other"}
    calls = [waiting(world), waiting(world, "other")]
    world.at(1)
    assert world.went_on == []
    world.bus.unread = {"other"}
    world.at(2)
    assert world.went_on == [(calls[0], None)]
    world.at(3)
    assert len(world.went_on) == 1


def test_all_calls_of_a_queue_share_its_patience(world, caplog):
    world.bus.unread = {"reply"}
    first = waiting(world)
    world.at(40)
    second = waiting(world)
    world.at(59)
    assert world.went_on == []
    world.at(60)
    assert world.went_on == [(first, Event.CALLER_GONE), (second, Event.CALLER_GONE)]
    assert "Nobody reads reply queue reply; calls dropped: 2" in caplog.text


def test_a_queue_that_cannot_be_looked_at_hides_no_other_one(world):
    world.bus.unread, world.bus.unknown = {"gone"}, {"lost"}
    waiting(world, "lost")
    gone, back = waiting(world, "gone"), waiting(world, "back")
    world.at(1)
    assert world.went_on == [(back, None)]
    world.at(100)
    assert world.went_on == [(back, None), (gone, Event.CALLER_GONE)]


def test_a_call_goes_on_once(world):
    """The round and the stop may see it at the same time."""
    call = waiting(world)
    assert [world.open.take(call), world.open.take(call)] == [True, False]
    world.at(1)
    assert world.went_on == []


def test_a_queue_is_looked_at_seldom_while_it_is_read(world):
    world.bus.looks.clear()
    queues = world.open.queues
    assert not queues.is_unread("reply", certain=False)
    assert world.bus.looks == [], "nothing makes it suspect"
    assert not queues.is_unread("reply", certain=True)
    assert not queues.is_unread("reply", certain=True)
    assert world.bus.looks == ["reply"]
    world.clock.now += 2
    world.bus.unread = {"reply"}
    assert queues.is_unread("reply", certain=True)
    assert queues.is_unread("reply", certain=False), "it is suspect now"


def test_a_call_is_acknowledged_before_the_broker_takes_its_consumer_for_dead(world):
    call = world.add()
    world.at(LONGEST_UNACKNOWLEDGED)
    assert call.ends == []
    world.at(LONGEST_UNACKNOWLEDGED + 1)
    world.at(LONGEST_UNACKNOWLEDGED + 2)
    assert call.ends == ["acknowledged"]


# -- when threads count as stuck


def test_a_server_whose_threads_are_all_busy_and_finish_nothing_stalls(clock):
    opened = OpenCalls(2, Bus(), None, clock, IdleLoop)
    with opened.serving():
        clock.now += 100
        assert opened.stalled() == 0.0, "a thread is free"
        with opened.serving():
            clock.now += 7
            assert (opened.in_flight, opened.stalled()) == (2, 7.0)
            opened.touch()
            clock.now += 2
            assert opened.stalled() == 2.0, "a claim got on meanwhile"
        with opened.serving():
            clock.now += 3
            assert opened.stalled() == 3.0, "a call was finished meanwhile"
    assert (opened.in_flight, opened.stalled()) == (0, 0.0)


def test_a_server_with_free_threads_that_begins_no_call_stalls(clock):
    """Its threads are dead: something has stopped the pool."""
    opened = OpenCalls(2, Bus(), None, clock, IdleLoop)
    clock.now += 100
    assert opened.stalled() == 0.0, "there is nothing to do"
    opened.add(make_call())
    assert opened.stalled() == 100.0
    with opened.serving():
        clock.now += 7
        assert opened.stalled() == 0.0, "the only call is served, and more could be"
        waiting = make_call()
        opened.add(waiting)
        waiting.state = State.WAITS_FOR_READER
        assert opened.stalled() == 0.0, "what waits for its reader does so without a thread"
        opened.add(make_call())
        assert opened.stalled() == 7.0
