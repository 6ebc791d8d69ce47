"""What ``scheduler.rpc.command_transport`` takes for granted of oslo.messaging."""

import inspect

from oslo_messaging._drivers import amqpdriver, impl_rabbit, pool
import pytest

from scheduler import errors
from scheduler.rpc.command_transport import command_transport


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (amqpdriver.ReplyWaiter.__init__, "self.conn.declare_direct_consumer(reply_q, self)"),
        (amqpdriver.AMQPDriverBase.__init__, "self._connection_pool = connection_pool"),
        (pool.ConnectionPool.create, "self.connection_cls("),
        (impl_rabbit.Connection.declare_consumer, "consumer.declare(self)"),
        (impl_rabbit.Consumer.consume, "if conn.channel != self._declared_on:"),
    ],
    ids=lambda value: getattr(value, "__qualname__", None),
)
def test_oslo_messaging_has_the_texts_that_are_relied_on(function, text):
    assert text in inspect.getsource(function)


def test_other_drivers_are_left_as_they_are(conf):
    conf.set_override("transport_url", "fake://")
    made = command_transport(conf)
    assert type(made._driver).__name__ == "FakeDriver"
    made.cleanup()


def test_a_url_that_cannot_be_read_is_refused(conf):
    conf.set_override("transport_url", "rabbit//nova:verysecret@h")
    with pytest.raises(errors.ConfigError):
        command_transport(conf)
