"""Late acknowledgement and confirmed replies on AMQP (spec: wire-and-config 1.1).

oslo.messaging acknowledges a request on receipt, logs a reply that was not delivered, and continues. Here:

* A call is acknowledged after its reply. If the process is killed, the broker delivers the message to another
  scheduler. Casts are acknowledged on receipt, as before.
* ``ConfirmedMessage.reply`` returns when the broker has confirmed the reply, or when it is known not to be
  deliverable; ``undelivered`` tells which. Its time is bounded in total.
* The same message may arrive twice, after a lost connection. While it is being answered, and for some time
  after that, the repetition is acknowledged and not answered again.
* A listener that stops takes no more messages, and returns to the broker what was not begun yet.
* A call can be sent on to another queue, as it was received (see ``scheduler/rpc/forwarding.py``).

This module uses private names of oslo.messaging and amqp; ``tests/unit/rpc/test_amqp.py`` lists them.
"""
# ruff: noqa: SLF001 - see above

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
import threading
import time
from typing import Any

from amqp.exceptions import IrrecoverableChannelError
from cachetools import TTLCache
import kombu
from oslo_log import log as logging
import oslo_messaging as messaging
from oslo_messaging._drivers import amqp as library_amqp
from oslo_messaging._drivers import amqpdriver, base
from oslo_messaging._drivers import common as library

from scheduler.rpc.delivery import Delivery

LOG = logging.getLogger(__name__)

#: Seconds between two attempts to send a reply.
RETRY_INTERVAL = 0.25

#: Seconds that sending one heartbeat to a caller may take.
HEARTBEAT_TIMEOUT = 10.0

#: Seconds after which a call is acknowledged although it is not answered. A broker closes the channel of a
#: consumer that takes longer than its consumer_timeout, by default half an hour.
LONGEST_UNACKNOWLEDGED = 900.0

#: Seconds for which the ids of answered messages are remembered, and their greatest number.
ANSWERED_TTL = 600.0
MOST_ANSWERED = 100_000

#: Seconds without a look at the connection after which its thread counts as stuck. It looks at it every five
#: seconds at least.
SILENT = 12.0

#: Failures of one attempt to connect to the broker after which the time limit is checked.
CONNECT_RETRIES = 1

#: Headers of a call that was delivered before, to another scheduler or in another queue: the broker sets the
#: first one if it moves a call back, a scheduler the other one if it sends such a call on.
RETURNED = "x-death"
DELIVERED_BEFORE = "berth-redelivered"


class ReplyTooLarge(Exception):
    """The broker does not accept a message of this size."""


class ReplyQueueMissing(Exception):
    """The reply queue of the caller does not exist."""


class ReplyTimeout(library.Timeout):
    """The time in which a message must be sent is over."""


#: Errors that another attempt to send the same reply would meet again: its size, or what cannot be JSON.
PERMANENT = (ReplyTooLarge, TypeError, ValueError)


class BoundedPublisher:
    """Publishes a message on a connection and waits for the confirmation, until a deadline."""

    def __init__(
        self,
        connection: Any,
        deadline: float,
        largest: int,
        before_sending: Callable[[], None] = lambda: None,
        after_sending: Callable[[], None] = lambda: None,
    ) -> None:
        """Publish on a connection of oslo.messaging's pool.

        Args:
            connection: The connection.
            deadline: Seconds of ``time.monotonic``.
            largest: Bytes that a message may have.
            before_sending: Called before a message is handed to the broker.
            after_sending: Called after that, before the confirmation is waited for. If it is not called, the
                broker has not got the whole message.
        """
        self._before_sending = before_sending
        self._after_sending = after_sending
        self._connection = connection
        self._deadline = deadline
        self._largest = largest

    def direct_send(self, queue: str, message: dict[str, Any]) -> None:
        """Publish a reply to a queue.

        Raises:
            ReplyTooLarge: The message is larger than the broker accepts.
            MessageUndeliverable: The queue does not exist.
            ReplyTimeout: The deadline has passed.
            MessageDeliveryFailure: The broker cannot be reached.
        """
        size = size_of(message[library._MESSAGE_KEY])
        if size > self._largest:
            raise ReplyTooLarge(f"it has {size} bytes; at most {self._largest} can be sent")
        self.send(queue, message)

    def send(self, queue: str, message: Any, **properties: Any) -> None:
        """Publish a message of any size to a queue; for the errors see ``direct_send``."""
        connection = self._connection
        with connection._connection_lock:
            try:
                connection.ensure(
                    lambda: self._publish(queue, message, properties),
                    recoverable_error_callback=self._check_deadline,
                    error_callback=_raise_refusal,
                )
            except Exception:
                self._replace_channel()
                raise

    def _publish(self, queue: str, message: Any, properties: dict[str, Any]) -> None:
        self._before_sending()
        producer = self._connection._producer
        with _noticing_the_end_of_sending(producer.channel, self._after_sending):
            producer.publish(
                message,
                exchange=kombu.Exchange(""),
                routing_key=queue,
                mandatory=True,
                compression=self._connection.kombu_compression,
                confirm_timeout=max(1.0, self._deadline - time.monotonic()),
                **properties,
            )

    def _replace_channel(self) -> None:
        """Publish nothing more on this channel.

        A confirmation that was not read is still to come, also after a message was returned. It could be
        taken for that of the next message.
        """
        channel = None
        with suppress(Exception):  # the connection is lost: the next message finds another one
            if self._connection.connection.connected:
                channel = self._connection.connection.channel()
        self._connection._set_current_channel(channel)

    def _check_deadline(self, error: Exception) -> None:
        if time.monotonic() >= self._deadline:
            raise ReplyTimeout(f"the broker did not confirm it in time: {error}") from error


@contextmanager
def _noticing_the_end_of_sending(channel: Any, sent: Callable[[], None]) -> Iterator[None]:
    """Call a function when a message is written to the connection, and its confirmation is awaited."""
    publish = channel._basic_publish

    def publish_and_tell(*args: Any, **kwargs: Any) -> Any:
        result = publish(*args, **kwargs)
        sent()
        return result

    channel._basic_publish = publish_and_tell
    try:
        yield
    finally:
        del channel._basic_publish  # the method of the class is behind it


def size_of(text: str) -> int:
    """Return the bytes of a JSON text that is sent as a string of another one, where it is escaped."""
    return len(text) + text.count('"') + text.count("\\")


def _raise_refusal(error: Exception) -> None:
    if isinstance(error, IrrecoverableChannelError):
        raise ReplyTooLarge(f"the broker refuses it: {error}") from error


class ConfirmedMessage(amqpdriver.AMQPIncomingMessage):
    """A call whose reply is confirmed by the broker.

    Attributes:
        undelivered: Why the last reply was not delivered; None if it was, or if none was sent.
        unrefused: How often the last reply was handed to the broker, and not refused. That is done again
            after an attempt without a confirmation: so a later attempt may be refused, and the first one not.
        caller_waits: Whether another, smaller reply may still be delivered.
        channel_number: Which of the listener's successive channels the message came from.
        received: When it was received; seconds of ``time.monotonic``.
        first_received: When the first scheduler that had it received it, as far as is known; as above.
        was_run_elsewhere: Whether another process of this host was found to run it, or to have run it.
        delivery: What depends on its reply, which is told before the reply is sent; None if nothing does.
    """

    delivery: Delivery | None = None
    undelivered: Exception | None = None
    unrefused = 0
    caller_waits = False
    channel_number = 0
    received = 0.0
    first_received = 0.0
    was_run_elsewhere = False

    @property
    def may_be_delivered(self) -> bool:
        """Whether it is not known, if the last reply is undelivered, whether its caller has it."""
        return self.unrefused > 0

    @property
    def headers(self) -> Mapping[str, Any]:
        """What the broker, or a scheduler that sent it on, has written on the message."""
        return self.message._raw_message.headers or {}

    @property
    def redelivered(self) -> bool:
        """Whether it was delivered before, as the broker, its sender or the journal says."""
        again = self.was_run_elsewhere or self.message._raw_message.delivery_info.get("redelivered")
        return bool(again or RETURNED in self.headers or self.headers.get(DELIVERED_BEFORE))

    @property
    def delivery_count(self) -> int:
        """How often the queue has delivered the message before; 0 if it does not tell."""
        count = self.headers.get("x-delivery-count")
        return count if isinstance(count, int) else 0

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Send a reply and wait until the broker has confirmed it. Never raises; see ``undelivered``."""
        self.undelivered, self.caller_waits, self.unrefused = None, False, 0
        if not self.orig_msg_id:
            return
        try:
            self._send_until_confirmed(reply, failure)
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, the reply was not delivered
            self.undelivered, self.caller_waits = error, isinstance(error, PERMANENT)

    @property
    def can_be_answered_later(self) -> bool:
        """Whether the last reply was not sent because the broker could not be reached."""
        return self.undelivered is not None and not isinstance(
            self.undelivered, (*PERMANENT, ReplyQueueMissing)
        )

    def heartbeat(self) -> None:
        """Send a heartbeat, in ``HEARTBEAT_TIMEOUT`` seconds; raises if it cannot be sent."""
        self._send_once(time.monotonic() + HEARTBEAT_TIMEOUT, None, None, ending=False)

    def settle(self) -> None:
        """Acknowledge the message after its reply, or because it cannot be answered."""
        self.listener.settle(self)

    def requeue(self) -> None:
        """Return the message to the broker, to be delivered again."""
        self.listener.requeue(self)

    def hand_back(self) -> bool:
        """Return the message to the broker if the listener stops.

        Returns:
            Whether it was returned, and is not to be answered here.
        """
        return bool(self.listener.hand_back(self))

    def send_on(self, queue: str, headers: dict[str, Any], timeout: float) -> None:
        """Publish the message to another queue, as it was received, and acknowledge it after that.

        Args:
            queue: The name of the queue.
            headers: The headers there; those of the received message are left out.
            timeout: Seconds until the broker must have confirmed it.

        Raises:
            MessageUndeliverable: There is no such queue.
            Exception: Whatever the driver raises. It is not known whether the message is in the other queue;
                here it is as before, neither answered nor acknowledged.
        """
        deadline = time.monotonic() + timeout
        self.listener.hand_over(self, partial(self._publish_again, queue, headers, deadline))

    def _publish_again(self, queue: str, headers: dict[str, Any], deadline: float) -> None:
        raw = self.message._raw_message
        driver = self.listener.driver
        with driver._get_connection(library.PURPOSE_SEND, retry=CONNECT_RETRIES) as connection:
            BoundedPublisher(connection, deadline, self.listener.largest_message).send(
                queue,
                raw.body,
                content_type=raw.content_type,
                content_encoding=raw.content_encoding,
                headers=headers,
            )

    def _send_until_confirmed(self, reply: Any, failure: Any) -> None:
        deadline = time.monotonic() + self.listener.driver.missing_destination_retry_timeout
        before = 0
        while self._obsolete_reply_queues.reply_q_valid(self.reply_q, self.msg_id):
            try:
                self._send_once(deadline, reply, failure)
            except PERMANENT:
                self._note_refusal(before)
                raise
            except messaging.MessageUndeliverable:
                self._note_refusal(before)
                if time.monotonic() >= deadline:
                    self._obsolete_reply_queues.add(self.reply_q, self.msg_id)
            except Exception:
                if time.monotonic() >= deadline:
                    raise
            else:
                return
            before = self.unrefused
            time.sleep(RETRY_INTERVAL)
        raise ReplyQueueMissing(f"reply queue {self.reply_q} does not exist")

    def _begin_reply(self, *, failed: bool) -> None:
        if self.delivery is not None:
            self.delivery.begin_reply(failed=failed)

    def _note_sent(self) -> None:
        self.unrefused += 1

    def _note_refusal(self, before: int) -> None:
        """Note that a reply was refused, perhaps before it was handed to the broker once more.

        Args:
            before: ``unrefused`` before the attempt.
        """
        self.unrefused = max(before, self.unrefused - 1)
        if self.delivery is not None and not self.may_be_delivered:
            self.delivery.withdraw_reply()

    def _send_once(self, deadline: float, reply: Any, failure: Any, ending: bool = True) -> None:
        driver = self.listener.driver

        def before_sending() -> None:
            if ending:
                self._begin_reply(failed=failure is not None)

        with driver._get_connection(library.PURPOSE_SEND, retry=CONNECT_RETRIES) as connection:
            largest = self.listener.largest_message
            sent = self._note_sent if ending else _do_nothing
            publisher = BoundedPublisher(connection, deadline, largest, before_sending, sent)
            self._send_reply(publisher, reply, failure, ending)


class Operations(amqpdriver.MessageOperationsHandler):
    """What the thread that reads from a connection does between two reads."""

    def __init__(self, name: str, each_time: Callable[[], None]) -> None:
        """Call a function beside the queued tasks."""
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
    """

    message_cls = ConfirmedMessage
    use_cache = False

    def __init__(self, driver: Any, connection: Any, largest_message: int) -> None:
        """Listen on a connection of the driver; the caller declares the queues."""
        super().__init__(driver, connection)
        self.largest_message = largest_message
        self.forwarding_queues: frozenset[str] = frozenset()
        self.on_stop: Callable[[], None] = _do_nothing
        self._message_operations_handler = Operations("LateListener", self._acknowledge_overdue)
        self._lock = threading.Lock()
        self._in_progress: dict[str, list[ConfirmedMessage]] = {}
        self._answered: TTLCache[str, bool] = TTLCache(MOST_ANSWERED, ANSWERED_TTL)
        self._stopping = False
        self._channel: Any = None
        self._channel_number = 0
        self._last_tag = 0
        self._overdue_checked = 0.0
        self._read_at = time.monotonic()

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
        if not message.get("_msg_id"):
            self._take_cast(message)
        elif self._stopping:
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
        """Return a call to the broker if this listener stops; whether that is so."""
        if not self._stopping:
            return False
        self.requeue(message)
        return True

    def requeue(self, message: ConfirmedMessage) -> None:
        """Return a call to the broker, however often it was delivered."""
        with self._lock:
            deliveries = self._in_progress.pop(message.unique_id, [message])
        for each in deliveries:
            self._message_operations_handler.do(lambda each=each: self._requeue(each))

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

    def _take_cast(self, message: Any) -> None:
        unique_id = message.get(library_amqp.UNIQUE_ID)
        super().__call__(message)  # acknowledges it
        self.msg_id_cache.add(unique_id)

    def _take_call(self, message: Any) -> None:
        amqpdriver.AMQPListener.__call__(self, message)
        call = self.incoming[-1]
        call.channel_number = self._number_of_channel(message._raw_message)
        call.received = time.monotonic()
        if not call.unique_id:
            return
        with self._lock:
            answered = call.unique_id in self._answered
            deliveries = self._in_progress.setdefault(call.unique_id, []) if not answered else []
            deliveries.append(call)
            is_first = len(deliveries) == 1 and not answered
        if not is_first:
            LOG.info("Call %s was delivered again while this process answers it", call.msg_id)
            self.incoming.pop()
        if answered:
            self._acknowledge(call)

    def _number_of_channel(self, raw: Any) -> int:
        """Return a number that is different for each channel: delivery tags begin anew on each."""
        if raw.channel is not self._channel or raw.delivery_tag <= self._last_tag:
            self._channel, self._channel_number = raw.channel, self._channel_number + 1
        self._last_tag = raw.delivery_tag
        return self._channel_number

    def _is_current(self, call: ConfirmedMessage) -> bool:
        # The broker delivers again what was not acknowledged on a channel that is closed.
        return call.channel_number == self._channel_number and self.conn.channel is self._channel

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
            LOG.info("Call %s could not be acknowledged: %s", call.msg_id, error)

    def _acknowledge_overdue(self) -> None:
        now = self._read_at = time.monotonic()
        if now < self._overdue_checked + 1.0:
            return
        self._overdue_checked = now
        with self._lock:
            calls = [call for calls in self._in_progress.values() for call in calls]
        for call in calls:
            if call.received + LONGEST_UNACKNOWLEDGED < now:
                self._acknowledge(call)

    def _cancel_consumers(self) -> None:
        for consumer, tag in self.conn._consumers.items():
            try:
                consumer.cancel(tag)
            except Exception as error:  # noqa: BLE001 - the connection is lost, and nothing is consumed
                LOG.info("A consumer could not be cancelled: %s", error)


def _do_nothing() -> None:
    """Return at once."""


def listen(
    transport: Any, target: messaging.Target, largest_message: int, priority: int = 0
) -> LateListener | None:
    """Return a listener for a server, on the queues of oslo.messaging's own.

    Args:
        transport: What ``transport.rpc_transport`` returned.
        target: Topic and server name.
        largest_message: Bytes of the largest reply.
        priority: Of this consumer among those of the topic; the broker's default is 0.

    Returns:
        The listener; None if the driver of the transport does not speak AMQP.
    """
    driver = transport._driver
    if not isinstance(driver, amqpdriver.AMQPDriverBase):
        return None
    connection = driver._get_connection(library.PURPOSE_LISTEN)
    listener = LateListener(driver, connection, largest_message)
    exchange = driver._get_exchange(target)
    for topic in (target.topic, f"{target.topic}.{target.server}"):
        connection.declare_topic_consumer(exchange_name=exchange, topic=topic, callback=listener)
    if priority:
        for consumer in connection._consumers:
            _prioritise(consumer, priority)
    connection.declare_fanout_consumer(target.topic, listener)
    return listener


def _prioritise(consumer: Any, priority: int) -> None:
    """Let a consumer consume with a priority; it makes its queue anew after each loss of the connection."""
    consume = consumer.consume

    def consume_with_priority(connection: Any, tag: Any) -> None:
        if connection.channel != consumer._declared_on:
            consumer.declare(connection)
        arguments = consumer.queue.consumer_arguments or {}
        consumer.queue.consumer_arguments = {**arguments, "x-priority": priority}
        consume(connection, tag)

    consumer.consume = consume_with_priority


def adapted(listener: LateListener) -> base.PollStyleListenerAdapter:
    """Return a listener in the form that a server of oslo.messaging uses: it starts its reading thread."""
    return base.PollStyleListenerAdapter(listener, 1, None)
