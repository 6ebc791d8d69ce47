"""Calls that one server sends on to another, on a real RabbitMQ."""

import itertools
import time

import pytest

from scheduler.rpc import forwarding
from tests.integration.rpc.conftest import OTHER, Caller, Forwarding, Manager
from tests.support.waiting import eventually

pytestmark = pytest.mark.rabbitmq


@pytest.fixture
def hurry(monkeypatch):
    """Calls come back after a second."""
    monkeypatch.setattr(forwarding, "WAIT_LIMIT", 1.0)


def depth(broker, queue=OTHER):
    return broker.queue_declare(queue, passive=True).message_count


def answers(callers):
    for caller in callers:
        caller.join(30)
    return [caller.reply for caller in callers]


def test_calls_are_answered_by_the_server_that_they_are_forwarded_to(serve, bus, broker):
    announced = []
    first, second = Forwarding(["first"], seconds=0.3), Manager(["second"])
    serve(first)
    serve(second, OTHER, announce=announced.append)
    assert answers([Caller(bus) for _ in range(20)]) == [["second"]] * 20
    assert 0 < first.sent < 20
    assert announced == [True]
    assert eventually(lambda: second.ends == [["kept"]] * 20)
    assert second.redelivered == [False] * 20
    assert eventually(lambda: depth(broker) == depth(broker, "scheduler") == 0)


def test_calls_that_cannot_be_forwarded_are_answered_here(serve, bus):
    manager = Forwarding(["here"])
    serve(manager)
    assert answers([Caller(bus) for _ in range(3)]) == [["here"]] * 3
    assert manager.redelivered == [False] * 3


def test_a_call_that_nobody_takes_comes_back_and_is_not_forwarded_again(serve, bus, broker, hurry):
    gone, manager = serve(Manager(), OTHER), Forwarding(["here"])
    gone.stop()
    serve(manager)
    assert answers([Caller(bus)]) == [["here"]]
    assert (manager.sent, manager.redelivered) == (1, [True])
    assert depth(broker) == 0


@pytest.mark.parametrize(("durable", "mode"), [(False, 1), (True, 2)])
def test_a_call_that_is_forwarded_is_on_disk_if_the_queue_of_all_schedulers_is(
    serve, bus, broker, conf, durable, mode
):
    conf.set_override("amqp_durable_queues", durable, "oslo_messaging_rabbit")
    gone, manager = serve(Manager(), OTHER), Forwarding(["here"])
    gone.stop()
    serve(manager)
    caller = Caller(bus)
    assert eventually(lambda: depth(broker) == 1)
    waiting = broker.basic_get(OTHER)
    assert waiting.properties["delivery_mode"] == mode
    broker.basic_reject(waiting.delivery_tag, requeue=False)
    assert answers([caller]) == [["here"]]


def test_a_stopping_server_returns_what_was_forwarded_to_it_to_all(serve, bus, conf, monkeypatch):
    monkeypatch.setattr(forwarding, "WAIT_LIMIT", 600.0)  # they do not come back by themselves
    conf.set_override("executor_thread_pool_size", 1)
    announced, busy = [], Manager(["busy"])
    busy.may_answer.clear()
    stopping = serve(busy, OTHER, announce=announced.append)
    callers = [Caller(bus)]
    assert busy.begun.acquire(timeout=30)
    manager = Forwarding(["here"])
    serve(manager)
    callers += [Caller(bus), Caller(bus), Caller(bus)]
    assert eventually(lambda: stopping.unanswered == 4)
    manager.topics = itertools.repeat("berth.missing")
    stopping.stop()
    assert announced == [True, False]
    busy.may_answer.set()
    assert answers(callers) == [["busy"]] + [["here"]] * 3


def test_the_caller_hears_from_the_server_that_the_call_was_forwarded_to(serve, bus):
    slow, sending = Manager(["slow"]), Forwarding(["here"])
    slow.may_answer.clear()
    serve(slow, OTHER)
    serve(sending)
    callers = [Caller(bus, call_monitor_timeout=2) for _ in range(4)]  # each server gets two
    time.sleep(3)
    slow.may_answer.set()
    assert answers(callers) == [["slow"]] * 4
    assert sending.sent == 2


def test_a_server_whose_broker_refuses_its_queue_answers_calls_of_all(serve, bus, broker, caplog):
    broker.queue_declare(OTHER, durable=True, auto_delete=False, arguments={"x-expires": 60_000})
    announced = []
    running = serve(Manager(["here"]), OTHER, announce=announced.append)
    assert announced == [False]
    assert "cannot forward calls to" in caplog.text
    assert answers([Caller(bus) for _ in range(3)]) == [["here"]] * 3
    assert running.connected
