from unittest.mock import Mock

import pytest

from scheduler.stream import reader
from scheduler.stream.reader import StreamReader
from tests.support.clock import Clock
from tests.unit.stream.fake_broker import FakeBroker


class World:
    def __init__(self):
        self.broker, self.clock = FakeBroker(), Clock()
        self.delivered, self.subscribed, self.failures = [], [], []
        self.reader = StreamReader(
            lambda: self.broker.connect("reader"),
            self.delivered.append,
            lambda: self.subscribed.append(self.clock()),
            self.failures.append,
            self.clock,
        )

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
    assert (world.delivered, len(world.subscribed)) == ([b"1", b"2", b"3"], 1)


def test_while_own_records_come_back_the_subscription_stays(world):
    for _ in range(5):
        world.round(reader.SILENT_AFTER - 1)
        world.reader.see_own_record()
    assert (len(world.subscribed), world.failures) == (1, [])


def test_a_long_replay_is_not_taken_for_silence(world):
    for _ in range(5):
        world.broker.bodies.append(b"old")
        world.round(reader.SILENT_AFTER - 1)
    assert (len(world.subscribed), world.failures) == (1, [])


def test_others_records_alone_are_taken_for_silence_once_an_own_one_was_seen(world):
    world.round()
    world.reader.see_own_record()
    for _ in range(2):
        world.broker.bodies.append(b"another's")
        world.round(reader.SILENT_AFTER - 1)
    assert len(world.failures) == 1


def test_a_subscription_that_went_silent_is_made_again(world):
    world.round()
    world.broker.deaf = True
    world.round(reader.SILENT_AFTER + 1)
    assert [str(one) for one in world.failures] == ["broker test: own records did not come back in 15 s"]
    world.broker.bodies, world.broker.deaf = [b"1"], False
    world.round(reader.RETRY_INTERVAL)
    assert (world.delivered, len(world.subscribed)) == ([b"1"], 2)


def test_while_the_broker_is_away_it_is_tried_once_an_interval(world):
    world.round()
    world.broker.away = True
    assert world.round() == reader.RETRY_INTERVAL
    assert world.round(0.4) == pytest.approx(reader.RETRY_INTERVAL - 0.4)
    assert len(world.failures) == 1
    world.broker.away = False
    world.round(reader.RETRY_INTERVAL)
    assert len(world.subscribed) == 2


def test_a_reader_stops():
    world = World()
    world.reader.start()
    world.reader.stop(10)
    assert world.failures == []


def test_a_subscription_that_nobody_learned_of_is_made_again(world):
    connections = []
    reader_of_world = StreamReader(
        lambda: connections.append(world.broker.connect("reader")) or connections[-1],
        world.delivered.append,
        Mock(side_effect=[RuntimeError("can't start new thread"), None]),
        world.failures.append,
        world.clock,
    )
    world.broker.bodies = [b"1"]
    with pytest.raises(RuntimeError):
        reader_of_world.run_round()
    assert world.delivered == []
    reader_of_world.run_round()
    assert ([each.closed for each in connections], world.delivered) == ([True, False], [b"1"])
