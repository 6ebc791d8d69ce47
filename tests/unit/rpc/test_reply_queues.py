"""Calls whose reply queue is missing."""

from types import SimpleNamespace

import pytest

from scheduler.rpc.calls import State
from scheduler.rpc.reply_queues import FOUND_FOR, IDLE, LOOK_INTERVAL, ReplyQueues
from tests.support.clock import Clock
from tests.support.idle_loop import IdleLoop

PATIENCE = 60.0


class World:
    """Reply queues, ``missing`` ones among them, and how calls ended."""

    def __init__(self):
        self.clock, self.missing, self.asked, self.ends = Clock(), set(), [], []
        self.broker_is_away = False
        self.queues = ReplyQueues(self.clock, IdleLoop)

    def call(self, name, queue):
        def has_reply_queue():
            self.asked.append(queue)
            if self.broker_is_away:
                raise OSError("refused")
            return queue not in self.missing

        driver = SimpleNamespace(missing_destination_retry_timeout=PATIENCE)
        return SimpleNamespace(
            reply_q=queue,
            has_reply_queue=has_reply_queue,
            listener=SimpleNamespace(driver=driver),
            undelivered=None,
            state=State.WAITS_FOR_THREAD,
            requeue=lambda: self.ends.append((name, "returned")),
            settle=lambda: self.ends.append((name, "dropped")),
        )

    def wait(self, name, queue):
        self.missing.add(queue)
        self.queues.wait(self.call(name, queue))

    def look_after(self, seconds):
        self.clock.now += seconds
        return self.queues.look()


@pytest.fixture
def world():
    return World()


def test_calls_of_a_queue_share_the_time_in_which_it_may_come_back(world):
    world.wait("first", "a")
    world.clock.now += 50
    world.wait("second", "a")
    world.wait("of another", "b")
    assert world.look_after(9) == LOOK_INTERVAL
    assert world.ends == []
    assert world.look_after(1) == LOOK_INTERVAL
    assert world.ends == [("first", "dropped"), ("second", "dropped")]
    assert len(world.queues) == 1
    assert world.look_after(50) == IDLE


def test_a_later_call_of_a_queue_that_was_given_up_waits_no_more(world, caplog):
    world.wait("first", "a")
    world.look_after(PATIENCE)
    world.wait("second", "a")
    world.look_after(LOOK_INTERVAL)
    assert world.ends == [("first", "dropped"), ("second", "dropped")]
    assert "Reply queue a does not exist; calls dropped: 1" in caplog.text


def test_the_calls_of_a_queue_that_is_there_again_are_returned_to_the_broker(world):
    world.wait("first", "a")
    world.wait("second", "a")
    world.wait("of another", "b")
    world.missing.remove("a")
    world.look_after(LOOK_INTERVAL)
    assert world.ends == [("first", "returned"), ("second", "returned")]
    assert world.asked == ["a", "b"], "once for a queue"


def test_while_the_broker_is_away_calls_wait(world):
    world.wait("first", "a")
    world.wait("second", "b")
    world.broker_is_away = True
    assert world.look_after(2 * PATIENCE) == LOOK_INTERVAL
    assert (world.ends, world.asked) == ([], ["a"])


def test_the_broker_is_asked_for_the_queue_of_a_call_only_where_it_may_be_missing(world):
    new, old = {"certain": False}, {"certain": True}
    call = world.call("any", "a")
    assert not world.queues.is_missing(call, **new)
    assert world.asked == []
    assert not world.queues.is_missing(call, **old)
    assert not world.queues.is_missing(call, **old)
    assert world.asked == ["a"], "it was found a moment ago"
    world.clock.now += 2 * FOUND_FOR
    world.missing.add("a")
    assert world.queues.is_missing(call, **old)
    assert world.queues.is_missing(call, **new), "it is known as missing"
    world.missing.remove("a")
    assert not world.queues.is_missing(call, **new)


def test_a_queue_that_cannot_be_looked_for_counts_as_there(world):
    world.broker_is_away = True
    assert not world.queues.is_missing(world.call("any", "a"), certain=True)


def test_a_stop_returns_all_calls_and_those_that_come_later(world):
    world.wait("first", "a")
    world.queues.stop()
    world.wait("second", "a")
    assert world.ends == [("first", "returned"), ("second", "returned")]
    assert len(world.queues) == 0


def test_it_is_known_since_when_a_call_waits_for_its_queue(world):
    began, call = world.clock.now, world.call("first", "a")
    world.missing.add("a")
    assert world.queues.missing_since(call) is None
    world.queues.wait(call)
    world.clock.now += 5
    assert world.queues.missing_since(call) == began
    assert world.queues.missing_since(world.call("another", "a")) is None
    world.missing.remove("a")
    world.look_after(1)
    assert world.queues.missing_since(call) is None
