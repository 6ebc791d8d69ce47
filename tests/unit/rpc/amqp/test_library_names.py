"""What ``scheduler.rpc.amqp`` takes for granted of oslo.messaging, kombu and amqp.

Much of it has private names there. If a new version of oslo.messaging renames something, these tests fail, and
name it.
"""

import inspect

import kombu
from oslo_messaging import transport as library_transport
from oslo_messaging._drivers import amqp as library_amqp
from oslo_messaging._drivers import amqpdriver, base, common, impl_rabbit
from oslo_messaging.rpc import server as library_server
import pytest


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (amqpdriver.AMQPDriverBase, ["_get_connection", "_get_exchange", "listen"]),
        (amqpdriver.AMQPIncomingMessage, ["_send_reply", "reply", "heartbeat", "acknowledge"]),
        (amqpdriver.RpcAMQPListener, ["__call__", "stop", "cleanup", "message_cls", "use_cache"]),
        (amqpdriver.MessageOperationsHandler, ["do", "process", "stop", "process_in_background"]),
        (library_amqp._MsgIdCache, ["add"]),
        (impl_rabbit.RabbitMessage, ["acknowledge", "requeue"]),
        (impl_rabbit.Consumer, ["cancel", "consume", "declare"]),
        (impl_rabbit.Connection, ["ensure", "declare_topic_consumer", "declare_fanout_consumer"]),
        (impl_rabbit.Connection, ["_set_current_channel", "durable"]),
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
        (amqpdriver.AMQPIncomingMessage.__init__, ["self.reply_q ="]),
        (amqpdriver.AMQPIncomingMessage._send_reply, ["conn.direct_send(self.reply_q,"]),
        (amqpdriver.AMQPListener.__init__, ["self._message_operations_handler =", "self.incoming ="]),
        (amqpdriver.AMQPListener.poll.__closure__[0].cell_contents, ["self._current_timeout = "]),
        (amqpdriver.AMQPListener.__call__, ["self.incoming.append(self.message_cls("]),
        (
            amqpdriver,
            [
                "        while not self._shutdown.is_set():\n            self._message_operations_handler.process()"
            ],
        ),
        (amqpdriver.MessageOperationsHandler.__init__, ["self._shutdown_thread ="]),
        (impl_rabbit.RabbitMessage.__init__, ["self._raw_message ="]),
        (
            impl_rabbit.Connection.__init__,
            ["self._connection_lock =", "self._consumers =", "self._tags =", "self._new_tags ="],
        ),
        (impl_rabbit.Consumer.consume, ["if conn.channel != self._declared_on:", "self.queue.consume("]),
        (
            impl_rabbit.Connection.consume,
            ["min(timeout, self._poll_timeout)", "if self._consume_loop_stopped:"],
        ),
        (impl_rabbit.Connection.consume, ["if tag in self._new_tags:", "consumer.consume(self, tag=tag)"]),
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


def test_kombu_passes_the_time_limit_of_a_confirmation_on():
    assert "confirm_timeout" in inspect.signature(kombu.Producer.publish).parameters
