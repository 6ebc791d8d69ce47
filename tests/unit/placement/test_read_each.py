import threading

import pytest

from scheduler.bounds import deadline
from scheduler.bounds.deadline import Deadline
from scheduler.placement.errors import PlacementUnreachable
from scheduler.placement.read_each import read_each
from tests.support.clock import Clock

SOMETHING = "something"


def test_some_instances_are_read_at_a_time():
    """Each of two readers goes on only once the other one reads too."""
    both = threading.Barrier(2, timeout=10)

    def read(_uuid):
        both.wait()
        return SOMETHING

    uuids = [f"i{number}" for number in range(6)]
    assert list(read_each(read, uuids, 2).items()) == [(uuid, SOMETHING) for uuid in uuids]


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_read_that_is_not_answered_ends_the_reading(at_once):
    asked = []

    def read(uuid):
        asked.append(uuid)
        raise PlacementUnreachable("no")

    with pytest.raises(PlacementUnreachable):
        read_each(read, [f"i{number}" for number in range(9)], at_once)
    assert len(asked) <= at_once


def test_what_is_read_at_a_time_has_the_deadline_of_the_request():
    seen = []

    def read(_uuid):
        seen.append(deadline.current().at)
        return SOMETHING

    with deadline.limit_to(deadline.Deadline(123.0, lambda: 0.0)):
        read_each(read, ["i0", "i1", "i2"], 3)
    assert seen == [123.0] * 3


def test_after_the_deadline_of_the_request_no_further_instance_is_read():
    clock, asked = Clock(), []

    def read(uuid):
        asked.append(uuid)
        clock.now += 4
        return SOMETHING

    with deadline.limit_to(Deadline.after(10, clock)), pytest.raises(PlacementUnreachable):
        read_each(read, [f"i{number}" for number in range(9)], 1)
    assert asked == ["i0", "i1", "i2"]


def test_without_a_free_thread_the_instances_are_read_one_after_the_other(monkeypatch):
    def fail(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    assert len(read_each(lambda _uuid: SOMETHING, ["i0", "i1", "i2"], 3)) == 3
