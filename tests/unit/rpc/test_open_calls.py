"""Heartbeats, calls whose reply nobody reads, and what is listed; the time is that of the test."""

import threading

import pytest

from scheduler.bounds.waits import Wait
from scheduler.request.past import Past
from scheduler.rpc import open_calls
from scheduler.rpc.calls import Event, State
from scheduler.rpc.open_calls import LONGEST_ID, LONGEST_UNACKNOWLEDGED, OpenCalls
from tests.support.calls import Bus, make_call
from tests.support.idle_loop import IdleLoop
from tests.support.waiting import eventually
from tests.unit.rpc.conftest import boot


class World:
    """The open calls of a server with two threads."""

    def __init__(self, clock):
        self.clock, self.bus, self.went_on = clock, Bus(), []
        self.open = OpenCalls(self.bus, 2, lambda *told: self.went_on.append(told), clock, IdleLoop)
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
    opened = OpenCalls(bus, 2, lambda *_: None, clock, IdleLoop)
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
    assert world.at(0) == open_calls.TICK
    for call in world.open._listed():
        world.open.remove(call)
    assert world.at(1) == open_calls.IDLE


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
    assert world.open.take_waiting() == [call]
    assert world.open.take_waiting() == []
    world.at(1)
    assert world.went_on == []


def test_a_queue_is_looked_at_seldom_while_it_is_read(world):
    world.bus.looks.clear()
    first, second = world.add(), world.add()
    assert not world.open.is_unread(first, certain=False)
    assert world.bus.looks == [], "nothing makes it suspect"
    assert not world.open.is_unread(first, certain=True)
    assert not world.open.is_unread(second, certain=True)
    assert world.bus.looks == ["reply"]
    world.clock.now += 2
    world.bus.unread = {"reply"}
    assert world.open.is_unread(second, certain=True)
    assert world.open.is_unread(first, certain=False), "it is suspect now"


def test_a_call_is_acknowledged_before_the_broker_takes_its_consumer_for_dead(world):
    call = world.add()
    world.at(LONGEST_UNACKNOWLEDGED)
    assert call.delivery.ends == []
    world.at(LONGEST_UNACKNOWLEDGED + 1)
    world.at(LONGEST_UNACKNOWLEDGED + 2)
    assert call.delivery.ends == ["acknowledged"]


# -- stalls


def test_a_server_whose_threads_are_all_busy_and_finish_nothing_stalls(world):
    opened, clock = world.open, world.clock
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


def test_a_server_with_free_threads_that_begins_no_call_stalls(world):
    """Its threads are dead: something has stopped the pool."""
    world.clock.now += 100
    assert world.open.stalled() == 0.0, "there is nothing to do"
    world.add()
    assert world.open.stalled() == 100.0
    with world.open.serving():
        world.clock.now += 7
        assert world.open.stalled() == 0.0, "the only call is served, and more could be"
        waiting(world)
        assert world.open.stalled() == 0.0, "what waits for its reader does so without a thread"
        world.add()
        assert world.open.stalled() == 7.0


# -- what is listed


@pytest.mark.parametrize(
    ("state", "step", "wait"),
    [
        (State.WAITS_FOR_THREAD, "queue", Wait("a free thread", 100.0)),
        (State.RUNS, "start", None),
        (State.REPLIES, "reply", Wait("RabbitMQ, which has to confirm the reply", 108.0)),
        (State.WAITS_FOR_READER, "reply", Wait("reply queue reply_1, which nobody reads", 109.0)),
    ],
)
def test_what_a_call_waits_for(world, state, step, wait):
    context = {"_context_request_id": "req-1", "_context_auth_token": "secret"}
    call = make_call(
        {"method": "m", "args": {"instance_uuids": ["i1", "i2"]}, **context}, queue="reply_1", received=100.0
    )
    world.open.add(call)
    world.clock.now = 109.0
    call.replying_since = 108.0
    world.open.wait(call)
    call.state = state
    (found,) = world.open.listed()
    assert (found.step, found.wait) == (step, wait)
    assert (found.request_id, found.instance_uuids, found.received_at) == ("req-1", ("i1", "i2"), 100.0)
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("frame", "request_id", "uuids"),
    [
        ({}, "", ()),
        ({"args": {"instance_uuids": "abc"}, "_context_request_id": 5}, "", ()),
        ({"args": ["x"]}, "", ()),
        (
            {"args": {"instance_uuids": ["x" * 1000, 7]}, "_context_request_id": "r" * 1000},
            "r" * LONGEST_ID,
            ("x" * LONGEST_ID, ""),
        ),
    ],
)
def test_a_message_of_any_form_can_be_listed(world, frame, request_id, uuids):
    world.open.add(make_call(frame))
    (found,) = world.open.listed()
    assert (found.request_id, found.instance_uuids) == (request_id, uuids)
