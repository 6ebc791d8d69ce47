"""Copies of the requests that nova-scheduler serves: a queue of its own on the exchange of nova.

The exchange gives each request to all queues that are bound for its topic. The queue is exclusive: it ends
with its connection. It is bounded, and the oldest copies are dropped first: a slow shadow loses copies, never
the messages of the cloud.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import random
import struct
import threading
import time
import uuid

from amqp import exceptions as amqp_errors
from amqp.basic_message import Message
import kombu
from kombu import exceptions as kombu_errors
import orjson
from oslo_log import log as logging

from scheduler import objects
from scheduler.errors import BerthError, InvalidRequest
from scheduler.logs import OutageLog
from scheduler.rpc import wire
from scheduler.rpc.context import RequestContext
from scheduler.rpc.serializer import LARGEST_ARGUMENT, ObjectSerializer
from scheduler.stream.broker import BrokerHost

LOG = logging.getLogger(f"nova.{__name__}")

METHOD = "select_destinations"

#: Copies that wait in the queue, and the seconds after which one is dropped: then nova-scheduler has decided.
MOST_WAITING = 1000
LONGEST_WAIT = 60.0

#: Copies that the broker sends before they are acknowledged.
PREFETCH = 20

CONNECT_TIMEOUT = 5.0
RETRY_INTERVAL = 5.0
POLL_INTERVAL = 0.5

_AWAY = (amqp_errors.AMQPError, kombu_errors.KombuError, OSError, EOFError, BerthError)

#: What the AMQP library raises for a message that it cannot decode. The queue ends with the connection.
_MALFORMED = (ValueError, LookupError, struct.error)


@dataclass(frozen=True)
class Copy:
    """A request for hosts that nova-scheduler serves.

    Attributes:
        context: The request context of the caller.
        spec: The request.
        instance_uuids: The instances that hosts are claimed for.
        received_at: When the copy was received, in seconds of ``time.monotonic``.
    """

    context: RequestContext
    spec: objects.RequestSpec
    instance_uuids: tuple[str, ...]
    received_at: float


def read_copy(body: bytes | str, now: float) -> Copy | None:
    """Return the request of a message; None if it is another call, or claims nothing.

    Raises:
        ValueError: It cannot be read.
    """
    try:
        envelope = orjson.loads(body)
        message = orjson.loads(envelope["oslo.message"])
        if message.get("method") != METHOD:
            return None
        arguments, context = message["args"], wire.read(message).context
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a message is not one of oslo.messaging: {error!r}") from error
    if "spec_obj" not in arguments or not arguments.get("instance_uuids"):
        return None
    serializer = ObjectSerializer(LARGEST_ARGUMENT)
    caller = serializer.deserialize_context(context)
    try:
        spec = serializer.deserialize_entity(caller, arguments["spec_obj"])
    except InvalidRequest as error:
        raise ValueError(f"a request cannot be read: {error}") from None
    if not isinstance(spec, objects.RequestSpec):
        raise ValueError("a request cannot be read: no RequestSpec")  # noqa: TRY004 - as for JSON
    if spec.is_rebuild:
        return None
    return Copy(caller, spec, tuple(arguments["instance_uuids"]), now)


class Copies:
    """Receives copies, in the thread that calls ``run``."""

    def __init__(
        self,
        hosts: Sequence[BrokerHost],
        exchange: str,
        topic: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Connect to nothing yet.

        Args:
            exchange: The exchange of nova's calls, ``[DEFAULT] control_exchange``.
        """
        self._hosts = hosts
        self._exchange = exchange
        self._topic = topic
        self._clock = clock
        self._stopped = threading.Event()
        self._outage = OutageLog(
            LOG, "Cannot receive copies of requests", "Copies of requests are received again"
        )

    def stop(self) -> None:
        """Let ``run`` return."""
        self._stopped.set()

    def run(self, take: Callable[[Copy], None]) -> None:
        """Receive copies until ``stop``; while the broker is away, try again.

        Args:
            take: Called with each copy, in this thread.
        """
        while not self._stopped.is_set():
            for host in random.sample(self._hosts, len(self._hosts)):
                try:
                    with host.connect(CONNECT_TIMEOUT) as connection:
                        self._receive(connection, take)
                except (*_AWAY, *_MALFORMED) as error:
                    self._outage.report_failure(error)
                if self._stopped.is_set():
                    return
            self._stopped.wait(RETRY_INTERVAL)

    def _receive(self, connection: kombu.Connection, take: Callable[[Copy], None]) -> None:
        channel, queue = connection.channel(), f"berth-shadow.{uuid.uuid4().hex}"
        arguments = {
            "x-max-length": MOST_WAITING,
            "x-overflow": "drop-head",
            "x-message-ttl": int(LONGEST_WAIT * 1000),
        }
        channel.queue_declare(queue, exclusive=True, auto_delete=False, arguments=arguments)
        # The exchange is nova's: it is used as it is, whatever its properties.
        channel.queue_bind(queue, self._exchange, self._topic)
        self._outage.report_success()
        LOG.info("Receiving copies of requests on %s in queue %s", self._topic, queue)

        def receive(message: Message) -> None:
            try:
                copy = read_copy(message.body, self._clock())
            except ValueError as error:
                LOG.warning("Skipped a copy of a request: %s", error)
            else:
                if copy is not None:
                    take(copy)
            channel.basic_ack(message.delivery_tag)

        # Messages of the AMQP library: those of kombu would decompress whatever was sent, without a bound
        channel.basic_qos(0, PREFETCH, False)
        channel.basic_consume(queue, callback=receive)
        while not self._stopped.is_set():
            try:
                connection.drain_events(timeout=POLL_INTERVAL)
            except TimeoutError:
                connection.heartbeat_check()
