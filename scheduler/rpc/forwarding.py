"""Calls that one scheduler sends on to another, which answers the caller.

::

    caller ──▶ scheduler (queue) ──▶ A ──▶ berth.HOST.0 (queue) ──▶ B ──▶ reply queue of the caller
                     ▲                            │
                     └── not taken in 10 s ───────┘

A call is sent on as it was received, byte for byte: with its reply address, its context, and its timeouts.
So B answers the caller, and sends the heartbeats. A acknowledges the call once the broker has confirmed that
it is in the queue of B. What was tried already is noted in a header, which no service of nova reads, and so
are the seconds that it took: the caller's patience is one for all schedulers that have the call. Seconds and
not a moment, as the clocks of machines differ.

Each worker has a queue of its own. A call that waits there for too long, because B has died, is moved back to
the queue of all schedulers by the broker. So is one that B returns because it stops. What came back counts as
delivered before, and its header says what it is not sent on for again.

This module uses private names of oslo.messaging; ``tests/unit/rpc/test_forwarding.py`` lists them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
import time
from typing import Any

from oslo_log import log as logging
import oslo_messaging as messaging
from oslo_messaging._drivers import impl_rabbit

from scheduler.background import BackgroundLoop
from scheduler.logs import RateLimitedLogger
from scheduler.rpc.amqp.listener import LateListener
from scheduler.rpc.amqp.message import DELIVERED_BEFORE, RETURNED, ConfirmedMessage, private_channel
from scheduler.rpc.broker_errors import advice, refusal_in
from scheduler.rpc.delivery import Sent
from scheduler.rpc.transport import TOPIC

LOG = logging.getLogger(__name__)

#: The header with what was tried.
TRIED = "berth-tried"

#: The header with the seconds since the first scheduler received the call, as far as they are known.
SPENT = "berth-spent"

#: Seconds above which such a header is ignored; longer than callers wait.
MOST_SPENT = 86400.0

#: Entries of the first header, and characters of one. A call leaves up to three in each partition.
MOST_TRIED = 128
LONGEST_ENTRY = 255

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

_MOVE_BACK = {
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": TOPIC,
    "x-message-ttl": int(WAIT_LIMIT * 1000),
}
#: A quorum queue keeps a call until the other queue has it.
_MOVE_BACK_SAFELY = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}


def topic_of(host: str, worker: int) -> str:
    """Return the topic of one worker of a daemon; "" if its name would be too long for a queue."""
    topic = f"berth.{host}.{worker}"
    return topic if len(topic.encode()) <= LONGEST_TOPIC else ""


class ForwardingQueues:
    """The queues from which a worker takes calls that other schedulers send on.

    One that the broker refuses may have been made with other options. It is tried again, as an operator may
    delete it, and as the broker does so once it was not used for ``QUEUE_LIFETIME``.
    """

    def __init__(
        self, listener: LateListener, topics: Sequence[str], announce: Callable[[bool], None]
    ) -> None:
        """Read from no queue yet.

        Args:
            listener: Reads from them, beside the queues that it reads from already.
            topics: The topics; the queue of each has its name.
            announce: Called with whether calls are taken from all of them. Must not wait.
        """
        self._listener = listener
        self._refused = list(topics)
        self._announce = announce
        self._retries = BackgroundLoop("forwarding-queues", self._try_again)

    def start(self) -> None:
        """Read from the queues that the broker accepts, once the listener reads; try the others again.

        Raises:
            MessageDeliveryFailure: The broker refuses more than a queue.
        """
        self._refused = [topic for topic in self._refused if not self._declare(topic)]
        self._announce(not self._refused)
        if self._refused:
            self._retries.start(RETRY_INTERVAL)

    def stop(self) -> None:
        """Announce that no more calls are taken, without a wait."""
        self._retries.stop(0)
        self._announce(False)

    def _declare(self, topic: str) -> bool:
        try:
            self._listener.conn.declare_consumer(_consumer(self._listener, topic))
        except messaging.MessageDeliveryFailure as error:
            refusal = refusal_in(error)
            if refusal is None:
                raise
            LOG.warning(
                "Other schedulers cannot send calls on to %s; it is tried again every %g s: %s",
                topic,
                RETRY_INTERVAL,
                advice(refusal),
            )
            return False
        self._note(topic)
        return True

    def _note(self, topic: str) -> None:
        self._listener.forwarding_queues |= {topic}

    def _try_again(self) -> float:
        for topic in list(self._refused):
            consumer = _consumer(self._listener, topic)
            if not _is_accepted(self._listener, consumer):
                continue
            LOG.info("Other schedulers can send calls on to %s now", topic)
            self._note(topic)
            self._refused.remove(topic)
            self._listener.read_also(consumer, partial(self._announce, not self._refused))
        if not self._refused:
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
        LOG.debug("Queue %s cannot be made: %s", consumer.queue_name, error)
        return False
    return True


def _consumer(listener: LateListener, topic: str) -> impl_rabbit.Consumer:
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
    consumer.queue_arguments |= {**_MOVE_BACK, **(_MOVE_BACK_SAFELY if quorum else {})}
    return consumer


def tried(headers: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what was tried for a call, as its headers say; anyone on the bus can write them."""
    found = headers.get(TRIED)
    if not isinstance(found, (list, tuple)):
        return ()
    return tuple(entry[:LONGEST_ENTRY] for entry in found[:MOST_TRIED] if isinstance(entry, str))


def spent(headers: Mapping[str, Any]) -> float:
    """Return the seconds that a call took before it was received here, as its headers say.

    What it waited in the queue of a scheduler that did not take it is among them, as the broker notes that.
    Anyone on the bus can write both; what makes no sense counts as nothing.
    """
    told = headers.get(SPENT)
    if not isinstance(told, (int, float)) or isinstance(told, bool) or not 0 <= told <= MOST_SPENT:
        told = 0.0
    return told + WAIT_LIMIT * _times_expired(headers.get(RETURNED))


def _times_expired(moves: Any) -> int:
    """Return how often a call was moved since it was not taken in time, of what the broker notes of moves."""
    counts = [
        move.get("count")
        for move in (moves if isinstance(moves, (list, tuple)) else ())
        if isinstance(move, dict) and move.get("reason") == "expired"
    ]
    times = sum(count for count in counts if isinstance(count, int) and count > 0)
    return times if times <= MOST_TRIED else 0


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

    def forward(self, call: ConfirmedMessage, topic: str, reason: str, tried: Sequence[str]) -> Sent:
        """Send a call on to a topic, and acknowledge it. Takes ``timeout`` seconds, or little more.

        Args:
            call: The call; it is neither answered nor acknowledged yet.
            topic: Where another scheduler, or one of several, takes calls.
            reason: Why, in one word.
            tried: What was tried for the call, this included.

        Returns:
            What became of it. Unless it was sent, it is to be answered here.
        """
        if self._clock() < self._avoided_until.get(topic, 0.0) or len(tried) > MOST_TRIED:
            return Sent.NO
        headers = {
            TRIED: [entry[:LONGEST_ENTRY] for entry in tried],
            DELIVERED_BEFORE: call.has_past,
            SPENT: self._clock() - call.received + spent(call.headers),
        }
        try:
            call.send_on(topic, headers, self._timeout)
        except messaging.MessageUndeliverable:
            return self._fail(topic, Sent.NO, "there is no such queue")
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, the call is answered here
            return self._fail(topic, Sent.UNKNOWN, str(error) or type(error).__name__)
        LOG.info("Call %s was sent on to %s (%s)", call.msg_id, topic, reason)
        self._on_sent(reason)
        return Sent.YES

    def _fail(self, topic: str, outcome: Sent, why: str) -> Sent:
        self._avoided_until[topic] = self._clock() + AVOIDED_FOR
        self._warnings.warning(
            topic, "Calls cannot be sent on to %s and are answered here: %.300s", topic, why
        )
        return outcome
