"""Receives messages, and acknowledges calls after their replies."""

from collections.abc import Callable, Collection
from functools import partial
import math

from oslo_log import log as logging
import oslo_messaging as messaging

from scheduler.logs import RateLimitedLogger
from scheduler.rpc.amqp import library
from scheduler.rpc.amqp.backlog import Backlog
from scheduler.rpc.amqp.deliveries import Deliveries
from scheduler.rpc.amqp.message import ConfirmedMessage

LOG = logging.getLogger(f"nova.{__name__}")

#: Characters of the identity of a message. oslo.messaging writes 32.
LONGEST_IDENTITY = 255

#: Seconds between two looks at the connection at most. oslo.messaging waits for five once no call comes,
#: which would count as a frost.
LONGEST_WAIT = 1.0

#: Seconds between two looks whether to stop. oslo.messaging looks every five seconds while no message comes.
LOOK_INTERVAL = 0.5

#: Calls that the preferred consumer has at most, for each that can run at once. The broker counts one until
#: its acknowledgement arrives, some milliseconds after the reply.
PREFERRED_SHARE = 1.25

#: Seconds for which an acknowledgement may wait after a message, while its thread waits for the next one.
#: oslo.messaging looks after 1, 2, 4, 8 milliseconds and so on, at more than a tenth of the CPU of a call.
ACKNOWLEDGE_AFTER = 0.01


class LateListener(library.Listener):
    """Receives messages, and acknowledges calls after their replies.

    Any thread may use it; kombu's objects are used by the reading thread alone.

    Attributes:
        largest_message: Bytes of the largest reply.
        deliveries: The calls that are not answered yet.
        backlog: Which of them may have waited before.
        priority: Of its consumers of calls.
        of_calls: These, which follow the priority.
        always_read: The consumers that go on until the end: of casts to all schedulers.
        stopping: Whether what is not begun goes back to the broker.
        on_stop: Called when it stops; must not wait.
    """

    message_cls = ConfirmedMessage
    use_cache = False  # the library would drop a call with the identity of an earlier message, unanswered

    def __init__(
        self,
        driver: library.AMQPDriverBase,
        connection: library.ConnectionContext,
        largest_message: int,
        priority: int = 0,
    ) -> None:
        """Listen on a connection of the driver; the caller declares the queues."""
        super().__init__(driver, connection, self._look_round, (ACKNOWLEDGE_AFTER, LONGEST_WAIT))
        self.largest_message = largest_message
        self.on_stop: Callable[[], None] = lambda: None
        self.deliveries = Deliveries(self.do, lambda: connection.channel, self.incoming.append)
        self.backlog = Backlog()
        self.priority = priority
        self.of_calls: Collection[library.Consumer] = ()
        self.always_read: Collection[library.Consumer] = ()
        self.stopping = False
        self._overdue_checked = 0.0

    @property
    def connected(self) -> bool:
        """Whether there is a connection to the broker, and a thread that reads from it."""
        if self.backlog.is_stuck:
            return False
        try:
            return bool(library.broker_of(self.conn).connected)
        except Exception:  # noqa: BLE001 - the reading thread may be replacing it
            return False

    def __call__(self, message: library.RabbitMessage) -> None:
        """Take a message from the broker; in the reading thread."""
        if not _is_identity(message.get(library.UNIQUE_ID)):
            message.pop(library.UNIQUE_ID, None)
        if not message.get("_msg_id"):
            super().__call__(message)  # acknowledges it
        elif self.stopping:
            library.requeue(message)
        else:
            call = self.take(message)
            call.priority = self.priority
            received, was_queued = self.backlog.receive()
            call.note_receipt(received, was_queued=was_queued)
            if not self.deliveries.add(call):
                self.incoming.pop()

    def use_priority(self, priority: int) -> None:
        """Consume calls with a priority from now on."""
        self.do(partial(self._use_priority, priority))

    def stop(self) -> None:
        """Take no more messages. What is not begun is returned to the broker."""
        self.stopping = True
        self.on_stop()
        self.do(self._cancel_all)
        super().stop()

    def cleanup(self) -> None:
        """Acknowledge what was answered, and close the connection."""
        self.finish()
        super().cleanup()

    def _use_priority(self, priority: int) -> None:
        if self.stopping:
            return
        for consumer in self.of_calls:
            # What arrives meanwhile is taken.
            self._cancel(consumer)
            library.add_consumer(self.conn, consumer)
        self.priority = priority

    def _cancel_all(self) -> None:
        for consumer in library.consumers_of(self.conn):
            if consumer not in self.always_read:
                self._cancel(consumer)

    def _cancel(self, consumer: library.Consumer) -> None:
        try:
            consumer.cancel(library.remove_consumer(self.conn, consumer))
        except Exception as error:  # noqa: BLE001 - the connection is lost, and nothing is consumed
            LOG.info("Cannot cancel a consumer: %s", error)

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
    rank: int = 0,
    threads: int = 1,
) -> LateListener | None:
    """Return a listener for a server, on the queues of oslo.messaging's own.

    It has two consumers of the topic. One has little more calls than can run at once, and is the broker's
    first choice if its listener has the highest rank; by the other one each listener gets its part of the
    calls that are left, and sends heartbeats to their callers.

    Args:
        transport: What ``transport.rpc_transport`` returned.
        target: Topic and server name.
        largest_message: Bytes of the largest reply.
        priority: Of its consumers among those of the topic; the broker's default is 0.
        fanout: The topic whose casts are taken; "" for none.
        rank: What is added to the priority for so many calls as can run at once.
        threads: How many can.

    Returns:
        The listener; None if the driver of the transport does not speak AMQP.
    """
    driver = library.amqp_driver_of(transport)
    if driver is None:
        return None
    connection = library.connection_to_read(driver)
    library.look_often(connection, LOOK_INTERVAL)
    listener = LateListener(driver, connection, largest_message, priority)
    exchange = library.exchange_of(driver, target)
    for topic in (target.topic, f"{target.topic}.{target.server}"):
        connection.declare_topic_consumer(exchange_name=exchange, topic=topic, callback=listener)
    of_calls = library.consumers_of(connection)
    preferred = library.second_consumer(connection, of_calls[0])
    for consumer in of_calls:
        _watch(consumer, listener)
    _prefer(preferred, listener, rank, threads)
    listener.of_calls = (*of_calls, preferred)
    if fanout:
        connection.declare_fanout_consumer(fanout, listener)
        listener.always_read = frozenset(library.consumers_of(connection)).difference(listener.of_calls)
    log_unreadable = partial(_log_unreadable, RateLimitedLogger(LOG))
    for consumer in library.consumers_of(connection):
        library.log_unreadable(consumer, log_unreadable)
    return listener


def _log_unreadable(warnings: RateLimitedLogger, error: Exception) -> None:
    warnings.warning(type(error).__name__, "Message rejected: %.200s", error)
    LOG.debug("Unreadable message", exc_info=error)


def _watch(consumer: library.Consumer, listener: LateListener) -> None:
    """Let a consumer consume with the priority of its listener.

    It reports how many messages were in its queue before, and declares that again after each loss of the
    connection.
    """
    consume = consumer.consume

    def consume_and_report(connection: library.Connection, tag: int) -> None:
        library.declare_where_needed(consumer, connection)
        _set_priority(consumer, listener.priority)
        listener.backlog.expect(consumer.queue.queue_declare(passive=True).message_count)
        consume(connection, tag)

    consumer.consume = consume_and_report


def _prefer(consumer: library.Consumer, listener: LateListener, rank: int, threads: int) -> None:
    """Let a consumer consume with a higher priority, and have little more than so many calls."""
    consume = consumer.consume

    def consume_some(connection: library.Connection, tag: int) -> None:
        library.declare_where_needed(consumer, connection)
        _set_priority(consumer, listener.priority + rank)
        with library.prefetch(connection, math.ceil(threads * PREFERRED_SHARE)):
            consume(connection, tag)

    consumer.consume = consume_some


def _set_priority(consumer: library.Consumer, priority: int) -> None:
    arguments = consumer.queue.consumer_arguments or {}
    consumer.queue.consumer_arguments = {**arguments, "x-priority": priority}


def stopping_soon(adapter: library.PollStyleListenerAdapter) -> library.PollStyleListenerAdapter:
    """Return a listener of oslo.messaging's own, which ends soon after ``stop`` if it speaks AMQP."""
    library.look_often_of(adapter, LOOK_INTERVAL)
    return adapter
