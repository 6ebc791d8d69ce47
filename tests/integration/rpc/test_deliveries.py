"""Acknowledgements and replies on a real RabbitMQ."""

import contextlib
import itertools
import threading
import time

import kombu
import oslo_messaging as messaging
import pytest

from scheduler.rpc import amqp, serializer, server, transport
from scheduler.rpc.context import RequestContext
from tests.support.waiting import eventually
from tests.support.wire_examples import message
from tests.unit.rpc.conftest import make_conf

pytestmark = pytest.mark.rabbitmq

ARGUMENTS = message("boot_two_instances")["args"]


class Claims:
    """What a request claimed: notes its end."""

    def __init__(self):
        self.ends = []

    def confirm(self):
        self.ends.append("confirmed")

    def give_back(self):
        self.ends.append("given back")


class Manager:
    """Claims, waits until it may answer, and answers."""

    def __init__(self, answer=()):
        self.answer = list(answer)
        self.begun = threading.Semaphore(0)
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.claims = []
        self.redelivered = []

    def select_destinations(self, context, *_arguments):
        claims = Claims()
        self.claims.append(claims)
        self.redelivered.append(context.delivery.redelivered)
        context.delivery.hold(claims)
        self.begun.release()
        assert self.may_answer.wait(30)
        return self.answer

    @property
    def ends(self):
        return [claims.ends for claims in self.claims]


class Caller(threading.Thread):
    """A call on its way; ``reply`` is the answer or the error once joined."""

    def __init__(self, bus):
        super().__init__(daemon=True)
        target = messaging.Target(topic="scheduler", version="4.5")
        plain = serializer.ObjectSerializer()
        self._client = messaging.get_rpc_client(bus, target, timeout=25, serializer=plain)
        self.reply = None
        self.start()

    def run(self):
        try:
            self.reply = self._client.call(RequestContext(), "select_destinations", **ARGUMENTS)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.reply = error


@pytest.fixture
def url(rabbit):
    return rabbit.vhost()


@pytest.fixture
def conf(url):
    made = make_conf()
    made.set_override("transport_url", url)
    made.set_override("kombu_missing_consumer_retry_timeout", 1, "oslo_messaging_rabbit")
    return made


@pytest.fixture
def serve(conf):
    """Start a server for a manager."""
    with contextlib.ExitStack() as started:

        def serve(manager):
            bus = transport.rpc_transport(conf)
            running = server.build(conf, bus, manager)
            started.callback(bus.cleanup)
            running.start()
            started.callback(running.wait)
            started.callback(running.stop)
            return running

        yield serve


@pytest.fixture
def bus(conf):
    made = transport.rpc_transport(conf)
    yield made
    if made._driver._connection_pool:
        made.cleanup()


@pytest.fixture
def broker(url):
    """A channel to look at queues with."""
    with kombu.Connection(url.replace("rabbit://", "amqp://", 1)) as connection:
        yield connection.channel()


def waiting(broker):
    """The number of messages that are ready for a consumer."""
    return broker.queue_declare("scheduler", passive=True).message_count


def test_claims_are_confirmed_after_the_broker_has_confirmed_the_reply(serve, bus):
    manager = Manager()
    serve(manager)
    caller = Caller(bus)
    caller.join(30)
    assert caller.reply == []
    assert eventually(lambda: manager.ends == [["confirmed"]])
    assert manager.redelivered == [False]


def test_claims_are_given_back_if_the_reply_queue_is_missing(serve, bus, broker):
    manager = Manager()
    manager.may_answer.clear()
    serve(manager)
    Caller(bus)
    assert manager.begun.acquire(timeout=30)
    reply_queue = bus._driver._reply_q
    bus.cleanup()  # a caller that lives would declare its queue anew
    broker.queue_delete(reply_queue)
    manager.may_answer.set()
    assert eventually(lambda: manager.ends == [["given back"]])


@pytest.mark.parametrize("limit", ["ours", "broker"])
def test_claims_are_given_back_and_an_error_is_answered_if_the_reply_is_too_large(
    serve, bus, conf, rabbit, limit
):
    conf.set_override("largest_message", 100_000, "berth")
    manager = Manager(["x" * 200_000])
    if limit == "broker":
        conf.set_override("largest_message", 1_000_000, "berth")
        rabbit.evaluate("application:set_env(rabbit, max_message_size, 100000).")
    try:
        serve(manager)
        caller = Caller(bus)
        caller.join(30)
    finally:
        rabbit.evaluate("application:set_env(rabbit, max_message_size, 134217728).")
    assert isinstance(caller.reply, messaging.RemoteError)
    assert "cannot be sent" in str(caller.reply)
    assert manager.ends == [["given back"]]


def test_a_call_that_lost_its_connection_is_begun_and_answered_once(serve, bus, broker, rabbit):
    manager = Manager()
    manager.may_answer.clear()
    serve(manager)
    caller = Caller(bus)
    assert manager.begun.acquire(timeout=30)
    rabbit.close_connections()
    time.sleep(3)
    manager.may_answer.set()
    caller.join(30)
    assert caller.reply == []
    assert eventually(lambda: manager.ends == [["confirmed"]])


def test_a_stopping_server_returns_what_it_has_not_begun(serve, bus, conf):
    conf.set_override("executor_thread_pool_size", 1)
    first, second = Manager(["first"]), Manager(["second"])
    first.may_answer.clear()
    stopping = serve(first)
    callers = [Caller(bus)]
    assert first.begun.acquire(timeout=30)
    callers += [Caller(bus), Caller(bus)]
    assert eventually(lambda: stopping._work_executor._work_queue.qsize() == 2)
    stopping.stop()
    serve(second)
    callers.append(Caller(bus))
    first.may_answer.set()
    for caller in callers:
        caller.join(30)
    assert sorted(itertools.chain(*(caller.reply for caller in callers))) == ["first"] + ["second"] * 3
    assert first.ends == [["confirmed"]]
    assert sorted(second.redelivered) == [False, True, True]


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
    monkeypatch.setattr(amqp, "LONGEST_UNACKNOWLEDGED", 0.5)
    manager = Manager()
    manager.may_answer.clear()
    running = serve(manager)
    caller = Caller(bus)
    assert manager.begun.acquire(timeout=30)
    listener = running.listener._poll_style_listener
    (call,) = listener._in_progress[next(iter(listener._in_progress))]
    assert eventually(lambda: call.message._raw_message.acknowledged)
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
    assert (running.unanswered, running.activity.in_flight) == (1, 1)
    manager.may_answer.set()
    call.join(30)
    assert eventually(lambda: (running.unanswered, running.activity.in_flight) == (0, 0))
