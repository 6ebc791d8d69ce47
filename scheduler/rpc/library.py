"""What is private in oslo.messaging and used here: this module alone touches it.

oslo.messaging acknowledges calls on receipt, and does not confirm replies. Its connections are used as they
are: they connect, fail over, and declare nova's queues with all options of ``[oslo_messaging_rabbit]``. A
version that lacks one of these names is refused at the start, with one line that says which.
"""
# ruff: noqa: SLF001

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
import copy
from importlib import import_module, metadata

from amqp import Channel
import kombu
import oslo_messaging as messaging

#: The versions that have them all; the suite is run with the last one.
TRIED = "17.0.0 to 18.3.1"

#: By module and class or function the attributes that are used, or set by it.
NAMES: Mapping[str, tuple[str, ...]] = {
    "_drivers.amqpdriver:AMQPDriverBase.__init__": ("_connection_pool",),
    "_drivers.common": ("PURPOSE_LISTEN", "Timeout", "serialize_msg", "serialize_remote_exception"),
    "_drivers.impl_rabbit:Connection": (
        "close",
        "consume",
        "declare_consumer",
        "declare_direct_consumer",
        "declare_fanout_consumer",
        "declare_topic_consumer",
        "durable",
        "ensure",
    ),
    "_drivers.impl_rabbit:Connection.__init__": (
        "_connection_lock",
        "_consumers",
        "_new_tags",
        "_tags",
        "channel",
        "connection",
        "kombu_compression",
        "rabbit_qos_prefetch_count",
    ),
    "_drivers.impl_rabbit:Connection._set_current_channel": ("_producer",),
    "_drivers.impl_rabbit:Consumer": ("_callback", "cancel", "consume", "declare"),
    "_drivers.impl_rabbit:Consumer.__init__": ("_declared_on", "callback", "queue", "rabbit_stream_fanout"),
    "_drivers.impl_rabbit:RabbitDriver": (),
    "_drivers.impl_rabbit:RabbitMessage.__init__": ("_raw_message",),
    "_drivers.pool:ConnectionPool": ("get", "put"),
    "_drivers.pool:ConnectionPool.__init__": ("conf", "connection_cls", "url"),
    "transport:Transport.__init__": ("_driver",),
}


def missing(names: Mapping[str, tuple[str, ...]] = NAMES) -> list[str]:
    """Return the names that this version of oslo.messaging does not have."""
    return [lacking for owner, used in names.items() for lacking in _missing_of(owner, used)]


def _missing_of(path: str, used: Iterable[str]) -> list[str]:
    module, _, owner = path.partition(":")
    try:
        found = import_module(f"oslo_messaging.{module}")
        for name in owner.split(".") if owner else ():
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return [path]
    code = getattr(found, "__code__", None)
    known = dir(found) if code is None else code.co_names
    return [f"{path}.{name}" for name in used if name not in known]


def refuse_unknown(names: Mapping[str, tuple[str, ...]] = NAMES) -> None:
    """Check that the names exist.

    Raises:
        SystemExit: One does not, so that no class here could be made.
    """
    if lacking := missing(names):
        version = metadata.version("oslo.messaging")
        raise SystemExit(
            f"oslo.messaging {version} cannot be used: it lacks {', '.join(lacking)} "
            f"(tried with versions {TRIED})"
        )


refuse_unknown()  # before what derives from them

from oslo_messaging._drivers import common, impl_rabbit  # noqa: E402
from oslo_messaging._drivers.common import Timeout  # noqa: E402
from oslo_messaging._drivers.impl_rabbit import Connection, RabbitMessage  # noqa: E402
from oslo_messaging._drivers.pool import ConnectionPool  # noqa: E402

__all__ = ["Connection", "ConnectionPool", "RabbitMessage", "Timeout"]

#: Failures of one attempt to connect to the broker after which the time limit is checked.
CONNECT_RETRIES = 1


# -- connections ---------------------------------------------------------------------------------------------


def pool_of(transport: messaging.Transport) -> ConnectionPool | None:
    """Return the pool of a transport's connections; None if the transport is not RabbitMQ.

    Its ``conf`` has the options, with those of the URL.
    """
    driver = transport._driver
    return driver._connection_pool if isinstance(driver, impl_rabbit.RabbitDriver) else None


def use_connections_of_commands(transport: messaging.Transport) -> None:
    """Let a transport make connections that leave nothing on the broker, if it is one for RabbitMQ."""
    if (pool := pool_of(transport)) is not None:
        pool.connection_cls = CommandConnection


@contextmanager
def connection_to_send(pool: ConnectionPool) -> Iterator[Connection]:
    """Give a connection of a pool, under its lock: a thread of the library sends heartbeats on it."""
    connection = pool.get(retry=CONNECT_RETRIES)
    try:
        with connection._connection_lock:
            yield connection
    finally:
        pool.put(connection)


def producer_of(connection: Connection) -> kombu.Producer:
    """Return what publishes on a connection."""
    return connection._producer


def use_channel(connection: Connection, channel: Channel | None) -> None:
    """Let a connection publish on another channel."""
    connection._set_current_channel(channel)


class QueueConsumer(impl_rabbit.Consumer):
    """Reads from a queue.

    Attributes:
        priority: Returns its priority among the consumers of the queue; None: the broker's default.
        prefetch: How many messages it has at most; 0: as many as the library says.
        on_depth: Called with the number of messages that are in the queue when it begins to read.
        on_unreadable: Called with the error if a message is no JSON, which is dropped.
    """

    priority: Callable[[], int] | None = None
    prefetch = 0

    def __init__(self, made: impl_rabbit.Consumer) -> None:
        """Take the place of a consumer that the library has made, with nova's options."""
        self.__dict__.update(vars(made))
        self.on_depth: Callable[[int], None] | None = None
        self.on_unreadable: Callable[[Exception], None] = lambda _error: None

    def another(self) -> "QueueConsumer":
        """Return a second consumer of the same queue."""
        second = copy.copy(self)
        second._declared_on = None
        return second

    def consume(self, conn: Connection, tag: int) -> None:
        """Begin to read on a connection, also after each loss of it."""
        if conn.channel != self._declared_on:
            self.declare(conn)
        if self.priority is not None:
            arguments = self.queue.consumer_arguments or {}
            self.queue.consumer_arguments = {**arguments, "x-priority": self.priority()}
        if self.on_depth is not None:
            self.on_depth(self.queue.queue_declare(passive=True).message_count)
        with _prefetch(conn, self.prefetch):
            super().consume(conn, tag)

    def _callback(self, message: object) -> None:
        if self.rabbit_stream_fanout:  # there the library notes how far it has read
            super()._callback(message)
            return
        raw = self.queue.channel.message_to_python(message)
        try:
            self.callback(RabbitMessage(raw))
        except Exception as error:  # noqa: BLE001 - it would end the connection
            self.on_unreadable(error)
            raw.reject()


@contextmanager
def _prefetch(connection: Connection, messages: int) -> Iterator[None]:
    """Let the consumers that begin in this context have so many messages at most; 0: the usual number."""
    if messages:
        connection.channel.basic_qos(0, messages, False)
    try:
        yield
    finally:
        if messages:
            connection.channel.basic_qos(0, connection.rabbit_qos_prefetch_count, False)


class ReadingConnection(Connection):
    """A connection of its own, which one thread reads from.

    Attributes:
        losses: How often what was received and not acknowledged went back to the broker.
    """

    losses = 0

    def __init__(self, pool: ConnectionPool) -> None:
        """Connect; the broker is waited for."""
        super().__init__(pool.conf, pool.url, common.PURPOSE_LISTEN)

    @property
    def consumers(self) -> list[QueueConsumer]:
        """What it reads with."""
        return list(self._consumers)

    def ensure(self, method: Callable[[], object], *arguments: object, **options: object) -> object:
        """Call a method until it meets no error; each error ends the channel or the connection.

        The library reports an error to callbacks that may raise ``Timeout`` in its place. If it was declaring
        a consumer, it would read with that one alone after the error.
        """

        def counted() -> object:
            try:
                return method()
            except Timeout:
                raise
            except Exception:
                self.losses += 1
                self._new_tags = set(self._consumers.values())
                raise

        return super().ensure(counted, *arguments, **options)

    def declare_consumer(self, consumer: impl_rabbit.Consumer) -> None:
        """Read with a consumer of ours in the place of one of the library's."""
        super().declare_consumer(QueueConsumer(consumer))

    def add(self, consumer: QueueConsumer) -> None:
        """Read with a consumer too.

        Not by ``declare_consumer``, which gives all consumers of a queue one tag. And not by a tag that was
        used: a quorum queue may end the connection when calls that this tag got before are acknowledged.
        """
        tag = next(self._tags)
        self._consumers[consumer] = tag
        self._new_tags.add(tag)

    def remove(self, consumer: QueueConsumer) -> int:
        """Forget a consumer, which goes on until it is cancelled; return its tag."""
        tag: int = self._consumers.pop(consumer)
        self._new_tags.discard(tag)
        return tag

    def cancel(self, consumer: QueueConsumer) -> None:
        """Read no more with a consumer; raises if the connection is lost."""
        consumer.cancel(self.remove(consumer))


class CommandConnection(Connection):
    """A connection of a command, which calls schedulers and ends: it leaves nothing on the broker.

    The reply queue of a daemon lives on for ``rabbit_transient_queues_ttl``, as a quorum queue if the options
    say so, since the daemon may come back to it. That of a command is exclusive: a classic queue, which the
    broker deletes with its connection, also if the command is killed.
    """

    def declare_direct_consumer(self, topic: str, callback: Callable[[RabbitMessage], None]) -> None:
        """Read replies from a queue of this connection alone."""
        self.declare_consumer(_ExclusiveConsumer("", topic, "", "direct", False, False, True, callback))


class _ExclusiveConsumer(impl_rabbit.Consumer):
    def declare(self, conn: Connection) -> None:
        # The type is named, as a virtual host may have another default
        self.queue = kombu.Queue(
            self.queue_name,
            self.exchange,
            channel=conn.channel,
            durable=False,
            exclusive=True,
            queue_arguments={"x-queue-type": "classic"},
        )
        self.queue.declare()
        self._declared_on = conn.channel


# -- messages ------------------------------------------------------------------------------------------------


def raw_of(message: RabbitMessage) -> kombu.Message:
    """Return kombu's message: its body, headers, channel and delivery tag."""
    raw: kombu.Message = message._raw_message
    return raw


def envelope_of(message: dict[str, object]) -> dict[str, str]:
    """Return a message as it is sent.

    Raises:
        TypeError, ValueError, RecursionError: It has what cannot be JSON.
    """
    made: dict[str, str] = common.serialize_msg(message)
    return made


def failure_of(error: BaseException) -> str:
    """Return an error as it is sent."""
    text: str = common.serialize_remote_exception((type(error), error, error.__traceback__))
    return text
