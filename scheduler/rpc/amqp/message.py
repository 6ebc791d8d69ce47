"""One received call, and its reply, which the broker confirms."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
import time
from types import TracebackType

from amqp import Channel
from amqp import exceptions as amqp
import kombu
from oslo_log import log as logging
import oslo_messaging as messaging

from scheduler.request.past import Past
from scheduler.rpc.amqp import library
from scheduler.rpc.amqp.publisher import BoundedPublisher, ReplyTooLarge
from scheduler.rpc.calls import State

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between two attempts to send a reply.
RETRY_INTERVAL = 0.25

#: Seconds that sending one heartbeat to a caller may take.
HEARTBEAT_TIMEOUT = 10.0

#: Seconds that an answer of the broker to a question about a queue may take.
LOOK_TIMEOUT = 5.0

PERSISTENT, TRANSIENT = kombu.Exchange.PERSISTENT_DELIVERY_MODE, kombu.Exchange.TRANSIENT_DELIVERY_MODE

#: Seconds in which the broker must confirm a call that is put into its queue once more.
SEND_TIMEOUT = 3.0

#: Headers of a call that was delivered before, to this scheduler or another one: its sender says so, or a
#: scheduler that put it into the queue once more. The second one says how many of its runs had no end.
DELIVERED_BEFORE = "berth-redelivered"
RUNS = "berth-runs"


Raised = tuple[type[BaseException], BaseException, TracebackType | None]
"""An error as oslo.messaging sends it: what ``sys.exc_info`` returns."""


class ReplyQueueMissing(Exception):
    """The reply queue of the caller does not exist."""


#: Errors that another attempt to send the same reply would meet again: its size, or what cannot be JSON.
PERMANENT = (ReplyTooLarge, TypeError, ValueError)


class ConfirmedMessage(library.Call):
    """A call whose reply is confirmed by the broker.

    Attributes:
        undelivered: Why the last reply was not delivered; None if it was, or if none was sent.
        may_be_delivered: Whether an attempt to send the last reply ended without a confirmation. It is sent
            again then: even if the broker refuses it now, its caller may have it.
        channel_number: Which of the listener's successive channels the message came from.
        priority: With which priority the listener consumed then.
        received: When it was received; seconds of ``time.monotonic``.
        state: Where it is between its receipt and its end.
        replying_since: When its last reply began to be sent; 0 before that.
    """

    undelivered: Exception | None = None
    may_be_delivered = False
    channel_number = 0
    priority = 0
    received = 0.0
    state = State.WAITS_FOR_THREAD
    _past = Past.NONE
    replying_since = 0.0

    @property
    def headers(self) -> Mapping[str, object]:
        """What its sender, or a scheduler that has published it once more, has written on the message."""
        return library.raw_of(self.message).headers or {}

    @property
    def redelivered(self) -> bool:
        """Whether it was delivered before, as the broker or its sender says."""
        return self.is_redelivery or bool(self.headers.get(DELIVERED_BEFORE))

    @property
    def is_redelivery(self) -> bool:
        """Whether the last scheduler that had it neither answered nor requeued it, as one that is killed."""
        return bool(library.raw_of(self.message).delivery_info.get("redelivered"))

    @property
    def runs(self) -> int:
        """How many schedulers had it before, and neither answered nor requeued it."""
        counted = self.headers.get(RUNS)
        return (counted if isinstance(counted, int) else 0) + self.is_redelivery

    @property
    def is_lost(self) -> bool:
        """Whether the broker has it again, since the connection was lost: it is delivered once more."""
        return bool(self.listener.deliveries.is_lost(self))

    def note_receipt(self, received: float, *, was_queued: bool) -> None:
        """Note when it was received.

        Args:
            was_queued: Whether it may have been in the queue when this process began to read from it, or
                while this process was frozen.
        """
        self.received = received
        self._past = Past.REDELIVERED if self.redelivered else Past.QUEUED if was_queued else Past.NONE

    @property
    def past(self) -> Past:
        """Whether it may have been run before, or its caller may have left while nobody received it."""
        if not self._past and not self.listener.deliveries.is_held(self):
            self._past = Past.LOST
        return self._past

    def reply(self, reply: object = None, failure: Raised | None = None) -> None:
        """Send a reply and wait until the broker has confirmed it. Never raises; see ``undelivered``."""
        self.undelivered, self.may_be_delivered = None, False
        self.replying_since = time.monotonic()
        if not self.orig_msg_id:
            return
        try:
            self._send_until_confirmed(reply, failure)
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, the reply was not delivered
            self.undelivered = error

    @property
    def is_unconfirmed(self) -> bool:
        """Whether the caller may have the last reply, which is undelivered, or could not be reached."""
        refused = isinstance(self.undelivered, (*PERMANENT, ReplyQueueMissing))
        return self.may_be_delivered or not refused

    @property
    def can_be_requeued(self) -> bool:
        """Whether it is delivered again if it is returned: it was not acknowledged, not even as overdue."""
        return bool(self.listener.deliveries.can_requeue(self))

    @property
    def outranked(self) -> bool:
        """Whether its listener consumes with a lower priority now than when it received the message."""
        return bool(self.priority > self.listener.priority)

    def heartbeat(self) -> None:
        """Send a heartbeat, in ``HEARTBEAT_TIMEOUT`` seconds; raises if it cannot be sent."""
        self._send_once(time.monotonic() + HEARTBEAT_TIMEOUT, None, None, ending=False)

    def has_reply_queue(self) -> bool:
        """Return whether the reply queue exists; raises if the broker does not answer."""
        try:
            with private_channel(self.listener.driver) as channel:
                channel.queue_declare(self.reply_q, passive=True)
        except amqp.NotFound:
            return False
        except amqp.ChannelError:  # it may not be looked at
            return True
        return True

    def settle(self) -> None:
        """Acknowledge the message after its reply, or because it cannot be answered."""
        self.state = State.OVER
        self.listener.deliveries.settle(self)

    def requeue(self) -> None:
        """Let it be delivered again, as a call that this scheduler has ended properly."""
        if not self.publish_again():
            self.state = State.OVER
            self.listener.deliveries.requeue(self)

    def publish_again(self) -> bool:
        """Put the message into its queue once more, with its runs so far, and acknowledge it after that.

        The broker does not count by itself how often a call was delivered, in all kinds of queues.

        Returns:
            Whether the broker has confirmed it. If not, it may be in the queue all the same; here it is as
            before, neither answered nor acknowledged.
        """
        if self.is_lost or not self.can_be_requeued:
            return False
        try:
            self.listener.deliveries.hand_over(self, self._publish_again)
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, the broker has the call
            LOG.info("Cannot put call %s into its queue once more: %.300s", self.msg_id, error)
            return False
        self.state = State.OVER
        return True

    def _publish_again(self) -> None:
        raw, driver = library.raw_of(self.message), self.listener.driver
        deadline = time.monotonic() + SEND_TIMEOUT
        queue, headers = raw.delivery_info["routing_key"], {DELIVERED_BEFORE: True, RUNS: self.runs}
        with library.connection_to_send(driver) as connection:
            BoundedPublisher(connection, deadline, self.listener.largest_message).send(
                queue,
                raw.body,
                content_type=raw.content_type,
                content_encoding=raw.content_encoding,
                headers=headers,
                delivery_mode=PERSISTENT if connection.durable else TRANSIENT,
            )

    def _send_until_confirmed(self, reply: object, failure: Raised | None) -> None:
        deadline = time.monotonic() + self.listener.driver.missing_destination_retry_timeout
        while True:
            try:
                self._send_once(deadline, reply, failure)
                return
            except PERMANENT:
                raise
            except messaging.MessageUndeliverable:
                raise ReplyQueueMissing(f"reply queue {self.reply_q} does not exist") from None
            except Exception:
                self._note_unconfirmed()
                if time.monotonic() >= deadline:
                    raise
            time.sleep(RETRY_INTERVAL)

    def _note_unconfirmed(self) -> None:
        self.may_be_delivered = True

    def _send_once(self, deadline: float, reply: object, failure: Raised | None, ending: bool = True) -> None:
        hooks: dict[str, Callable[[], None]] = {"on_failure": self._note_unconfirmed} if ending else {}
        driver = self.listener.driver
        with library.connection_to_send(driver) as connection:
            publisher = BoundedPublisher(connection, deadline, self.listener.largest_message, **hooks)
            self.send_reply(publisher, reply, failure, ending)


@contextmanager
def private_channel(driver: library.AMQPDriverBase) -> Iterator[Channel]:
    """Give a channel for a question to the broker, which a refusal ends.

    On a channel that is used for more, what was received there would be delivered again.
    """
    with library.connection_to_send(driver) as connection:
        broker = library.broker_of(connection)
        with (
            library.lock_of(connection),
            broker.connection.transport.having_timeout(LOOK_TIMEOUT),
            broker.channel() as channel,
        ):
            yield channel
