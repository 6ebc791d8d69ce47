"""Connections to the stream on the broker of the RPC transport.

Where the broker is, and how connections are secured, is read from the options of oslo.messaging. Unlike that
library, each connection here is to one named host, so that the certificate of a broker is checked against
the name of its own host also where there are several; ``StreamBroker`` tries one host after the other.

What the library keeps private and is used here is listed in ``tests/unit/stream/test_broker.py``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
import random
import ssl
import struct
import threading
from typing import Any

from amqp import exceptions as amqp_errors
from amqp.basic_message import Message
import kombu
from kombu import exceptions as kombu_errors
from oslo_config import cfg

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


@dataclass(frozen=True, slots=True)
class BrokerHost:
    """One host of a broker; ``hostname`` is the name that its certificate must have."""

    hostname: str
    port: int
    username: str
    password: str = field(repr=False)
    virtual_host: str

    def __str__(self) -> str:
        return f"{self.hostname}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """How to connect.

    Attributes:
        hosts: The hosts of the broker.
        tls: Whether connections are secured, and the arguments for that; the name of the host is added.
        login_method: How the user is authenticated.
        heartbeat: Seconds without a sign of life after which either side closes a connection; 0: never.
    """

    hosts: tuple[BrokerHost, ...]
    tls: bool | dict[str, Any] = False
    login_method: str = "AMQPLAIN"
    heartbeat: int = 60

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> "BrokerOptions | None":
        """Return what the options of oslo.messaging say; None if its transport is not RabbitMQ.

        Raises:
            ConfigError: The transport URL or the version of TLS cannot be read.
        """
        import oslo_messaging
        from oslo_messaging._drivers import common

        try:
            url = oslo_messaging.TransportURL.parse(conf)
            if url.transport.partition("+")[2] or url.transport not in {"rabbit", "amqp"}:
                return None
            options = common.ConfigOptsProxy(conf, url, GROUP)[GROUP]
            hosts = tuple(_host(host, url.virtual_host) for host in url.hosts) or (_host(None, None),)
            return cls(hosts, _tls(options), options.rabbit_login_method, options.heartbeat_timeout_threshold)
        except (oslo_messaging.InvalidTransportURL, ValueError, RuntimeError) as error:
            # their texts may contain parts of the URL
            raise ConfigError(
                f"The options of the message bus cannot be used for the decision stream "
                f"({type(error).__name__})"
            ) from None

    def tls_for(self, host: BrokerHost) -> bool | dict[str, Any]:
        """Return the arguments of TLS for a connection to one host."""
        if isinstance(self.tls, dict) and "ca_certs" in self.tls:
            return {**self.tls, "server_hostname": host.hostname}
        return self.tls

    def connection_to(self, host: BrokerHost, timeout: float, **more: Any) -> Any:
        """Return a connection of kombu to one host; ``more``: options of its transport.

        Raises:
            StreamUnavailable: It cannot be made in ``timeout`` seconds.
        """
        make: Callable[..., Any] = kombu.Connection
        connection = make(
            hostname=host.hostname,
            port=host.port,
            userid=host.username,
            password=host.password,
            virtual_host=host.virtual_host,
            transport="pyamqp",
            ssl=self.tls_for(host),
            login_method=self.login_method,
            heartbeat=self.heartbeat,
            connect_timeout=timeout,
            transport_options=more,
        )
        with _as_unavailable(host):
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=timeout)
        return connection

    def why_unavailable(self, timeout: float) -> str:
        """Return why no host can be used; "" if one can. A connection may take ``timeout`` seconds."""
        reasons = []
        for host in self.hosts:
            try:
                self.connection_to(host, timeout).release()
            except StreamUnavailable as error:
                reasons.append(str(error))
            else:
                return ""
        return "; ".join(reasons)


def _host(host: Any, virtual_host: str | None) -> BrokerHost:
    if host is None:
        return BrokerHost("localhost", 5672, "guest", "guest", virtual_host or "/")
    return BrokerHost(
        host.hostname, host.port or 5672, host.username or "", host.password or "", virtual_host or "/"
    )


def _tls(options: Any) -> bool | dict[str, Any]:
    from oslo_messaging._drivers.impl_rabbit import Connection

    if not options.ssl:
        return False
    found: dict[str, Any] = {}
    if options.ssl_version:
        found["ssl_version"] = Connection.validate_ssl_version(options.ssl_version)
    if options.ssl_key_file:
        found["keyfile"] = options.ssl_key_file
    if options.ssl_cert_file:
        found["certfile"] = options.ssl_cert_file
    if options.ssl_ca_file:
        found |= {"ca_certs": options.ssl_ca_file, "cert_reqs": ssl.CERT_REQUIRED}
    return found or True


#: What kombu and what is below it raise if a broker is away, refuses something or does not answer in time.
_FAILURES = (amqp_errors.AMQPError, kombu_errors.KombuError, OSError, EOFError)


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
    """A connection to the stream on one host, for one thread."""

    def __init__(self, connection: Any, host: BrokerHost, queue: str = QUEUE) -> None:
        """Use a connection of kombu; ``declare`` first, and ``subscribe`` before ``receive``."""
        self.host = host
        self._queue = queue
        self._connection = connection
        self._channel: Any = None
        self._unacknowledged = 0
        self._received: Any = None

    def declare(self) -> None:
        """Create the stream, or accept the one that exists with other arguments.

        Raises:
            StreamUnavailable: It can neither be created nor found.
        """
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
        """Write a message, and wait until the broker has confirmed it.

        Raises:
            StreamUnavailable: It is not confirmed in time, or there is no stream.
        """
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

        Raises:
            StreamUnavailable: This host has no replica of the stream, or refuses.
        """
        where = {"x-stream-offset": offset}
        with _as_unavailable(self.host):
            self._channel.basic_qos(0, PREFETCH, False)
            self._channel.basic_consume(self._queue, callback=self._receive, arguments=where)
            transport = self._connection.connection.transport
            transport._quick_recv = partial(_read_ahead, transport._quick_recv)  # noqa: SLF001

    def receive(self, timeout: float) -> bytes | str | None:
        """Return the body of the next message; None if none arrives in time, or something else does.

        Raises:
            StreamUnavailable: The connection or the subscription is lost.
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
        """Send a heartbeat if it is time to; to be called every second or so.

        Raises:
            StreamUnavailable: The broker has not been heard of for too long.
        """
        with _as_unavailable(self.host):
            self._connection.heartbeat_check()

    def close(self) -> None:
        """Close the connection, as far as that is possible without a wait."""
        with suppress(Exception):  # whatever is left of it, it is not used any more
            self._connection.collect(socket_timeout=1)


def _read_ahead(read: Callable[[int], bytes], _size: int) -> bytes:
    """Read from a socket more than is requested; the AMQP library keeps the rest for the next time."""
    return read(READ_AHEAD)


class StreamBroker:
    """Connects to the hosts of a broker in turn. Any thread may use it."""

    def __init__(
        self,
        options: BrokerOptions,
        name: str,
        queue: str = QUEUE,
        choice: Callable[[int], int] = random.randrange,
    ) -> None:
        """Begin with a host at random, so that schedulers spread over the hosts.

        Args:
            name: The name that the broker shows for connections, followed by their purpose.
            choice: Returns a random number below its argument.
        """
        self._options = options
        self._name = name
        self._queue = queue
        self._lock = threading.Lock()
        self._next = choice(len(options.hosts))

    def connect(self, purpose: str) -> StreamConnection:
        """Connect to the next host, and declare the stream there.

        Raises:
            StreamUnavailable: That host cannot be used. Another call tries the host after it.
        """
        with self._lock:
            host = self._options.hosts[self._next]
            self._next = (self._next + 1) % len(self._options.hosts)
        connection = self._options.connection_to(
            host,
            CONNECT_TIMEOUT,
            confirm_publish=True,
            read_timeout=CONFIRM_TIMEOUT,
            write_timeout=CONFIRM_TIMEOUT,
            client_properties={"connection_name": f"{self._name} {purpose}"},
        )
        made = StreamConnection(connection, host, self._queue)
        try:
            made.declare()
        except BaseException:
            made.close()
            raise
        return made
