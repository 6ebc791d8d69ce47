"""Receives messages, and acknowledges calls after their replies."""
# ruff: noqa: SLF001 - private names of oslo.messaging, see scheduler/rpc/amqp/__init__.py

from collections.abc import Callable

import oslo_messaging as messaging
from oslo_messaging._drivers import amqp as library_amqp
from oslo_messaging._drivers import amqpdriver, base, impl_rabbit
from oslo_messaging._drivers import common as library

from scheduler.rpc.amqp.backlog import Backlog
from scheduler.rpc.amqp.consumers import Consumers
from scheduler.rpc.amqp.deliveries import Deliveries
from scheduler.rpc.amqp.message import ConfirmedMessage

#: Characters of the identity of a message. oslo.messaging writes 32.
LONGEST_IDENTITY = 255

#: Seconds between two looks at the connection at most. oslo.messaging waits for five once no call comes,
#: which would count as a frost.
LONGEST_WAIT = 1.0

#: Seconds between two looks whether to stop. oslo.messaging looks every five seconds while no message comes.
LOOK_INTERVAL = 0.5

#: Seconds for which an acknowledgement may wait after a message, while its thread waits for the next one.
#: oslo.messaging looks after 1, 2, 4, 8 milliseconds and so on, at more than a tenth of the CPU of a call.
ACKNOWLEDGE_AFTER = 0.01


class Operations(amqpdriver.MessageOperationsHandler):
    """What the thread that reads from a connection does between two reads."""

    def __init__(self, name: str, each_time: Callable[[], None]) -> None:
        """Call a function between the queued tasks."""
        super().__init__(name)
        self._each_time = each_time

    def process(self) -> None:
        """Do what waits."""
        super().process()
        self._each_time()

    def finish(self) -> None:
        """Do what waits, in the calling thread, after the thread that did it has ended."""
        self.stop()
        if self._shutdown_thread.is_alive():
            self._shutdown_thread.join()
        self.process()


class LateListener(amqpdriver.RpcAMQPListener):
    """Receives messages, and acknowledges calls after their replies.

    Any thread may use it; kombu's objects are used by the reading thread alone.

    Attributes:
        largest_message: Bytes of the largest reply.
        deliveries: The calls that are not answered yet.
        backlog: Which of them may have waited before.
        consumers: The queues that it reads from.
        on_stop: Called when it stops; must not wait.
    """

    message_cls = ConfirmedMessage
    use_cache = False

    def __init__(
        self, driver: amqpdriver.AMQPDriverBase, connection: library.ConnectionContext, largest_message: int
    ) -> None:
        """Listen on a connection of the driver; the caller declares the queues."""
        super().__init__(driver, connection)
        self.largest_message = largest_message
        self.on_stop: Callable[[], None] = lambda: None
        self._message_operations_handler = Operations("LateListener", self._look_round)
        self._do = self._message_operations_handler.do
        self.deliveries = Deliveries(self._do, lambda: connection.channel)
        self.backlog = Backlog()
        self.consumers = Consumers(connection)
        self._stopping = False
        self._overdue_checked = 0.0

    @property
    def _current_timeout(self) -> float:
        """Seconds for which the next message is waited for before calls are acknowledged."""
        return self._wait

    @_current_timeout.setter
    def _current_timeout(self, seconds: float) -> None:
        # oslo.messaging sets it to a millisecond after a message, and doubles it whenever none comes
        self._wait = min(max(seconds, ACKNOWLEDGE_AFTER), LONGEST_WAIT)

    @property
    def connected(self) -> bool:
        """Whether there is a connection to the broker, and a thread that reads from it."""
        if self.backlog.is_stuck:
            return False
        try:
            # the listener's place in the pool, oslo.messaging's connection, kombu's connection
            return bool(self.conn.connection.connection.connected)
        except Exception:  # noqa: BLE001 - the reading thread may be replacing it
            return False

    def __call__(self, message: impl_rabbit.RabbitMessage) -> None:
        """Take a message from the broker; in the reading thread."""
        if not _is_identity(message.get(library_amqp.UNIQUE_ID)):
            message.pop(library_amqp.UNIQUE_ID, None)
        if not message.get("_msg_id"):
            unique_id = message.get(library_amqp.UNIQUE_ID)
            super().__call__(message)  # acknowledges it
            self.msg_id_cache.add(unique_id)
        elif self._stopping or self.consumers.paused:
            self.deliveries.return_message(message)
        else:
            amqpdriver.AMQPListener.__call__(self, message)
            call = self.incoming[-1]
            call.received, call.was_queued = self.backlog.receive()
            if not self.deliveries.add(call):
                self.incoming.pop()

    def returns(self, message: ConfirmedMessage) -> bool:
        """Return whether a message goes back to the broker: in a stop, or a call in a pause."""
        return self._stopping or (self.consumers.paused and bool(message.orig_msg_id))

    def pause(self) -> None:
        """Take no more calls until ``resume``. What is not begun is returned to the broker."""
        self._do(self.consumers.pause)

    def resume(self) -> None:
        """Take calls again."""
        self._do(lambda: None if self._stopping else self.consumers.resume())

    def stop(self) -> None:
        """Take no more messages. What is not begun is returned to the broker."""
        self._stopping = True
        self.on_stop()
        self._do(self.consumers.cancel)
        super().stop()

    def cleanup(self) -> None:
        """Acknowledge what was answered, and close the connection."""
        self._message_operations_handler.finish()
        super().cleanup()

    def _look_round(self) -> None:
        now = self.backlog.look()
        if now >= self._overdue_checked + 1.0:
            self._overdue_checked = now
            self.deliveries.acknowledge_overdue(now)


def _is_identity(value: object) -> bool:
    """Return whether a message can be recorded by its identity, which anyone on the bus can write."""
    return isinstance(value, str) and len(value) <= LONGEST_IDENTITY and value.isprintable()


def listen(
    transport: messaging.Transport,
    target: messaging.Target,
    largest_message: int,
    priority: int = 0,
    fanout: str = "",
) -> LateListener | None:
    """Return a listener for a server, on the queues of oslo.messaging's own.

    Args:
        transport: What ``transport.rpc_transport`` returned.
        target: Topic and server name.
        largest_message: Bytes of the largest reply.
        priority: Of this consumer among those of the topic; the broker's default is 0.
        fanout: The topic whose casts are taken; "" for none.

    Returns:
        The listener; None if the driver of the transport does not speak AMQP.
    """
    driver = transport._driver
    if not isinstance(driver, amqpdriver.AMQPDriverBase):
        return None
    connection = driver._get_connection(library.PURPOSE_LISTEN)
    _look_often(connection)
    listener = LateListener(driver, connection, largest_message)
    exchange = driver._get_exchange(target)
    for topic in (target.topic, f"{target.topic}.{target.server}"):
        connection.declare_topic_consumer(exchange_name=exchange, topic=topic, callback=listener)
    for consumer in connection._consumers:
        _watch(consumer, listener, priority)
    if fanout:
        of_calls = set(connection._consumers)
        connection.declare_fanout_consumer(fanout, listener)
        listener.consumers.always_read = frozenset(connection._consumers) - of_calls
    return listener


def _watch(consumer: impl_rabbit.Consumer, listener: LateListener, priority: int) -> None:
    """Let a consumer consume with a priority, and report how many messages were in its queue before.

    It declares its queue again after each loss of the connection.
    """
    consume = consumer.consume

    def consume_and_report(connection: impl_rabbit.Connection, tag: int) -> None:
        if connection.channel != consumer._declared_on:
            consumer.declare(connection)
        if priority:
            arguments = consumer.queue.consumer_arguments or {}
            consumer.queue.consumer_arguments = {**arguments, "x-priority": priority}
        listener.backlog.expect(consumer.queue.queue_declare(passive=True).message_count)
        consume(connection, tag)

    consumer.consume = consume_and_report


def stopping_soon(adapter: base.PollStyleListenerAdapter) -> base.PollStyleListenerAdapter:
    """Return a listener of oslo.messaging's own, which ends soon after ``stop`` if it speaks AMQP."""
    if isinstance(adapter._poll_style_listener, amqpdriver.AMQPListener):
        _look_often(adapter._poll_style_listener.conn)
    return adapter


def _look_often(connection: library.ConnectionContext) -> None:
    connection.connection._poll_timeout = LOOK_INTERVAL
