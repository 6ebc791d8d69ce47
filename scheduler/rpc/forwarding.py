"""Calls that one scheduler sends on to another, which answers the caller.

::

    caller ──▶ scheduler (queue) ──▶ A ──▶ berth.HOST.0 (queue) ──▶ B ──▶ reply queue of the caller
                     ▲                            │
                     └── not taken in 10 s ───────┘

A call is sent on as it was received, byte for byte: with its reply address, its context, and its timeouts.
So B answers the caller, and sends the heartbeats. A acknowledges the call once the broker has confirmed that
it is in the queue of B. A header says that it was sent on, which is done once.

Each worker has a queue of its own. A call that waits there for too long, because B has died, is moved back to
the queue that A had it from by the broker. So is one that B returns because it stops. What came back counts
as delivered before.

This module uses private names of oslo.messaging; ``tests/unit/rpc/test_forwarding.py`` lists them.
"""

from collections.abc import Callable
from functools import partial
import time

from oslo_log import log as logging
import oslo_messaging as messaging
from oslo_messaging._drivers import impl_rabbit

from scheduler.background import BackgroundLoop
from scheduler.logs import RateLimitedLogger
from scheduler.rpc.amqp.listener import LateListener
from scheduler.rpc.amqp.message import DELIVERED_BEFORE, ConfirmedMessage, private_channel
from scheduler.rpc.broker_errors import advice, refusal_in
from scheduler.rpc.delivery import Sent

LOG = logging.getLogger(__name__)

#: The header of a call that was sent on.
FORWARDED = "berth-forwarded"

#: Seconds in which the broker must confirm a call that is sent on.
SEND_TIMEOUT = 3.0

#: Seconds for which nothing is sent to a topic that could not be reached.
AVOIDED_FOR = 15.0

#: Seconds that a call waits for the scheduler that it was sent on to. Some callers wait for sixty.
WAIT_LIMIT = 10.0

#: Seconds after which the queue of a scheduler that is gone is deleted; longer than a call waits there.
QUEUE_LIFETIME = 600

#: Seconds after which a queue is tried again that the broker has refused.
RETRY_INTERVAL = 60.0

#: Characters of the name of a queue.
LONGEST_TOPIC = 255

#: A quorum queue keeps a call until the other queue has it.
_MOVE_BACK_SAFELY = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}


def topic_of(host: str, worker: int) -> str:
    """Return the topic of one worker of a daemon; "" if its name would be too long for a queue."""
    topic = f"berth.{host}.{worker}"
    return topic if len(topic.encode()) <= LONGEST_TOPIC else ""


class ForwardingQueue:
    """The queue from which a worker takes calls that other schedulers send on.

    One that the broker refuses may have been made with other options. It is tried again, as an operator may
    delete it, and as the broker does so once it was not used for ``QUEUE_LIFETIME``.
    """

    def __init__(
        self, listener: LateListener, name: str, back_to: str, announce: Callable[[bool], None]
    ) -> None:
        """Read from no queue yet.

        Args:
            listener: Reads from it, beside the queues that it reads from already.
            name: Its name.
            back_to: The queue to which calls are moved that are not taken in time.
            announce: Called with whether calls are taken from it. Must not wait.
        """
        self._listener = listener
        self._name = name
        self._back_to = back_to
        self._announce = announce
        self._retries = BackgroundLoop("forwarding-queue", self._try_again)

    def start(self) -> None:
        """Read from the queue if the broker accepts it, once the listener reads; or else try it again.

        Raises:
            MessageDeliveryFailure: The broker refuses more than a queue.
        """
        accepted = self._declare()
        self._announce(accepted)
        if not accepted:
            self._retries.start(RETRY_INTERVAL)

    def stop(self) -> None:
        """Announce that no more calls are taken, without a wait."""
        self._retries.stop(0)
        self._announce(False)

    def _declare(self) -> bool:
        try:
            self._listener.conn.declare_consumer(_consumer(self._listener, self._name, self._back_to))
        except messaging.MessageDeliveryFailure as error:
            refusal = refusal_in(error)
            if refusal is None:
                raise
            LOG.warning(
                "Other schedulers cannot forward calls to %s; trying again every %g s: %s",
                self._name,
                RETRY_INTERVAL,
                advice(refusal),
            )
            return False
        self._listener.forwarding_queues |= {self._name}
        return True

    def _try_again(self) -> float:
        consumer = _consumer(self._listener, self._name, self._back_to)
        if _is_accepted(self._listener, consumer):
            LOG.info("Other schedulers can forward calls to %s now", self._name)
            self._listener.forwarding_queues |= {self._name}
            self._listener.read_also(consumer, partial(self._announce, True))
            self._retries.stop(0)
        return RETRY_INTERVAL


def _is_accepted(listener: LateListener, consumer: impl_rabbit.Consumer) -> bool:
    """Return whether the broker makes a queue, or has it already."""
    try:
        with private_channel(listener.driver) as channel:
            channel.queue_declare(
                consumer.queue_name,
                durable=consumer.durable,
                auto_delete=consumer.queue_auto_delete,
                arguments=consumer.queue_arguments,
            )
    except Exception as error:  # noqa: BLE001 - it refuses, or cannot be reached: it is tried again
        LOG.debug("Cannot declare queue %s: %s", consumer.queue_name, error)
        return False
    return True


def _consumer(listener: LateListener, topic: str, back_to: str) -> impl_rabbit.Consumer:
    connection = listener.conn
    quorum = connection.rabbit_quorum_queue
    consumer = impl_rabbit.Consumer(
        exchange_name="",
        queue_name=topic,
        routing_key=topic,
        type="direct",
        durable=True,
        exchange_auto_delete=False,
        queue_auto_delete=False,
        callback=listener,
        rabbit_ha_queues=connection.rabbit_ha_queues,
        rabbit_queue_ttl=QUEUE_LIFETIME,
        enable_cancel_on_failover=connection.enable_cancel_on_failover,
        rabbit_quorum_queue=quorum,
        rabbit_quorum_queue_config=connection.rabbit_quorum_queue_config,
    )
    consumer.queue_arguments |= {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": back_to,
        "x-message-ttl": int(WAIT_LIMIT * 1000),
        **(_MOVE_BACK_SAFELY if quorum else {}),
    }
    return consumer


class Forwarder:
    """Sends calls on. Any thread may use it."""

    def __init__(
        self,
        on_sent: Callable[[str], None] = lambda _reason: None,
        timeout: float = SEND_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Avoid no topic yet.

        Args:
            on_sent: Called with the reason for each call that was sent on.
            timeout: Seconds in which the broker must confirm a call.
            clock: Seconds that only grow.
        """
        self._on_sent = on_sent
        self._timeout = timeout
        self._clock = clock
        self._avoided_until: dict[str, float] = {}
        self._warnings = RateLimitedLogger(LOG, clock=clock)

    def forward(self, call: ConfirmedMessage, topic: str, reason: str) -> Sent:
        """Send a call on to a topic, and acknowledge it. Takes ``timeout`` seconds, or little more.

        Args:
            call: The call; it is neither answered nor acknowledged yet.
            topic: Where another scheduler, or one of several, takes calls.
            reason: Why, in one word.

        Returns:
            What became of it. Unless it was sent, it is to be answered here.
        """
        if self._clock() < self._avoided_until.get(topic, 0.0):
            return Sent.NO
        try:
            call.send_on(topic, {FORWARDED: True, DELIVERED_BEFORE: call.has_past}, self._timeout)
        except messaging.MessageUndeliverable:
            return self._fail(topic, Sent.NO, "there is no such queue")
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, the call is answered here
            return self._fail(topic, Sent.UNKNOWN, str(error) or type(error).__name__)
        LOG.info("Forwarded call %s to %s (%s)", call.msg_id, topic, reason)
        self._on_sent(reason)
        return Sent.YES

    def _fail(self, topic: str, outcome: Sent, why: str) -> Sent:
        self._avoided_until[topic] = self._clock() + AVOIDED_FOR
        self._warnings.warning(topic, "Cannot forward calls to %s; serving them here: %.300s", topic, why)
        return outcome
