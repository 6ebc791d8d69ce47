"""The model of the broker, through py-amqp as oslo.messaging uses it."""

import contextlib
import json

import amqp
from amqp.exceptions import NotFound, PreconditionFailed
import pytest

from scheduler.rpc.transport import TOPIC
from tools.simulation.amqp import Connection
from tools.simulation.broker import Broker
from tools.simulation.runtime import Runtime


class Worker:
    """A process that receives calls and acts on each; it connects again whenever it loses the connection."""

    def __init__(self, runtime, act, arguments=None):
        self.process = runtime.process("worker")
        self.received = []
        self.errors = []
        self._act = act
        self._arguments = arguments or {}
        runtime.spawn(self.process, "poll", self._run)

    def _run(self):
        while True:
            with contextlib.suppress(ConnectionError):
                self._consume()
            Runtime.active.sleep(1.0)

    def _consume(self):
        connection = Connection(confirm_publish=True)
        connection.connect()
        self.channel = connection.channel()
        self.channel.queue_declare(TOPIC, arguments=self._arguments)
        self.channel.basic_consume(TOPIC, callback=self._take)
        while True:
            try:
                connection.drain_events()
            except amqp.ChannelError as error:
                self.errors.append(error)
                return

    def _take(self, message):
        headers = message.headers
        self.received.append((message.delivery_info["redelivered"], headers.get("x-delivery-count", 0)))
        self._act(self.channel, message)


def reply_to(message, result=1):
    identity = json.loads(json.loads(message.body)["oslo.message"])["_msg_id"]
    inner = json.dumps({"result": result, "failure": None, "ending": True, "_msg_id": identity})
    return amqp.Message(json.dumps({"oslo.version": "2.0", "oslo.message": inner}))


def working(seconds):
    """Take some time, reply, acknowledge."""

    def act(channel, message):
        Runtime.active.sleep(seconds)
        channel.basic_publish(reply_to(message), "", "replies", mandatory=True, confirm_timeout=5.0)
        channel.basic_ack(message.delivery_tag)

    return act


def play(act, *events, workers=1, arguments=None, until=200.0):
    """Publish one call at 1 s; the workers, the replies that arrived, the call, and the broker."""
    arrived = []
    with Runtime(1) as runtime:
        broker = Broker(runtime, 1, lambda _text: None)
        broker.queues["replies"] = lambda reply: arrived.append((reply.result, reply.failure))
        serving = [Worker(runtime, act, arguments) for _ in range(workers)]

        def publish():
            runtime.sleep(1.0)
            broker.publish({}, {}, "replies", 60)

        runtime.spawn(runtime.process("conductor"), "call", publish)
        for at, event in events:
            runtime.after(at, event, runtime, broker, serving)
        runtime.run(until)
        return serving, arrived, broker.messages["1"], broker


def received(workers):
    return sorted(each.received for each in workers)


def kill_first(runtime, _broker, workers):
    runtime.kill(next(each for each in workers if each.received).process)


def setting(name, value):
    return lambda _runtime, broker, _workers: setattr(broker, name, value)


def test_a_call_is_delivered_to_one_consumer_and_forgotten_when_it_is_acknowledged():
    workers, arrived, call, broker = play(working(1.0), workers=2)
    assert received(workers) == [[], [(False, 0)]]
    assert arrived == [(1, None)]
    assert call.acknowledged
    assert not broker.is_busy


@pytest.mark.parametrize(("arguments", "count"), [({}, 0), ({"x-queue-type": "quorum"}, 1)])
def test_a_call_of_a_killed_process_is_delivered_once_more(arguments, count):
    workers, arrived, _, _ = play(working(5.0), (3.0, kill_first), workers=2, arguments=arguments)
    assert received(workers) == [[(False, 0)], [(True, count)]]
    assert arrived == [(1, None)]


def test_a_process_that_loses_its_connection_unnoticed_goes_on_and_its_acknowledgement_is_lost():
    """It is told late. Meanwhile another one has the call."""
    events = (0.0, setting("redelivery", 1.0)), (1.001, setting("redelivery", 0.0))
    workers, arrived, call, _ = play(working(30.0), *events, workers=2)
    assert sum(len(each.received) for each in workers) == 2
    assert call.acknowledged
    assert len(arrived) >= 1


def test_a_call_that_is_requeued_is_delivered_again():
    def act(channel, message):
        if message.delivery_info["redelivered"]:
            working(0.0)(channel, message)
        else:
            channel.basic_reject(message.delivery_tag, requeue=True)

    workers, arrived, _, _ = play(act)
    assert (received(workers), arrived) == ([[(False, 0), (True, 0)]], [(1, None)])


def test_a_tag_that_is_acknowledged_twice_closes_the_channel():
    def act(channel, message):
        channel.basic_ack(message.delivery_tag)
        channel.basic_ack(message.delivery_tag)

    workers, _, call, _ = play(act)
    assert [type(error) for error in workers[0].errors] == [PreconditionFailed]
    assert [error.method_name for error in workers[0].errors] == ["Basic.ack"]
    assert call.abandoned


def test_an_outage_breaks_connections_and_delivers_again():
    outage = (2.0, lambda _r, broker, _w: broker.stop()), (50.0, lambda _r, broker, _w: broker.start())
    workers, arrived, call, _ = play(working(5.0), *outage)
    assert received(workers) == [[(False, 0), (True, 0)]]
    assert arrived == [(1, None)]
    assert call.replies[0] > 50.0


def test_a_reply_to_a_queue_that_is_missing_is_returned():
    returned = []

    def act(channel, message):
        channel.events["basic_return"].add(lambda *details: returned.append(str(details[0])))
        working(0.0)(channel, message)

    _, arrived, call, _ = play(act, (0.5, lambda _r, broker, _w: broker.queues.clear()))
    assert ["NO_ROUTE" in text for text in returned] == [True]
    assert arrived == call.replies == []


def test_a_reply_that_is_too_large_closes_the_channel():
    workers, arrived, call, _ = play(working(0.0), (0.5, setting("largest", 20)), until=20.0)
    assert type(workers[0].errors[0]) is PreconditionFailed
    assert arrived == call.replies == []


def test_a_reply_that_is_not_confirmed_may_have_arrived():
    outcomes = []

    def act(channel, message):
        try:
            channel.basic_publish(reply_to(message), "", "replies", mandatory=True, confirm_timeout=100.0)
        except (TimeoutError, ConnectionError) as error:
            outcomes.append(error)
            raise

    _, arrived, call, broker = play(act, (0.5, setting("silence", 1.0)))
    assert len(outcomes) == len(broker.unconfirmed) > 1
    assert len(arrived) == len(call.replies)
    assert not call.acknowledged


def test_a_queue_is_looked_for():
    found = []

    def act(channel, message):
        found.append(channel.queue_declare("replies", passive=True).message_count)
        with pytest.raises(NotFound):
            channel.queue_declare("other", passive=True)
        raise ConnectionError

    play(act, until=3.0)
    assert set(found) == {0}
