"""Acknowledgements and replies on a real RabbitMQ."""

import itertools

import kombu
import oslo_messaging as messaging
import pytest

from scheduler.rpc import consumer, explain, keepalive, transport
from scheduler.rpc.bus import Bus
from tests.integration.rpc.conftest import Caller, Manager
from tests.support.waiting import eventually

pytestmark = pytest.mark.rabbitmq


def waiting(broker):
    """The number of messages that are ready for a consumer."""
    return broker.queue_declare("scheduler", passive=True).message_count


def test_claims_are_confirmed_after_the_broker_has_confirmed_the_reply(serve, bus):
    manager = Manager()
    serve(manager)
    caller = Caller(bus)
    caller.join(30)
    assert caller.reply == []
    assert eventually(lambda: manager.ends == [["kept"]])
    assert manager.redelivered == [False]


def reply_queue_of(bus):
    return bus._driver._reply_q


@pytest.mark.parametrize("queue", ["deleted", "left behind"])
def test_claims_are_given_back_if_nobody_reads_the_reply_queue(serve, bus, broker, queue):
    """That of a conductor that is killed lives on for half an hour."""
    manager = Manager()
    manager.may_answer.clear()
    serve(manager)
    Caller(bus)
    assert manager.begun.acquire(timeout=30)
    reply_queue = reply_queue_of(bus)
    bus.cleanup()  # a caller that lives would declare its queue anew
    if queue == "deleted":
        broker.queue_delete(reply_queue)
    manager.may_answer.set()
    assert eventually(lambda: manager.ends == [["released"]])


class Gone(Caller):
    """A call whose caller ends before it is answered."""

    def __init__(self, conf, broker):
        self.bus, self._broker = transport.rpc_transport(conf), broker
        super().__init__(self.bus)

    def leave(self):
        reply_queue = reply_queue_of(self.bus)
        self.bus.cleanup()  # a caller that lives would declare its queue anew
        self._broker.queue_delete(reply_queue)


def test_calls_of_callers_that_are_gone_do_not_keep_others_waiting(serve, bus, conf, broker):
    conf.set_override("executor_thread_pool_size", 2)
    conf.set_override("kombu_missing_consumer_retry_timeout", 600, "oslo_messaging_rabbit")
    manager = Manager(["a host"])
    manager.may_answer.clear()
    running = serve(manager)
    gone = [Gone(conf, broker) for _ in range(6)]
    assert eventually(lambda: len(running.open_calls) == len(gone))
    for caller in gone:
        caller.leave()
    manager.may_answer.set()
    honest = Caller(bus)
    honest.join(30)
    assert honest.reply == ["a host"]
    assert eventually(lambda: sorted(manager.ends) == [[], [], ["kept"]])
    assert manager.ends[-1] == ["kept"], "no hosts were claimed for calls that had waited for a thread"


def test_a_caller_whose_reply_queue_is_missing_for_some_time_is_answered(serve, bus, conf, broker):
    """As while it connects to another node of the broker."""
    conf.set_override("kombu_missing_consumer_retry_timeout", 600, "oslo_messaging_rabbit")
    manager = Manager(["a host"])
    manager.may_answer.clear()
    serve(manager)
    caller = Caller(bus)
    assert manager.begun.acquire(timeout=30)
    broker.queue_delete(reply_queue_of(bus))  # the caller makes it anew
    manager.may_answer.set()
    caller.join(30)
    assert caller.reply == ["a host"]
    assert eventually(lambda: manager.ends == [["kept"]]), "it is not run again"


@pytest.mark.parametrize("limit", ["ours", "broker"])
def test_claims_are_given_back_and_an_error_is_answered_if_the_reply_is_too_large(
    serve, bus, conf, rabbit, limit
):
    conf.set_override("largest_message", 100_000, "berth")
    manager = Manager(["x" * 9_000_000])
    if limit == "broker":
        conf.set_override("largest_message", 10_000_000, "berth")
        # more than what other tests send, which may use the broker now
        rabbit.evaluate("application:set_env(rabbit, max_message_size, 8000000).")
    try:
        serve(manager)
        caller = Caller(bus)
        caller.join(30)
    finally:
        rabbit.evaluate("application:set_env(rabbit, max_message_size, 134217728).")
    assert isinstance(caller.reply, messaging.RemoteError)
    assert "cannot be sent" in str(caller.reply)
    assert manager.ends == [["released"]]


def test_a_stopping_server_returns_what_it_has_not_begun(serve, bus, conf):
    conf.set_override("executor_thread_pool_size", 1)
    first, second = Manager(["first"]), Manager(["second"])
    first.may_answer.clear()
    stopping = serve(first)
    callers = [Caller(bus)]
    assert first.begun.acquire(timeout=30)
    callers += [Caller(bus), Caller(bus)]
    assert eventually(lambda: len(stopping.open_calls) == 3)
    stopping.stop()
    serve(second)
    callers.append(Caller(bus))
    first.may_answer.set()
    for caller in callers:
        caller.join(30)
    assert sorted(itertools.chain(*(caller.reply for caller in callers))) == ["first"] + ["second"] * 3
    assert first.ends == [["kept"]]
    assert sorted(second.redelivered) == [False, True, True]


@pytest.mark.parametrize("kind", ["requests", "questions"])
def test_an_idle_server_looks_often_whether_it_is_to_stop(serve, bus, conf, monkeypatch, kind):
    looks, drain = [], kombu.Connection.drain_events
    monkeypatch.setattr(
        kombu.Connection,
        "drain_events",
        lambda connection, timeout=None: [looks.append(timeout), drain(connection, timeout=timeout)][1],
    )
    if kind == "requests":
        running = serve(Manager())
    else:
        running = explain.build(conf, Bus(bus, 1000), {})
        running.start()
    try:
        assert eventually(lambda: looks.count(consumer.LONGEST_WAIT) > 3)
        assert max(looks) <= consumer.LONGEST_WAIT
    finally:
        running.stop()
        running.wait()


def test_answered_calls_are_acknowledged_when_the_server_has_stopped(serve, bus, broker):
    manager = Manager()
    running = serve(manager)
    callers = [Caller(bus) for _ in range(20)]
    for caller in callers:
        caller.join(30)
    running.stop()
    running.wait()
    assert waiting(broker) == 0
    assert [caller.reply for caller in callers] == [[]] * 20


def test_a_call_that_takes_too_long_is_acknowledged_before_the_broker_closes_the_channel(
    serve, bus, broker, monkeypatch
):
    monkeypatch.setattr(keepalive, "LONGEST_UNACKNOWLEDGED", 0.5)
    manager = Manager()
    manager.may_answer.clear()
    running = serve(manager)
    caller = Caller(bus)
    assert manager.begun.acquire(timeout=30)
    (call,) = running.open_calls
    assert eventually(lambda: call.is_acknowledged)
    manager.may_answer.set()
    caller.join(30)
    assert caller.reply == []


def test_a_server_tells_that_it_reads_from_the_broker_and_what_is_unanswered(serve, bus):
    manager = Manager()
    manager.may_answer.clear()
    running = serve(manager)
    assert eventually(lambda: running.connected)
    call = Caller(bus)
    assert manager.begun.acquire(timeout=30)
    assert (len(running.open_calls), running.open_calls.in_flight) == (1, 1)
    manager.may_answer.set()
    call.join(30)
    assert eventually(lambda: (len(running.open_calls), running.open_calls.in_flight) == (0, 0))


@pytest.mark.parametrize(
    "body", [b"no JSON", b"\xff\xfe", b"[1]", b'{"oslo.version": "2.0", "oslo.message": "{"}'], ids=repr
)
def test_a_message_that_is_no_json_is_one_line_of_the_log_and_the_next_call_is_served(
    serve, bus, broker, caplog, body
):
    serve(Manager())
    for _ in range(5):
        message = broker.prepare_message(body, content_type="application/json", content_encoding="utf-8")
        broker.basic_publish(message, exchange="", routing_key="scheduler")
    assert Caller.of(bus) == []
    logged = [each for each in caplog.records if each.levelname in {"WARNING", "ERROR"}]
    assert ["rejected" in each.getMessage() for each in logged] == [True]
    assert not logged[0].exc_info
