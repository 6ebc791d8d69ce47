"""Receives messages, and acknowledges calls after their replies."""
# ruff: noqa: SLF001 - private names of oslo.messaging, see scheduler/rpc/amqp/__init__.py

from collections.abc import Callable
from functools import partial
import threading
import time
from typing import Any

from cachetools import TTLCache
from oslo_log import log as logging
import oslo_messaging as messaging
from oslo_messaging._drivers import amqp as library_amqp
from oslo_messaging._drivers import amqpdriver, base
from oslo_messaging._drivers import common as library

from scheduler.rpc.amqp.message import ConfirmedMessage

LOG = logging.getLogger(__name__)

#: Seconds after which a call is acknowledged although it is not answered. A broker closes the channel of a
#: consumer that takes longer than its consumer_timeout, by default half an hour.
LONGEST_UNACKNOWLEDGED = 900.0

#: Seconds for which the ids of answered messages are remembered, and their greatest number.
ANSWERED_TTL = 600.0
MOST_ANSWERED = 100_000

#: Characters of the identity of a message. oslo.messaging writes 32.
LONGEST_IDENTITY = 255

#: Seconds between two looks at the connection at most. oslo.messaging waits for five once no call comes,
#: which would count as a frost.
LONGEST_WAIT = 1.0

#: Seconds without a look at the connection after which its thread counts as stuck.
SILENT = 12.0

#: Seconds without a look at the connection after which this process was frozen, or its machine was; and for
#: how long after that what is received counts as sent meanwhile.
FROZEN, AFTER_FROST = 5.0, 30.0

#: Seconds without a call after which nothing is left of what was in the queue at the beginning.
QUIET = 5.0

#: Seconds between two looks whether to stop. oslo.messaging looks every five seconds while no message comes.
LOOK_INTERVAL = 0.25

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

    Any thread may call ``settle``, ``requeue`` and ``hand_back``; kombu's objects are used by the reading
    thread alone.

    Attributes:
        largest_message: Bytes of the largest reply.
        forwarding_queues: The queues among those that it reads from which a call that it returns moves to the
            queue of all schedulers, instead of waiting here for the next consumer.
        on_stop: Called when it stops; must not wait.
        always_read: The consumers that a pause leaves alone: those of casts to all schedulers.
    """

    message_cls = ConfirmedMessage
    use_cache = False

    def __init__(self, driver: Any, connection: Any, largest_message: int) -> None:
        """Listen on a connection of the driver; the caller declares the queues."""
        super().__init__(driver, connection)
        self.largest_message = largest_message
        self.forwarding_queues: frozenset[str] = frozenset()
        self.on_stop: Callable[[], None] = lambda: None
        self.always_read: frozenset[Any] = frozenset()
        self._parked: list[Any] = []
        self._message_operations_handler = Operations("LateListener", self._acknowledge_overdue)
        self._lock = threading.Lock()
        self._in_progress: dict[str, list[ConfirmedMessage]] = {}
        self._answered: TTLCache[str, bool] = TTLCache(MOST_ANSWERED, ANSWERED_TTL)
        self._stopping = False
        self._channel: Any = None
        self._channel_number = 0
        self._last_tag = 0
        self._overdue_checked = 0.0
        self._read_at = self._received_at = time.monotonic()
        self._queued_before = 0
        self._frozen_until = 0.0

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
        if time.monotonic() - self._read_at > SILENT:
            return False
        try:
            # the listener's place in the pool, oslo.messaging's connection, kombu's connection
            return bool(self.conn.connection.connection.connected)
        except Exception:  # noqa: BLE001 - the reading thread may be replacing it
            return False

    @property
    def unanswered(self) -> int:
        """The number of calls that were received and not answered yet."""
        return len(self._in_progress)

    @property
    def remembered_calls(self) -> int:
        """Number of answered calls whose repetition would be recognised."""
        return len(self._answered)

    def __call__(self, message: Any) -> None:
        """Take a message from the broker; in the reading thread."""
        if not _is_identity(message.get(library_amqp.UNIQUE_ID)):
            message.pop(library_amqp.UNIQUE_ID, None)
        if not message.get("_msg_id"):
            self._take_cast(message)
        elif self._returns_calls:
            self._give_back(message)
        else:
            self._take_call(message)

    def settle(self, message: ConfirmedMessage) -> None:
        """Acknowledge a call, and what the broker has delivered of it again meanwhile."""
        with self._lock:
            deliveries = self._in_progress.pop(message.unique_id, [message])
            # casts were acknowledged on receipt: the broker does not deliver them again
            if message.orig_msg_id and message.undelivered is None:
                self._answered[message.unique_id] = True
        for each in deliveries:
            self._message_operations_handler.do(lambda each=each: self._acknowledge(each))

    def hand_back(self, message: ConfirmedMessage) -> bool:
        """Return a call to the broker if this listener stops or pauses; whether that is so.

        A cast, which was acknowledged on receipt, is carried out during a pause.
        """
        if not self._returns_calls or not (self._stopping or message.orig_msg_id):
            return False
        self.requeue(message)
        return True

    def requeue(self, message: ConfirmedMessage) -> None:
        """Return a call to the broker, however often it was delivered."""
        with self._lock:
            deliveries = self._in_progress.pop(message.unique_id, [message])
        for each in deliveries:
            self._message_operations_handler.do(lambda each=each: self._requeue(each))

    def can_requeue(self, message: ConfirmedMessage) -> bool:
        """Return whether a call is not acknowledged, so that it is delivered again sooner or later."""
        return not all(each.message._raw_message.acknowledged for each in self._deliveries_of(message))

    def is_lost(self, message: ConfirmedMessage) -> bool:
        """Return whether the broker has a call again: no delivery of it can be acknowledged any more."""
        return not any(self._is_held(each) for each in self._deliveries_of(message))

    def was_interrupted(self, message: ConfirmedMessage) -> bool:
        """Return whether the broker had a call again since it was received."""
        return not self._is_held(message)

    def expect_queued(self, number: int) -> None:
        """Note that the next calls, so many, were in a queue before this process began to read from it."""
        self._queued_before += number
        self._received_at = time.monotonic()

    def hand_over(self, message: ConfirmedMessage, publish: Callable[[], None]) -> None:
        """Publish a call elsewhere, and acknowledge it after that; it is not answered here.

        Meanwhile the call counts as unknown here, since it may come back at once.

        Raises:
            Exception: What ``publish`` raises. The call is still to be answered here.
        """
        with self._lock:
            deliveries = self._in_progress.pop(message.unique_id, [message])
        try:
            publish()
        except BaseException:
            if message.unique_id:
                with self._lock:
                    self._in_progress.setdefault(message.unique_id, []).extend(deliveries)
            raise
        for each in deliveries:
            self._message_operations_handler.do(lambda each=each: self._acknowledge(each))

    def pause(self) -> None:
        """Take no more calls until ``resume``. What is not begun is returned to the broker."""
        self._message_operations_handler.do(self._pause)

    def resume(self) -> None:
        """Take calls again."""
        self._message_operations_handler.do(self._resume)

    def stop(self) -> None:
        """Take no more messages. What is not begun is returned to the broker."""
        self._stopping = True
        self.on_stop()
        self._message_operations_handler.do(self._cancel_consumers)
        super().stop()

    def cleanup(self) -> None:
        """Acknowledge what was answered, and close the connection."""
        self._message_operations_handler.finish()
        super().cleanup()

    @property
    def _returns_calls(self) -> bool:
        return self._stopping or bool(self._parked)

    def _take_cast(self, message: Any) -> None:
        unique_id = message.get(library_amqp.UNIQUE_ID)
        super().__call__(message)  # acknowledges it
        self.msg_id_cache.add(unique_id)

    def _take_call(self, message: Any) -> None:
        amqpdriver.AMQPListener.__call__(self, message)
        call = self.incoming[-1]
        call.channel_number = self._number_of_channel(message._raw_message)
        call.received = self._received_at = self._note_alive()
        call.was_queued = self._queued_before > 0 or call.received < self._frozen_until
        self._queued_before = max(0, self._queued_before - 1)
        if not call.unique_id:
            return
        with self._lock:
            answered = call.unique_id in self._answered
            deliveries = self._in_progress.setdefault(call.unique_id, []) if not answered else []
            deliveries.append(call)
            is_first = len(deliveries) == 1 and not answered
        if not is_first:
            LOG.info(
                "Call %s was redelivered while this process serves it; skipping the redelivery", call.msg_id
            )
            self.incoming.pop()
        if answered:
            self._acknowledge(call)

    def _number_of_channel(self, raw: Any) -> int:
        """Return a number that is different for each channel: delivery tags begin at 1 on each."""
        if raw.channel is not self._channel or raw.delivery_tag <= self._last_tag:
            self._channel, self._channel_number = raw.channel, self._channel_number + 1
        self._last_tag = raw.delivery_tag
        return self._channel_number

    def _is_current(self, call: ConfirmedMessage) -> bool:
        # The broker delivers again what was not acknowledged on a channel that is closed.
        return call.channel_number == self._channel_number and self.conn.channel is self._channel

    def _deliveries_of(self, call: ConfirmedMessage) -> list[ConfirmedMessage]:
        with self._lock:
            return list(self._in_progress.get(call.unique_id, [call]))

    def _is_held(self, call: ConfirmedMessage) -> bool:
        return bool(call.message._raw_message.acknowledged) or self._is_current(call)

    def _note_alive(self) -> float:
        """Note that the reading thread runs; return the time."""
        now = time.monotonic()
        if now > self._read_at + FROZEN:
            self._frozen_until = now + AFTER_FROST
        self._read_at = now
        return now

    def _acknowledge(self, call: ConfirmedMessage) -> None:
        self._respond(call, call.message.acknowledge)

    def _requeue(self, call: ConfirmedMessage) -> None:
        self._respond(call, partial(self._give_back, call.message))

    def _give_back(self, message: Any) -> None:
        raw = message._raw_message
        if raw.delivery_info.get("routing_key") in self.forwarding_queues:
            raw.reject()
        else:
            message.requeue()

    def _respond(self, call: ConfirmedMessage, respond: Callable[[], None]) -> None:
        if call.message._raw_message.acknowledged or not self._is_current(call):
            return
        try:
            respond()
        except Exception as error:  # noqa: BLE001 - the connection is lost: the broker delivers it again
            LOG.info("Cannot acknowledge call %s: %s", call.msg_id, error)

    def _acknowledge_overdue(self) -> None:
        now = self._note_alive()
        if now > self._received_at + QUIET:
            self._queued_before = 0
        if now < self._overdue_checked + 1.0:
            return
        self._overdue_checked = now
        with self._lock:
            calls = [call for calls in self._in_progress.values() for call in calls]
        for call in calls:
            if call.received + LONGEST_UNACKNOWLEDGED < now:
                self._acknowledge(call)

    def _pause(self) -> None:
        consumers = self.conn._consumers
        for consumer in [each for each in consumers if each not in self.always_read]:
            # before it is cancelled: what arrives meanwhile is returned
            self._parked.append(consumer)
            tag = consumers.pop(consumer)
            self.conn._new_tags.discard(tag)
            _cancel(consumer, tag)

    def _resume(self) -> None:
        parked, self._parked = self._parked, []
        for consumer in parked if not self._stopping else ():
            # Not by its old tag: a quorum queue may end the connection when calls that this tag got before
            # the pause are acknowledged.
            self._consume(consumer)

    def _consume(self, consumer: Any) -> None:
        # Not by declare_consumer: if the connection is lost meanwhile, only this consumer would read again.
        tag = next(self.conn._tags)
        self.conn._consumers[consumer] = tag
        self.conn._new_tags.add(tag)

    def _cancel_consumers(self) -> None:
        for consumer, tag in self.conn._consumers.items():
            _cancel(consumer, tag)


def _cancel(consumer: Any, tag: Any) -> None:
    try:
        consumer.cancel(tag)
    except Exception as error:  # noqa: BLE001 - the connection is lost, and nothing is consumed
        LOG.info("Cannot cancel a consumer: %s", error)


def _is_identity(value: Any) -> bool:
    """Return whether a message can be recorded by its identity, which anyone on the bus can write."""
    return isinstance(value, str) and len(value) <= LONGEST_IDENTITY and value.isprintable()


def listen(
    transport: Any, target: messaging.Target, largest_message: int, priority: int = 0, fanout: str = ""
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
        listener.always_read = frozenset(connection._consumers) - of_calls
    return listener


def _watch(consumer: Any, listener: LateListener, priority: int) -> None:
    """Let a consumer consume with a priority, and tell how many messages were in its queue before.

    It declares its queue again after each loss of the connection.
    """
    consume = consumer.consume

    def consume_and_tell(connection: Any, tag: Any) -> None:
        if connection.channel != consumer._declared_on:
            consumer.declare(connection)
        if priority:
            arguments = consumer.queue.consumer_arguments or {}
            consumer.queue.consumer_arguments = {**arguments, "x-priority": priority}
        listener.expect_queued(consumer.queue.queue_declare(passive=True).message_count)
        consume(connection, tag)

    consumer.consume = consume_and_tell


def stopping_soon(adapter: Any) -> Any:
    """Return a listener of oslo.messaging's own, which ends soon after ``stop`` if it speaks AMQP."""
    if isinstance(adapter._poll_style_listener, amqpdriver.AMQPListener):
        _look_often(adapter._poll_style_listener.conn)
    return adapter


def _look_often(connection: Any) -> None:
    connection.connection._poll_timeout = LOOK_INTERVAL


def adapted(listener: LateListener) -> base.PollStyleListenerAdapter:
    """Return a listener in the form that a server of oslo.messaging uses: it starts its reading thread."""
    return base.PollStyleListenerAdapter(listener, 1, None)
