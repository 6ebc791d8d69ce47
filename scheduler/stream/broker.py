"""Connections to the stream on the broker of the RPC transport.

oslo.messaging says where the broker is and how connections are secured: each host of the transport URL is
connected to as that library connects to a URL of this host alone. So the certificate of a broker is checked
against the name of its own host also where there are several.

What the library keeps private and is used here is listed in ``tests/unit/stream/test_broker.py``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
import random
import struct
import threading
from typing import Any

from amqp import exceptions as amqp_errors
from amqp.basic_message import Message
from kombu import exceptions as kombu_errors
from oslo_config import cfg
from oslo_messaging import InvalidTransportURL, TransportURL
from oslo_messaging._drivers import common, impl_rabbit

from scheduler.errors import BerthError, ConfigError

QUEUE = "berth.decisions"
"""The stream of the decisions of all schedulers of a virtual host; see ``stream_of``."""

#: The age covers what a subscription reads again, ``reader.REPLAYED``. The broker removes whole segments, and
#: only when it begins the next one: with large ones the records of an idle scheduler would stay for days, and
#: count as ready messages.
ARGUMENTS = {
    "x-queue-type": "stream",
    "x-max-age": "10m",
    "x-max-length-bytes": 64_000_000,
    "x-stream-max-segment-size-bytes": 100_000,
}

#: Messages that the broker sends before they are acknowledged, and how many are acknowledged at once.
PREFETCH = 500
ACKNOWLEDGE_EVERY = 100

#: Bytes that are read from the socket at once. The AMQP library reads six times for a message, which is half
#: of the CPU that a replay takes.
READ_AHEAD = 16 << 10

#: Seconds in which a connection must be made, and those in which the broker must confirm a message. A stream
#: with most replicas unavailable confirms nothing.
CONNECT_TIMEOUT = 5.0
CONFIRM_TIMEOUT = 5.0

GROUP = "oslo_messaging_rabbit"

#: AMQP reply codes of a broker that has no streams, or does not let this user have this one: access refused,
#: precondition failed, not allowed, not implemented.
REFUSALS = frozenset({403, 406, 530, 540})

#: What kombu and what is below it raise if a broker is away, refuses something or does not answer in time.
_FAILURES = (amqp_errors.AMQPError, kombu_errors.KombuError, OSError, EOFError)


def stream_of(partition: str) -> str:
    """Return the stream of a partition; "" for schedulers of all hosts."""
    return f"{QUEUE}.{partition}" if partition else QUEUE


class StreamUnavailable(BerthError):
    """The stream cannot be read or written now.

    Attributes:
        refused: Whether the broker refuses, and will not do otherwise by itself.
    """

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


class UnreadableMessage(StreamUnavailable):
    """The AMQP library cannot decode a message. Read again, it would fail again."""


class _Unconnected(impl_rabbit.Connection):
    """oslo.messaging's connection, for its ``connection`` of kombu; the library would connect at once."""

    def ensure_connection(self) -> None:
        """Leave that to ``BrokerHost.connect``, which has a time limit."""


@dataclass(frozen=True, slots=True)
class BrokerHost:
    """One host of the broker.

    Attributes:
        name: Its name and port in the transport URL.
        settings: A connection of kombu with the options of oslo.messaging, never connected.
    """

    name: str
    settings: Any = field(repr=False)

    def __str__(self) -> str:
        return self.name

    def connect(self, timeout: float, purpose: str = "", **transport_options: Any) -> Any:
        """Return a connection of kombu.

        Args:
            timeout: Seconds in which it must be made.
            purpose: What the broker shows as the name of the connection.

        Raises:
            StreamUnavailable: It cannot be made in that time.
        """
        options = self.settings.transport_options | transport_options
        if purpose:
            options["client_properties"] = options["client_properties"] | {"connection_name": purpose}
        connection = self.settings.clone(connect_timeout=timeout, transport_options=options)
        with _as_unavailable(self):
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=timeout)
        return connection


def broker_hosts(conf: cfg.ConfigOpts) -> tuple[BrokerHost, ...]:
    """Return the hosts of ``[DEFAULT] transport_url``; none if its transport is not RabbitMQ.

    Raises:
        ConfigError: The transport URL or the options of oslo.messaging cannot be used.
    """
    try:
        url = TransportURL.parse(conf)
        if url.transport not in {"rabbit", "amqp"}:
            return ()
        options = common.ConfigOptsProxy(conf, url, GROUP)
        return tuple(_host(url, options, [host]) for host in url.hosts) or (_host(url, options, []),)
    except RuntimeError as error:  # of an option, which the text names
        raise ConfigError(f"[{GROUP}] cannot be used: {error}") from None
    except (InvalidTransportURL, ValueError) as error:
        # their texts may contain parts of the URL
        raise ConfigError(
            f"[DEFAULT]/transport_url cannot be used for the decision stream ({type(error).__name__})"
        ) from None


def _host(url: TransportURL, options: Any, hosts: list[Any]) -> BrokerHost:
    alone = TransportURL(url.conf, url.transport, url.virtual_host, hosts, query=url.query)
    settings = _Unconnected(options, alone, common.PURPOSE_LISTEN).connection
    return BrokerHost(f"{settings.hostname}:{settings.port}", settings)


def why_unavailable(hosts: Sequence[BrokerHost], timeout: float) -> str:
    """Return why no host can be used; "" if one can. A connection may take ``timeout`` seconds."""
    reasons = []
    for host in hosts:
        try:
            host.connect(timeout).release()
        except StreamUnavailable as error:
            reasons.append(str(error))
        else:
            return ""
    return "; ".join(reasons)


@contextmanager
def _as_unavailable(host: BrokerHost) -> Iterator[None]:
    try:
        yield
    except StreamUnavailable:
        raise
    except _FAILURES as error:
        text = str(error).partition("\n")[0] or type(error).__name__
        refused = getattr(error, "reply_code", None) in REFUSALS
        raise StreamUnavailable(f"broker {host}: {text}", refused=refused) from error


class StreamConnection:
    """A connection to the stream on one host, for one thread.

    Its methods raise ``StreamUnavailable`` if the broker refuses what is asked, or has not answered in time.
    """

    def __init__(self, connection: Any, host: BrokerHost, queue: str = QUEUE) -> None:
        """Use a connection of kombu; ``declare`` first, and ``subscribe`` before ``receive``."""
        self.host = host
        self._queue = queue
        self._connection = connection
        self._channel: Any = None
        self._unacknowledged = 0
        self._received: Any = None

    def declare(self) -> None:
        """Create the stream, or accept the one that exists with other arguments."""
        with _as_unavailable(self.host):
            self._channel = self._connection.channel()
            try:
                self._channel.queue_declare(
                    self._queue, durable=True, exclusive=False, auto_delete=False, arguments=dict(ARGUMENTS)
                )
            except amqp_errors.PreconditionFailed:
                self._channel = self._connection.channel()
                self._channel.queue_declare(self._queue, passive=True)

    def publish(self, body: bytes) -> None:
        """Write a message, and wait until the broker has confirmed it."""
        message = Message(body, content_type="application/json", delivery_mode=2)
        with _as_unavailable(self.host):
            self._channel.basic_publish(
                message, exchange="", routing_key=self._queue, mandatory=True, confirm_timeout=CONFIRM_TIMEOUT
            )

    def subscribe(self, offset: str) -> None:
        """Begin to read; ``receive`` returns the messages.

        The callback gets the message of the AMQP library. One of kombu would decompress, without a bound,
        what any service of the bus has sent.

        Args:
            offset: Where to begin, such as "5m" for what was written in the last five minutes, or "next".
        """
        where = {"x-stream-offset": offset}
        with _as_unavailable(self.host):
            self._channel.basic_qos(0, PREFETCH, False)
            self._channel.basic_consume(self._queue, callback=self._receive, arguments=where)
            transport = self._connection.connection.transport
            # more than the library wants, which keeps the rest for the next time
            read = transport._quick_recv  # noqa: SLF001
            transport._quick_recv = lambda _size: read(READ_AHEAD)  # noqa: SLF001

    def receive(self, timeout: float) -> bytes | str | None:
        """Return the body of the next message; None if none arrives in time, or something else does.

        Raises:
            UnreadableMessage: The library cannot decode a message.
        """
        self._received = None
        with _as_unavailable(self.host):
            try:
                self._connection.drain_events(timeout=timeout)
            except TimeoutError:
                return None
            except (ValueError, LookupError, struct.error) as error:
                raise UnreadableMessage(f"broker {self.host}: a message is malformed: {error}") from error
            if self._unacknowledged >= ACKNOWLEDGE_EVERY:
                self._channel.basic_ack(self._received.delivery_tag, multiple=True)
                self._unacknowledged = 0
        return None if self._received is None else self._received.body

    def _receive(self, message: Message) -> None:
        self._received = message
        self._unacknowledged += 1

    def send_heartbeat(self) -> None:
        """Send a heartbeat if it is time to; to be called every second or so."""
        with _as_unavailable(self.host):
            self._connection.heartbeat_check()

    def close(self) -> None:
        """Close the connection, as far as that is possible without a wait."""
        with suppress(Exception):  # whatever is left of it, it is not used any more
            self._connection.collect(socket_timeout=1)


class StreamBroker:
    """Connects to the hosts of a broker in turn. Any thread may use it."""

    def __init__(
        self,
        hosts: Sequence[BrokerHost],
        name: str,
        queue: str = QUEUE,
        choice: Callable[[int], int] = random.randrange,
    ) -> None:
        """Begin with a host at random, so that schedulers spread over the hosts.

        Args:
            name: The name that the broker shows for connections, followed by their purpose.
            choice: Returns a random number below its argument.
        """
        self._hosts = hosts
        self._name = name
        self._queue = queue
        self._lock = threading.Lock()
        self._next = choice(len(hosts))

    def connect(self, purpose: str) -> StreamConnection:
        """Connect to the next host, and declare the stream there.

        Raises:
            StreamUnavailable: That host cannot be used. Another call tries the host after it.
        """
        with self._lock:
            host = self._hosts[self._next]
            self._next = (self._next + 1) % len(self._hosts)
        connection = host.connect(
            CONNECT_TIMEOUT,
            f"{self._name} {purpose}",
            read_timeout=CONFIRM_TIMEOUT,
            write_timeout=CONFIRM_TIMEOUT,
        )
        made = StreamConnection(connection, host, self._queue)
        try:
            made.declare()
        except BaseException:
            made.close()
            raise
        return made
