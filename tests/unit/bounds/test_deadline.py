import math
import threading

from scheduler.bounds import deadline
from scheduler.bounds.deadline import NEVER, Deadline, limit_to
from tests.support.clock import Clock


def test_what_remains_shrinks_to_zero():
    clock = Clock()
    limit = Deadline.after(5, clock)
    assert (limit.remaining(), limit.bound(3), limit.bound(9), limit.expired) == (5, 3, 5, False)
    clock.now += 7
    assert (limit.remaining(), limit.bound(3), limit.expired) == (0, 0, True)


def test_without_a_limit_everything_remains():
    assert (NEVER.remaining(), NEVER.bound(3), NEVER.expired) == (math.inf, 3, False)
    assert deadline.current() is NEVER


def test_a_limit_holds_in_its_block_and_its_thread_only():
    limit = Deadline.after(5)
    elsewhere = []
    with limit_to(limit):
        assert deadline.current() is limit
        thread = threading.Thread(target=lambda: elsewhere.append(deadline.current()))
        thread.start()
        thread.join()
    assert deadline.current() is NEVER
    assert elsewhere == [NEVER]


def test_an_inner_limit_can_only_be_shorter():
    with limit_to(Deadline.after(5)) as _, limit_to(Deadline.after(50)):
        assert deadline.current().remaining() <= 5
