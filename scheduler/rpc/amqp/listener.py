"""Receives messages, and acknowledges calls after their replies."""

from collections.abc import Callable, Collection
import math

from oslo_log import log as logging
import oslo_messaging as messaging

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
        preferred: Consumes with the priority of ``rank``, and has so many calls at most; or None.
        rank: Returns what is added to the priority; in the reading thread.
        always_read: The consumers that go on when no calls are taken: of casts to all schedulers.
        on_stop: Called when it stops; must not wait.
    """

    message_cls = ConfirmedMessage
    use_cache = False

    def __init__(
        self, driver: library.AMQPDriverBase, connection: library.ConnectionContext, largest_message: int
    ) -> None:
        """Listen on a connection of the driver; the caller declares the queues."""
        super().__init__(driver, connection, self._look_round, (ACKNOWLEDGE_AFTER, LONGEST_WAIT))
        self.largest_message = largest_message
        self.on_stop: Callable[[], None] = lambda: None
        self.deliveries = Deliveries(self.do, lambda: connection.channel)
        self.backlog = Backlog()
        self.preferred: library.Consumer | None = None
        self.rank: Callable[[], int] = lambda: 0
        self._rank_used: int | None = None
        self.always_read: Collection[library.Consumer] = ()
        self._parked: list[library.Consumer] = []
        self._stopping = False
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
            unique_id = message.get(library.UNIQUE_ID)
            super().__call__(message)  # acknowledges it
            self.msg_id_cache.add(unique_id)
        elif self._stopping or self._parked:
            self.deliveries.return_message(message)
        else:
            self.take(message)
            call = self.incoming[-1]
            received, was_queued = self.backlog.receive()
            call.note_receipt(received, was_queued=was_queued)
            if not self.deliveries.add(call):
                self.incoming.pop()

    def returns(self, message: ConfirmedMessage) -> bool:
        """Return whether a message goes back to the broker: in a stop, or a call while none are taken."""
        return self._stopping or bool(self._parked and message.orig_msg_id)

    def take_calls(self, take: bool) -> None:
        """Take calls from now on, or none. What is not begun then is returned to the broker."""
        self.do(self._resume if take else self._pause)

    def stop(self) -> None:
        """Take no more messages. What is not begun is returned to the broker."""
        self._stopping = True
        self.on_stop()
        self.do(self._pause)
        super().stop()

    def cleanup(self) -> None:
        """Acknowledge what was answered, and close the connection."""
        self.finish()
        super().cleanup()

    def _pause(self) -> None:
        for consumer in library.consumers_of(self.conn):
            if consumer in self.always_read:
                continue
            # before it is cancelled: what arrives meanwhile is returned
            self._parked.append(consumer)
            self._cancel(consumer)

    def _cancel(self, consumer: library.Consumer) -> None:
        try:
            consumer.cancel(library.remove_consumer(self.conn, consumer))
        except Exception as error:  # noqa: BLE001 - the connection is lost, and nothing is consumed
            LOG.info("Cannot cancel a consumer: %s", error)

    def _resume(self) -> None:
        if self._stopping:
            return
        parked, self._parked = self._parked, []
        for consumer in parked:
            library.add_consumer(self.conn, consumer)

    def use_rank(self) -> int:
        """Return the rank with which the preferred consumer is about to consume."""
        self._rank_used = self.rank()
        return self._rank_used

    def _look_round(self) -> None:
        if self._rank_used is not None and self._rank_used != self.rank():
            self._consume_with_rank()
        now = self.backlog.look()
        if now >= self._overdue_checked + 1.0:
            self._overdue_checked = now
            self.deliveries.acknowledge_overdue(now)

    def _consume_with_rank(self) -> None:
        """Let the preferred consumer consume with its rank of now; calls that arrive meanwhile are taken."""
        self._rank_used = None  # until it consumes
        if self.preferred in library.consumers_of(self.conn):
            self._cancel(self.preferred)
            library.add_consumer(self.conn, self.preferred)


def _is_identity(value: object) -> bool:
    """Return whether a message can be recorded by its identity, which anyone on the bus can write."""
    return isinstance(value, str) and len(value) <= LONGEST_IDENTITY and value.isprintable()


def listen(
    transport: messaging.Transport,
    target: messaging.Target,
    largest_message: int,
    priority: int = 0,
    fanout: str = "",
    rank: Callable[[], int] = lambda: 0,
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
        priority: Of this consumer among those of the topic; the broker's default is 0.
        fanout: The topic whose casts are taken; "" for none.
        rank: Returns what is added to the priority for so many calls as can run at once. It may change.
        threads: How many can.

    Returns:
        The listener; None if the driver of the transport does not speak AMQP.
    """
    driver = library.amqp_driver_of(transport)
    if driver is None:
        return None
    connection = library.connection_to_read(driver)
    library.look_often(connection, LOOK_INTERVAL)
    listener = LateListener(driver, connection, largest_message)
    exchange = library.exchange_of(driver, target)
    for topic in (target.topic, f"{target.topic}.{target.server}"):
        connection.declare_topic_consumer(exchange_name=exchange, topic=topic, callback=listener)
    of_calls = library.consumers_of(connection)
    listener.rank, listener.preferred = rank, library.second_consumer(connection, of_calls[0])
    for consumer in of_calls:
        _watch(consumer, listener, priority)
    _prefer(listener.preferred, listener, priority, threads)
    if fanout:
        connection.declare_fanout_consumer(fanout, listener)
        listener.always_read = frozenset(library.consumers_of(connection)) - {*of_calls, listener.preferred}
    return listener


def _watch(consumer: library.Consumer, listener: LateListener, priority: int) -> None:
    """Let a consumer consume with a priority, and report how many messages were in its queue before.

    It declares its queue again after each loss of the connection.
    """
    consume = consumer.consume

    def consume_and_report(connection: library.Connection, tag: int) -> None:
        library.declare_where_needed(consumer, connection)
        _set_priority(consumer, priority)
        listener.backlog.expect(consumer.queue.queue_declare(passive=True).message_count)
        consume(connection, tag)

    consumer.consume = consume_and_report


def _prefer(consumer: library.Consumer, listener: LateListener, priority: int, threads: int) -> None:
    """Let a consumer consume with the rank of its listener, and have little more than so many calls."""
    consume = consumer.consume

    def consume_some(connection: library.Connection, tag: int) -> None:
        library.declare_where_needed(consumer, connection)
        _set_priority(consumer, priority + listener.use_rank())
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
