"""What ``scheduler.rpc.amqp`` takes for granted of oslo.messaging, and its decisions without a broker.

Much of the former has private names there. If a new version of oslo.messaging renames something, these tests
fail, and name it.
"""

import contextlib
import inspect
import json
from types import SimpleNamespace
from unittest import mock

from amqp.channel import Channel
import kombu
import oslo_messaging as messaging
from oslo_messaging import transport as library_transport
from oslo_messaging._drivers import amqp as library_amqp
from oslo_messaging._drivers import amqpdriver, base, common, impl_rabbit
from oslo_messaging.rpc import server as library_server
from oslo_serialization import jsonutils
import pytest

from scheduler.rpc import amqp, delivery


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (amqpdriver.AMQPDriverBase, ["_get_connection", "_get_exchange", "listen"]),
        (amqpdriver.AMQPIncomingMessage, ["_send_reply", "reply", "heartbeat", "acknowledge"]),
        (amqpdriver.ObsoleteReplyQueuesCache, ["reply_q_valid", "add"]),
        (amqpdriver.RpcAMQPListener, ["__call__", "stop", "cleanup", "message_cls", "use_cache"]),
        (amqpdriver.MessageOperationsHandler, ["do", "process", "stop", "process_in_background"]),
        (library_amqp._MsgIdCache, ["add"]),
        (impl_rabbit.RabbitMessage, ["acknowledge", "requeue"]),
        (impl_rabbit.Consumer, ["cancel", "consume", "declare"]),
        (impl_rabbit.Connection, ["ensure", "declare_topic_consumer", "declare_fanout_consumer"]),
        (impl_rabbit.Connection, ["_set_current_channel"]),
        (library_server.RPCServer, ["_create_listener", "_process_incoming", "_on_incoming"]),
        (library_transport.RPCTransport, ["_listen"]),
        (base.PollStyleListenerAdapter, ["start", "stop", "cleanup"]),
        (library_amqp, ["UNIQUE_ID"]),
        (common, ["_MESSAGE_KEY", "PURPOSE_SEND", "PURPOSE_LISTEN", "Timeout"]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_oslo_messaging_has_the_names_that_are_used(owner, names):
    assert [name for name in names if not hasattr(owner, name)] == []


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        (amqpdriver.AMQPIncomingMessage.__init__, ["self._obsolete_reply_queues =", "self.reply_q ="]),
        (amqpdriver.AMQPIncomingMessage._send_reply, ["conn.direct_send(self.reply_q,"]),
        (amqpdriver.AMQPListener.__init__, ["self._message_operations_handler =", "self.incoming ="]),
        (amqpdriver.AMQPListener.__call__, ["self.incoming.append(self.message_cls("]),
        (
            amqpdriver,
            [
                "        while not self._shutdown.is_set():\n            self._message_operations_handler.process()"
            ],
        ),
        (amqpdriver.MessageOperationsHandler.__init__, ["self._shutdown_thread ="]),
        (impl_rabbit.RabbitMessage.__init__, ["self._raw_message ="]),
        (impl_rabbit.Connection.__init__, ["self._connection_lock =", "self._consumers ="]),
        (impl_rabbit.Consumer.consume, ["if conn.channel != self._declared_on:", "self.queue.consume("]),
        (impl_rabbit.Connection.consume, ["consumer.consume(self, tag=tag)"]),
        (impl_rabbit.Connection.__init__, ["'confirm_publish': True", "self.kombu_compression ="]),
        (impl_rabbit.Connection.__init__, ["self.connection = kombu.connection.Connection("]),
        (amqpdriver.AMQPListener.__init__, ["self.conn ="]),
        (common.ConnectionContext.__init__, ["self.connection ="]),
        (impl_rabbit.Connection._set_current_channel, ["self._producer =", "on_return=self.on_return"]),
        (impl_rabbit.Connection.ensure, ["recoverable_error_callback", "error_callback(exc)"]),
        (library_transport.Transport.__init__, ["self._driver ="]),
        (
            library_server.RPCServer._process_incoming,
            ["message.reply(res)", "message.reply(failure=failure)"],
        ),
    ],
    ids=lambda value: getattr(value, "__qualname__", None),
)
def test_oslo_messaging_sets_and_calls_what_is_relied_on(function, texts):
    source = inspect.getsource(function)
    assert [text for text in texts if text not in source] == []


def test_amqp_sends_a_message_by_one_method_and_waits_for_its_confirmation_after_that():
    source = inspect.getsource(Channel.basic_publish_confirm)
    assert source.index("self._basic_publish(") < source.index("self.wait([spec.Basic.Ack, spec.Basic.Nack]")


def test_kombu_passes_the_time_limit_of_a_confirmation_on():
    assert "confirm_timeout" in inspect.signature(kombu.Producer.publish).parameters


class FakeChannel:
    """Sends, or fails as it is told to."""

    def __init__(self, failure):
        self.failure = failure

    def _basic_publish(self):
        if self.failure:
            raise self.failure


class Connection:
    """A connection of the pool: publishes, or fails as it is told to, before or after it has sent the message."""

    kombu_compression = None

    def __init__(self, failure=None, before=None):
        self.failure = failure
        self.published = []
        self.channel = FakeChannel(before)
        self.channels = ["first"]
        self._connection_lock = contextlib.nullcontext()
        self._producer = self
        self.connection = SimpleNamespace(connected=not isinstance(failure, OSError), channel=lambda: "new")

    def _set_current_channel(self, channel):
        self.channels.append(channel)

    def ensure(self, method, recoverable_error_callback, error_callback):
        try:
            method()
        except OSError as error:
            recoverable_error_callback(error)
            raise
        except Exception as error:
            error_callback(error)
            raise

    def publish(self, message, **options):
        self.channel._basic_publish()
        if self.failure:
            raise self.failure
        self.published.append((message, options))


def text(size):
    return {"oslo.message": "x" * size}


def test_a_reply_is_published_to_its_queue_with_mandatory_and_a_time_limit():
    connection = Connection()
    amqp.BoundedPublisher(connection, 1e12, 10).direct_send("q", text(10))
    ((message, options),) = connection.published
    assert message == text(10)
    assert options["routing_key"] == "q"
    assert options["mandatory"]
    assert options["confirm_timeout"] > 0


@pytest.mark.parametrize(
    ("failure", "channels"),
    [
        (None, ["first"]),
        (messaging.MessageUndeliverable(None, "", "q", None), ["first", "new"]),
        (OSError("reset"), ["first", None]),
    ],
    ids=["confirmed", "returned", "connection lost"],
)
def test_nothing_more_is_published_on_a_channel_where_a_confirmation_may_be_to_come(failure, channels):
    """amqp may take the late confirmation for that of the next message."""
    connection = Connection(failure)
    with contextlib.suppress(messaging.MessageUndeliverable, OSError):
        amqp.BoundedPublisher(connection, 1e12, 10).direct_send("q", text(1))
    assert connection.channels == channels


def test_a_reply_is_announced_before_it_is_published():
    connection, seen = Connection(), []
    publisher = amqp.BoundedPublisher(connection, 1e12, 10, lambda: seen.append(len(connection.published)))
    publisher.direct_send("q", text(10))
    assert (seen, len(connection.published)) == ([0], 1)


@pytest.mark.parametrize("before", [None, OSError("closed")], ids=["sent", "not sent"])
def test_a_reply_is_sent_once_it_is_written_to_the_connection_be_it_confirmed_or_not(before):
    connection, sent = Connection(OSError("reset"), before), []
    publisher = amqp.BoundedPublisher(connection, 1e12, 10, after_sending=lambda: sent.append(1))
    for _ in range(2):
        with pytest.raises(OSError, match="closed" if before else "reset"):
            publisher.direct_send("q", text(1))
    assert len(sent) == (0 if before else 2)


class Undelivered(amqp.ConfirmedMessage):
    """A call whose reply meets errors, one at each attempt, before it is sent."""

    msg_id = orig_msg_id = unique_id = reply_q = "m1"

    def __init__(self, errors):
        self.errors, self.notes = list(errors), []
        self.delivery = delivery.Delivery(message_id="m1", replies=self)
        self.listener = SimpleNamespace(driver=SimpleNamespace(missing_destination_retry_timeout=60))
        self._obsolete_reply_queues = SimpleNamespace(reply_q_valid=lambda *_: True)

    def _send_once(self, deadline, reply, failure, ending=True):
        self._begin_reply(failed=failure is not None)
        self._note_sent()
        if self.errors:
            raise self.errors.pop(0)

    def begin_reply(self, message_id, *, failed):
        self.notes.append("begun")

    def withdraw_reply(self, message_id):
        self.notes.append("withdrawn")


@pytest.mark.parametrize(
    ("error", "notes"),
    [
        (messaging.MessageUndeliverable(None, "", "q", None), ["begun", "withdrawn", "begun"]),
        (OSError("reset"), ["begun", "begun"]),
        (amqp.ReplyTooLarge("large"), ["begun", "withdrawn"]),
        ([OSError("reset"), messaging.MessageUndeliverable(None, "", "q", None)], ["begun"] * 3),
        ([OSError("reset"), amqp.ReplyTooLarge("large")], ["begun"] * 2),
    ],
    ids=[
        "no queue",
        "connection lost: it may be there",
        "too large",
        "connection lost, then no queue",
        "connection lost, then too large",
    ],
)
def test_a_reply_counts_as_unknown_to_its_caller_only_after_the_broker_has_refused_each_attempt(
    monkeypatch, error, notes
):
    monkeypatch.setattr(amqp, "RETRY_INTERVAL", 0.0)
    call = Undelivered(error if isinstance(error, list) else [error])
    call.reply("hosts")
    assert call.notes == notes


def test_a_reply_that_is_published_twice_in_one_attempt_may_be_delivered_if_the_second_is_refused(
    monkeypatch,
):
    """oslo.messaging publishes it again after a lost connection."""
    monkeypatch.setattr(amqp, "RETRY_INTERVAL", 0.0)
    call = Undelivered([messaging.MessageUndeliverable(None, "", "q", None)])
    once = call._note_sent
    call._note_sent = lambda: [once(), once()]
    call._obsolete_reply_queues.reply_q_valid = mock.Mock(side_effect=[True, False])
    call.reply("hosts")
    assert isinstance(call.undelivered, amqp.ReplyQueueMissing)
    assert call.may_be_delivered


@pytest.mark.parametrize(
    ("errors", "may_be_delivered"),
    [
        ([OSError("reset")], True),
        ([messaging.MessageUndeliverable(None, "", "q", None)], False),
        ([amqp.ReplyTooLarge("large")], False),
        ([], None),
    ],
    ids=["not confirmed", "no queue", "refused", "no connection"],
)
def test_an_undelivered_reply_may_be_delivered_if_it_was_handed_to_the_broker(errors, may_be_delivered):
    call = Undelivered(errors)
    if may_be_delivered is None:
        call._send_once = mock.Mock(side_effect=OSError("refused"))
    call.listener.driver.missing_destination_retry_timeout = 0
    call._obsolete_reply_queues.reply_q_valid = mock.Mock(side_effect=[True, False])
    call._obsolete_reply_queues.add = mock.Mock()
    call.unrefused = 1
    call.reply("hosts")
    assert (call.may_be_delivered, call.undelivered is None) == (bool(may_be_delivered), False)


def test_the_size_of_a_reply_is_that_of_the_message_that_is_sent():
    text = jsonutils.dumps({"text": 'a "quoted" \\ word', "umlaut": "\u00e4"})
    assert amqp.size_of(text) == len(json.dumps(text)) - 2


def test_a_reply_above_the_limit_is_not_published():
    connection = Connection()
    with pytest.raises(amqp.ReplyTooLarge, match="11 bytes; at most 10"):
        amqp.BoundedPublisher(connection, 1e12, 10).direct_send("q", text(11))
    assert not connection.published


@pytest.mark.parametrize(
    ("deadline", "error"), [(0.0, amqp.ReplyTimeout), (1e12, OSError)], ids=["time over", "time left"]
)
def test_a_lost_connection_ends_the_attempt_only_when_the_time_is_over(deadline, error):
    with pytest.raises(error):
        amqp.BoundedPublisher(Connection(OSError("reset")), deadline, 10).direct_send("q", text(1))


class RawMessage(dict):
    """A message as the driver hands it to a listener."""

    def __init__(self, number, msg_id, queue="scheduler", tag=None, headers=None):
        super().__init__(_msg_id=msg_id, _unique_id=f"unique-{number}", method="m", args={}, version="1.0")
        self.ends = []
        self._raw_message = SimpleNamespace(
            channel=None,
            delivery_tag=tag or number,
            acknowledged=False,
            delivery_info={"routing_key": queue},
            headers=headers,
            reject=lambda: self.ends.append("rejected"),
        )
        self.acknowledge = lambda: self.ends.append("acknowledged")
        self.requeue = lambda: self.ends.append("requeued")


@pytest.mark.parametrize(
    ("msg_id", "remembered"), [(None, 0), ("call", 1)], ids=["casts are not", "calls are"]
)
def test_calls_are_remembered_after_their_reply_and_casts_are_not(msg_id, remembered):
    """Hundreds of computes cast every few minutes: remembering that would only fill the memory."""
    listener = amqp.LateListener(SimpleNamespace(prefetch_size=1), SimpleNamespace(channel=None), 1000)
    listener(RawMessage(1, msg_id))
    listener.incoming[0].settle()
    assert listener.remembered_calls == remembered


def make_listener():
    listener = amqp.LateListener(SimpleNamespace(prefetch_size=1), SimpleNamespace(channel=None), 1000)
    listener.forwarding_queues = frozenset(["own"])
    return listener


def run_operations(listener):
    listener._message_operations_handler.process()


def test_a_call_is_acknowledged_once_it_was_published_elsewhere():
    listener, raw, seen = make_listener(), RawMessage(1, "call"), []
    listener(raw)
    listener.hand_over(listener.incoming[0], lambda: (run_operations(listener), seen.extend(raw.ends)))
    assert seen == []
    run_operations(listener)
    assert raw.ends == ["acknowledged"]
    assert (listener.unanswered, listener.remembered_calls) == (0, 0)


def test_a_call_that_comes_back_while_it_is_sent_on_is_taken_again():
    """It would be lost if it counted as a repetition of what is acknowledged."""
    listener, again = make_listener(), RawMessage(1, "call", tag=2)
    listener(RawMessage(1, "call"))
    listener.hand_over(listener.incoming.pop(), lambda: listener(again))
    run_operations(listener)
    assert (len(listener.incoming), again.ends) == (1, [])


def test_a_call_that_cannot_be_published_elsewhere_is_still_to_be_answered():
    listener, raw = make_listener(), RawMessage(1, "call")
    listener(raw)

    def fail():
        raise OSError

    with pytest.raises(OSError):
        listener.hand_over(listener.incoming[0], fail)
    run_operations(listener)
    assert (listener.unanswered, raw.ends) == (1, [])
    listener.incoming[0].settle()
    run_operations(listener)
    assert raw.ends == ["acknowledged"]


@pytest.mark.parametrize(
    ("queue", "end"), [("scheduler", "requeued"), ("own", "rejected")], ids=["common", "own"]
)
def test_a_call_that_is_returned_does_not_wait_for_the_next_consumer_of_a_queue_of_ones_own(queue, end):
    """The broker moves a call that is rejected there to the queue of all schedulers."""
    listener, raw = make_listener(), RawMessage(1, "call", queue)
    listener(raw)
    listener.incoming[0].requeue()
    run_operations(listener)
    assert raw.ends == [end]


@pytest.mark.parametrize(
    ("headers", "redelivered"),
    [
        (None, False),
        ({"berth-redelivered": False}, False),
        ({"berth-redelivered": True}, True),
        ({"x-death": [{"reason": "expired"}]}, True),
    ],
    ids=["none", "sent on", "sent on after a redelivery", "moved back"],
)
def test_a_call_that_was_delivered_elsewhere_before_counts_as_redelivered(headers, redelivered):
    listener = make_listener()
    listener(RawMessage(1, "call", headers=headers))
    assert listener.incoming[0].redelivered is redelivered


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        (SimpleNamespace(connected=True), True),
        (SimpleNamespace(connected=False), False),
        (None, False),
    ],
    ids=["connected", "lost", "being replaced"],
)
def test_a_listener_is_connected_if_kombu_s_connection_is(connection, expected):
    """The reading thread goes round while it reconnects, so that this alone shows nothing."""
    place = SimpleNamespace(channel=None, connection=SimpleNamespace(connection=connection))
    listener = amqp.LateListener(SimpleNamespace(prefetch_size=1), place, 1000)
    assert listener.connected is expected


def test_a_listener_whose_thread_is_stuck_is_not_connected(monkeypatch):
    connection = SimpleNamespace(connection=SimpleNamespace(connected=True))
    place = SimpleNamespace(channel=None, connection=connection)
    listener = amqp.LateListener(SimpleNamespace(prefetch_size=1), place, 1000)
    monkeypatch.setattr(amqp, "SILENT", -1.0)
    assert not listener.connected
