from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
import threading
import time

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.bounds import deadline
from scheduler.placement.batching import BatchedCalls
from scheduler.placement.errors import PlacementUnanswered
from tests.support.waiting import eventually


class Question:
    """Counts calls, and holds each until it is let go."""

    def __init__(self):
        self.started = []
        self.entered = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.fails = set()

    def __call__(self):
        number = len(self.started)
        self.started.append(time.monotonic())
        self.entered.release()
        assert self.gate.acquire(timeout=30)
        if number in self.fails:
            raise ValueError(number)
        return number

    def is_entered(self):
        assert self.entered.acquire(timeout=30)


class Calls(BatchedCalls):
    """Batched calls that ask ``question``, or what stands in ``instead`` for a key; results without counts."""

    def __init__(self, question, wait_timeout=5, at_once=2):
        super().__init__(wait_timeout, at_once)
        self.question = question
        self.instead = {}

    def ask(self, key):
        return self.call(key, self.instead.get(key, self.question))[0]


@pytest.fixture
def question():
    return Question()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(20) as pool:
        yield pool


def waiting(calls, key, count):
    """Until so many callers wait for the next call."""
    assert eventually(lambda: calls.waiting(key) >= count), calls.waiting(key)


def test_alone(question):
    question.gate.release()
    calls = Calls(question, 5, at_once=2)
    assert calls.ask("key") == 0
    assert len(calls) == 0


def test_those_who_come_while_it_runs_share_the_next(question, pool):
    calls = Calls(question, 5, at_once=2)
    first = pool.submit(calls.ask, "key")
    question.is_entered()
    others = [pool.submit(calls.ask, "key") for _ in range(10)]
    waiting(calls, "key", 10)
    question.gate.release()
    question.is_entered()
    late = pool.submit(calls.ask, "key")
    waiting(calls, "key", 1)
    question.gate.release(2)
    assert first.result(30) == 0
    assert {other.result(30) for other in others} == {1}
    assert late.result(30) == 2
    assert len(calls) == 0


def test_other_keys_do_not_wait(question, pool):
    calls = Calls(question, 5, at_once=2)
    first = pool.submit(calls.ask, "key")
    question.is_entered()
    calls.instead["other"] = lambda: "done"
    assert calls.ask("other") == "done"
    question.gate.release()
    assert first.result(30) == 0


def test_those_who_wait_for_a_seat_are_joined_by_those_who_come(question, pool):
    calls = Calls(question, 5, at_once=1)
    first = pool.submit(calls.ask, "key")
    question.is_entered()
    others = [pool.submit(calls.ask, "other") for _ in range(10)]
    waiting(calls, "other", 10)
    question.gate.release(2)
    assert first.result(30) == 0
    assert {other.result(30) for other in others} == {1}
    assert len(calls) == 0


@pytest.mark.parametrize(
    ("at_once", "key"), [(1, "other"), (2, "key")], ids=["for a seat", "for the call before"]
)
def test_nobody_waits_without_end(question, pool, at_once, key):
    calls = Calls(question, 0.05, at_once)
    first = pool.submit(calls.ask, "key")
    question.is_entered()
    calls.instead[key] = lambda: "asked anyway"
    assert calls.ask(key) == "asked anyway"
    question.gate.release()
    assert first.result(30) == 0
    calls.instead["key"] = lambda: "a seat is free"
    assert calls.ask("key") == "a seat is free"
    assert len(calls) == 0


@pytest.mark.parametrize("failing", [0, 1])
def test_failure_reaches_all_who_waited_for_it_and_nobody_else(question, pool, failing):
    calls = Calls(question, 5, at_once=2)
    question.fails = {failing}
    first = pool.submit(calls.ask, "key")
    question.is_entered()
    others = [pool.submit(calls.ask, "key") for _ in range(4)]
    waiting(calls, "key", 4)
    question.gate.release(3)
    for number, asked in enumerate([[first], others]):
        for each in asked:
            with pytest.raises(ValueError, match=str(number)) if number == failing else nullcontext():
                assert each.result(30) == number
    assert calls.ask("key") == 2


def test_those_who_share_do_not_wait_without_end(question, pool):
    calls = Calls(question, 0.05, at_once=2)
    first = pool.submit(calls.ask, "key")
    question.is_entered()
    leader = pool.submit(calls.ask, "key")
    waiting(calls, "key", 1)
    with pytest.raises(PlacementUnanswered) as caught:
        calls.ask("key")
    assert caught.value.timed_out
    question.gate.release(2)
    assert {first.result(30), leader.result(30)} == {0, 1}


def test_nobody_waits_beyond_the_deadline_of_a_request(question, pool):
    calls = Calls(question, 60, at_once=1)
    first = pool.submit(calls.ask, "key")
    question.is_entered()
    leader = pool.submit(calls.ask, "key")
    waiting(calls, "key", 1)
    with deadline.limit_to(deadline.Deadline.after(0.05)):
        calls.instead["other"] = lambda: "without a slot"
        assert calls.ask("other") == "without a slot"
        with pytest.raises(PlacementUnanswered):
            calls.ask("key")
    question.gate.release(2)
    assert {first.result(30), leader.result(30)} == {0, 1}


@given(st.lists(st.floats(0, 0.004), min_size=1, max_size=12))
def test_every_answer_is_younger_than_its_request(delays):
    def ask():
        started = time.monotonic()
        time.sleep(0.002)
        return started

    def request(delay):
        time.sleep(delay)
        arrived = time.monotonic()
        return arrived, calls.ask("key")

    calls = Calls(ask)

    with ThreadPoolExecutor(len(delays)) as pool:
        for arrived, started in pool.map(request, delays):
            assert started >= arrived
    assert len(calls) == 0


def test_keys_get_slots_in_the_order_of_their_first_callers(question, pool):
    calls = Calls(question, at_once=1)
    first = pool.submit(calls.ask, "a")
    question.is_entered()
    order = []
    calls.instead = {key: lambda key=key: order.append(key) for key in "abc"}
    others = []
    for key in "bca":  # 'a' waits behind those that came before it, though its last call has just returned
        others.append(pool.submit(calls.ask, key))
        waiting(calls, key, 1)
    question.gate.release()
    assert first.result(30) == 0
    for other in others:
        other.result(30)
    assert order == ["b", "c", "a"]


def test_a_key_in_flight_does_not_keep_others_from_the_second_slot(question, pool):
    calls = Calls(question, at_once=2)
    first = pool.submit(calls.ask, "a")
    question.is_entered()
    again = pool.submit(calls.ask, "a")
    waiting(calls, "a", 1)
    calls.instead["b"] = lambda: "not kept waiting"
    assert calls.ask("b") == "not kept waiting"
    question.gate.release(2)
    assert (first.result(30), again.result(30)) == (0, 1)


def test_a_result_names_the_number_of_its_callers(question, pool):
    calls = Calls(question, at_once=1)
    first = pool.submit(calls.call, "key", question)
    question.is_entered()
    others = []
    for number in range(1, 5):
        others.append(pool.submit(calls.call, "key", question))
        waiting(calls, "key", number)
    question.gate.release(2)
    assert first.result(30) == (0, 1)
    assert {other.result(30) for other in others} == {(1, 4)}
