"""Calls that one scheduler sends on to another, which answers the caller.

::

    caller ──▶ scheduler (queue) ──▶ A ──▶ berth.HOST.N (queue) ──▶ B ──▶ reply queue of the caller
                     ▲                            │
                     └── not taken in 5 s  ───────┘

A call is forwarded as it was received, byte for byte: with its reply address, its context, and its timeouts.
So B answers the caller, and sends the heartbeats. A acknowledges the call once the broker has confirmed that
it is in the queue of B. A header says that it was forwarded, which is done once.

Each scheduler makes a queue of its own at its start. The broker moves a call that waits there for too
long, because B has died, back to the queue that A had it from, as it does with a call that B requeues because
B stops. Such a call counts as delivered before.
"""

from collections.abc import Callable
import secrets
import time

from oslo_log import log as logging
import oslo_messaging as messaging

from scheduler.logs import RateLimitedLogger
from scheduler.rpc.amqp.library import Consumer
from scheduler.rpc.amqp.listener import LateListener
from scheduler.rpc.amqp.message import DELIVERED_BEFORE, ConfirmedMessage
from scheduler.rpc.broker_errors import advice, refusal_in
from scheduler.rpc.calls import Forwarded, caller_may_have_left

LOG = logging.getLogger(f"nova.{__name__}")
_REPEATED = RateLimitedLogger(LOG)

#: The header of a call that was forwarded.
FORWARDED = "berth-forwarded"

#: Seconds in which the broker must confirm a call that is forwarded.
SEND_TIMEOUT = 3.0

#: Seconds that a call waits for the scheduler that it was forwarded to. A router that hears nothing for eight
#: seconds gives up the partition.
WAIT_LIMIT = 5.0

#: Seconds after which the queue of a scheduler that is gone is deleted; longer than a call waits there.
QUEUE_LIFETIME = 600

#: Characters of the name of a queue.
LONGEST_TOPIC = 255

#: A quorum queue keeps a call until the other queue has it.
_MOVE_BACK_SAFELY = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}


def new_topic(host: str) -> str:
    """Return a new topic for one scheduler of a host; "" if its name would be too long for a queue.

    Its queue is new, too: so the broker cannot refuse it because an older one has other options.
    """
    topic = f"berth.{host}.{secrets.randbits(32)}"
    return topic if len(topic.encode()) <= LONGEST_TOPIC else ""


def read_from(listener: LateListener, topic: str, back_to: str) -> bool:
    """Let a listener take calls that other schedulers send on; return whether the broker accepts the queue.

    Args:
        listener: It does not read yet.
        back_to: The queue to which calls are moved that are not taken in time.

    Raises:
        MessageDeliveryFailure: The broker refuses more than a queue.
    """
    try:
        listener.conn.declare_consumer(_consumer(listener, topic, back_to))
    except messaging.MessageDeliveryFailure as error:
        refusal = refusal_in(error)
        if refusal is None:
            raise
        LOG.warning("Other schedulers cannot forward calls to %s: %s", topic, advice(refusal))
        return False
    listener.deliveries.forwarding_queues |= {topic}
    return True


def _consumer(listener: LateListener, topic: str, back_to: str) -> Consumer:
    connection = listener.conn
    quorum = connection.rabbit_quorum_queue
    consumer = Consumer(
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


def forward(call: ConfirmedMessage, on_sent: Callable[[str], None], topic: str, reason: str) -> bool:
    """Forward a call to a topic, and acknowledge it.

    Args:
        call: The call; it is neither answered nor acknowledged yet.
        on_sent: Called with the reason if it was forwarded.
        topic: Where another scheduler takes calls.
        reason: Why, in one word.

    Returns:
        Whether the broker may have it there all the same. It is to be answered here.

    Raises:
        Forwarded: It was forwarded.
    """
    # The other scheduler does not know how long the call has waited here.
    again = caller_may_have_left(call, time.monotonic())
    try:
        call.forward(topic, {FORWARDED: True, DELIVERED_BEFORE: again}, SEND_TIMEOUT)
    except messaging.MessageUndeliverable:
        _REPEATED.warning(
            ("no queue", topic),
            "Serving call %s here: there is no queue %s",
            call.msg_id,
            topic,
        )
        return False
    except Exception as error:  # noqa: BLE001 - whatever the driver raises, the call is answered here
        _REPEATED.warning(
            ("cannot", topic),
            "Serving call %s here: cannot forward it to %s: %.300s",
            call.msg_id,
            topic,
            error,
        )
        return True
    LOG.info("Forwarded call %s to %s (%s)", call.msg_id, topic, reason)
    on_sent(reason)
    raise Forwarded(f"the call was sent to {topic}")
