"""What is taken for granted of oslo.messaging, kombu and amqp, and how a version that lacks it is refused."""

import inspect
import subprocess
import sys

from amqp.channel import Channel
import kombu
from oslo_messaging._drivers import amqpdriver, impl_rabbit, pool
from oslo_messaging.rpc import server as library_server
import pytest

from scheduler.rpc.amqp import library


def test_the_names_that_are_used_exist():
    assert library.missing() == []


@pytest.mark.parametrize(
    ("owner", "used", "lacking"),
    [
        ("_drivers.renamed", ("UNIQUE_ID",), "_drivers.renamed"),
        ("_drivers.amqpdriver:Renamed", (), "_drivers.amqpdriver:Renamed"),
        ("_drivers.amqp", ("UNIQUE_ID", "renamed"), "_drivers.amqp.renamed"),
        (
            "_drivers.impl_rabbit:Consumer.__init__",
            ("queue_arguments", "_renamed"),
            "_drivers.impl_rabbit:Consumer.__init__._renamed",
        ),
    ],
)
def test_a_name_that_is_missing_is_told(owner, used, lacking):
    assert library.missing({owner: used}) == [lacking]


def test_a_start_with_another_version_ends_with_one_line():
    start = """
from oslo_messaging._drivers import amqpdriver
del amqpdriver.RpcAMQPListener
from scheduler.rpc import server
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", start], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("oslo.messaging ")
    assert "cannot be used: it lacks _drivers.amqpdriver:RpcAMQPListener (tried with" in line


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        (amqpdriver.AMQPIncomingMessage._send_reply, ["conn.direct_send(self.reply_q,"]),
        (amqpdriver.AMQPListener.poll.__closure__[0].cell_contents, ["self._current_timeout = "]),
        (amqpdriver.AMQPListener.__call__, ["self.incoming.append(self.message_cls("]),
        (
            amqpdriver,
            [
                "        while not self._shutdown.is_set():\n            self._message_operations_handler.process()"
            ],
        ),
        (amqpdriver.ReplyWaiter.__init__, ["self.conn.declare_direct_consumer(reply_q, self)"]),
        (pool.ConnectionPool.create, ["self.connection_cls("]),
        (impl_rabbit.Consumer.consume, ["if conn.channel != self._declared_on:", "self.queue.consume("]),
        (impl_rabbit.Consumer.declare, ["queue_arguments=self.queue_arguments"]),
        (
            impl_rabbit.Connection.consume,
            ["min(timeout, self._poll_timeout)", "if self._consume_loop_stopped:"],
        ),
        (impl_rabbit.Connection.consume, ["if tag in self._new_tags:", "consumer.consume(self, tag=tag)"]),
        (impl_rabbit.Connection.declare_consumer, ["consumer.declare(self)"]),
        (impl_rabbit.Connection.__init__, ["'confirm_publish': True"]),
        (impl_rabbit.Connection._set_current_channel, ["on_return=self.on_return"]),
        (impl_rabbit.Connection.ensure, ["recoverable_error_callback", "error_callback(exc)"]),
        (
            library_server.RPCServer._process_incoming,
            ["message.reply(res)", "message.reply(failure=failure)"],
        ),
        (Channel.__init__, ["self.cancel_callbacks"]),
        (Channel._remove_tag, ["self.cancel_callbacks.pop"]),
    ],
    ids=lambda value: getattr(value, "__qualname__", None),
)
def test_the_library_sets_and_calls_what_is_relied_on(function, texts):
    source = inspect.getsource(function)
    assert [text for text in texts if text not in source] == []


def test_kombu_passes_the_time_limit_of_a_confirmation_on():
    assert "confirm_timeout" in inspect.signature(kombu.Producer.publish).parameters
