import threading
from unittest.mock import Mock

import pytest

from scheduler.stream import loops
from scheduler.stream.broker import StreamUnavailable
from scheduler.stream.loops import StreamReader
from tests.support.clock import Clock
from tests.support.waiting import eventually
from tests.unit.stream.fake_broker import FakeBroker

PATIENCE = 60


class World:
    """A reader; its markers have the counters 0, 1, ... and come back when a test says so."""

    def __init__(self):
        self.broker, self.clock, self.cpu = FakeBroker(), Clock(), Clock()
        self.delivered, self.failures, self.cost = [], [], 0.0
        self.markers = 0
        self.connections = []
        self.reader = StreamReader(
            self.connect, self.deliver, self.publish_marker, self.failures.append, self.clock, self.cpu
        )

    def connect(self):
        self.connections.append(self.broker.connect("reader"))
        return self.connections[-1]

    def deliver(self, body):
        self.cpu.now += self.cost
        self.delivered.append(body)

    def publish_marker(self):
        return self.mark()

    def mark(self):
        self.markers += 1
        return self.markers - 1

    def round(self, seconds=0.0):
        self.clock.now += seconds
        return self.reader.run_round()


@pytest.fixture
def world():
    return World()


def test_messages_are_delivered_in_order_once_it_has_subscribed(world):
    world.broker.bodies = [b"1", b"2"]
    assert world.round() == 0
    world.broker.bodies.append(b"3")
    world.round()
    assert (world.delivered, world.markers) == ([b"1", b"2", b"3"], 1)


def test_it_is_caught_up_once_its_marker_comes_back_after_each_subscription(world):
    world.round()
    assert (world.reader.is_replaying, world.reader.in_step) == (True, False)
    world.reader.see_own(0)
    assert (world.reader.is_replaying, world.reader.in_step) == (False, True)
    assert world.reader.wait_until_caught_up(0)
    world.broker.away = True
    world.round()
    world.broker.away = False
    world.round(loops.RETRY_INTERVAL)
    assert (world.markers, world.reader.is_replaying) == (2, True)
    world.reader.see_own(1)
    assert not world.reader.is_replaying


def test_an_own_record_is_new_if_it_was_published_here_and_not_seen_before(world):
    world.reader.see_own(3)
    assert [world.reader.is_new(counter, published=6) for counter in (2, 3, 4, 5, 6)] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_a_start_waits_no_longer_for_a_broker_that_refuses(world):
    world.broker.away = world.broker.refuses = True
    for _ in range(loops.MOST_REFUSALS):
        world.round(loops.RETRY_INTERVAL)
    assert not world.reader.wait_until_caught_up(10_000)


def test_while_own_records_come_back_the_subscription_stays(world):
    for counter in range(5):
        world.round(loops.SILENT_AFTER - 1)
        world.reader.see_own(counter)
    assert (world.markers, world.failures) == (1, [])


def test_a_long_replay_is_not_taken_for_silence(world):
    for _ in range(5):
        world.broker.bodies.append(b"old")
        world.round(loops.SILENT_AFTER - 1)
    assert (world.markers, world.failures) == (1, [])


def test_others_records_alone_are_taken_for_silence_once_an_own_one_was_seen(world):
    world.round()
    world.reader.see_own(0)
    for _ in range(2):
        world.broker.bodies.append(b"another's")
        world.round(loops.SILENT_AFTER - 1)
    assert len(world.failures) == 1


def test_a_subscription_that_went_silent_is_made_again(world):
    world.round()
    world.broker.deaf = True
    world.round(loops.SILENT_AFTER + 1)
    assert [str(one) for one in world.failures] == ["broker test: own records did not come back in 15 s"]
    world.broker.bodies, world.broker.deaf = [b"1"], False
    world.round(loops.RETRY_INTERVAL)
    assert (world.delivered, world.markers) == ([b"1"], 2)


def test_while_the_broker_is_away_it_is_tried_once_an_interval(world):
    world.round()
    world.broker.away = True
    assert world.round() == loops.RETRY_INTERVAL
    assert world.round(0.4) == pytest.approx(loops.RETRY_INTERVAL - 0.4)
    assert len(world.failures) == 1
    world.broker.away = False
    world.round(loops.RETRY_INTERVAL)
    assert world.markers == 2


def test_a_message_that_the_library_cannot_decode_is_met_once(world):
    world.broker.bodies, world.broker.malformed = [b"1", b"\xff", b"3"], {1}
    world.round()
    world.round(loops.RETRY_INTERVAL)
    world.broker.bodies.append(b"4")
    world.round()
    assert (world.delivered, len(world.failures)) == ([b"1", b"4"], 1)
    world.broker.away = True
    world.round()
    world.broker.away, world.broker.malformed = False, set()
    world.round(loops.RETRY_INTERVAL)
    assert world.delivered == [b"1", b"4", b"1", b"\xff", b"3", b"4"]


def test_a_flood_of_records_leaves_most_of_the_time_to_requests(world):
    world.round()
    world.reader.see_own(0)
    world.cost, world.broker.bodies = 0.001, [b"forged"] * 1000
    rested = 0.0
    while len(world.delivered) < 1000:
        rest = world.round()
        world.reader.see_own(0)
        rested += rest
        assert rest <= loops.REST * (loops.SPELL + world.cost)
    assert rested == pytest.approx(loops.REST * 1.0)


def test_before_the_first_request_it_reads_without_a_rest(world):
    world.cost, world.broker.bodies = 0.001, [b"old"] * 1000
    while len(world.delivered) < 1000:
        assert world.round() == 0


def test_a_reader_that_stops_reports_no_failure_and_closes_its_connection():
    world = World()
    world.reader.start()
    world.reader.stop(10)
    assert world.failures == []
    assert all(each.closed for each in world.connections)


def test_a_connection_is_not_closed_under_the_thread_that_reads_it():
    """The thread would fail, and report an outage that is none."""
    world, reads, stopped = World(), threading.Event(), threading.Event()

    def receive(_timeout):
        reads.set()
        stopped.wait(PATIENCE)
        raise StreamUnavailable("lost")

    world.broker.connect = lambda _purpose: Mock(receive=receive, close=Mock())
    world.reader.start()
    assert reads.wait(PATIENCE)
    world.reader.stop(0)
    (connection,) = world.connections
    assert not connection.close.called
    stopped.set()
    assert eventually(lambda: connection.close.called)
    assert world.failures == []


def test_a_subscription_that_nobody_learned_of_is_made_again(world):
    world.mark = Mock(side_effect=[RuntimeError("can't start new thread"), 0])
    world.broker.bodies = [b"1"]
    with pytest.raises(RuntimeError):
        world.round()
    assert world.delivered == []
    world.round()
    assert ([each.closed for each in world.connections], world.delivered) == ([True, False], [b"1"])
