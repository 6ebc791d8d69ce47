"""What is private in oslo.messaging and used here: this module alone touches it.

oslo.messaging acknowledges calls on receipt, and does not confirm replies. Berth does both otherwise, below
the public interface of the library. A version that lacks one of these names is refused at the start, with one
line that says which.
"""
# ruff: noqa: SLF001

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
import copy
from importlib import import_module, metadata
from typing import Protocol

from amqp import Channel, spec
from kombu import Connection as BrokerConnection
from kombu import Message, Producer
import oslo_messaging as messaging

#: The versions that have them all; the suite is run with the last one.
TRIED = "17.0.0 to 18.3.1"

#: By module and class or function the attributes that are used, or set by it.
NAMES: Mapping[str, tuple[str, ...]] = {
    "_drivers.amqp": ("UNIQUE_ID",),
    "_drivers.amqpdriver:AMQPDriverBase": ("_get_connection", "_get_exchange", "listen"),
    "_drivers.amqpdriver:AMQPDriverBase.__init__": ("_connection_pool",),
    "_drivers.amqpdriver:AMQPIncomingMessage": ("_send_reply", "reply", "heartbeat", "acknowledge"),
    "_drivers.amqpdriver:AMQPIncomingMessage.__init__": ("reply_q",),
    "_drivers.amqpdriver:AMQPListener.__init__": ("_message_operations_handler", "incoming", "conn"),
    "_drivers.amqpdriver:MessageOperationsHandler": ("do", "process", "stop", "process_in_background"),
    "_drivers.amqpdriver:MessageOperationsHandler.__init__": ("_shutdown_thread",),
    "_drivers.amqpdriver:RpcAMQPListener": ("__call__", "stop", "cleanup", "message_cls", "use_cache"),
    "_drivers.base:BaseDriver.__init__": ("_url",),
    "_drivers.base:PollStyleListenerAdapter": ("start", "stop", "cleanup"),
    "_drivers.base:PollStyleListenerAdapter.__init__": ("_poll_style_listener",),
    "_drivers.base:RpcIncomingMessage": ("reply", "heartbeat"),
    "_drivers.common": ("_MESSAGE_KEY", "PURPOSE_SEND", "PURPOSE_LISTEN", "Timeout", "serialize_msg"),
    "_drivers.common:ConnectionContext.__init__": ("connection",),
    "_drivers.impl_rabbit:Connection": (
        "_set_current_channel",
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
        "_poll_timeout",
        "_tags",
        "connection",
        "enable_cancel_on_failover",
        "kombu_compression",
        "rabbit_ha_queues",
        "rabbit_qos_prefetch_count",
        "rabbit_quorum_queue",
        "rabbit_quorum_queue_config",
    ),
    "_drivers.impl_rabbit:Connection._set_current_channel": ("_producer",),
    "_drivers.impl_rabbit:Consumer": ("_callback", "cancel", "consume", "declare"),
    "_drivers.impl_rabbit:Consumer.__init__": (
        "_declared_on",
        "callback",
        "queue_arguments",
        "rabbit_stream_fanout",
    ),
    "_drivers.impl_rabbit:RabbitDriver": (),
    "_drivers.impl_rabbit:RabbitMessage": ("acknowledge",),
    "_drivers.impl_rabbit:RabbitMessage.__init__": ("_raw_message",),
    "rpc.dispatcher:PingEndpoint": (),
    "rpc.dispatcher:RPCDispatcher": ("dispatch",),
    "rpc.server:RPCServer": ("_create_listener", "_on_incoming", "_process_incoming"),
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

from oslo_messaging._drivers import amqp, amqpdriver, common, impl_rabbit  # noqa: E402
from oslo_messaging._drivers.amqpdriver import AMQPDriverBase  # noqa: E402
from oslo_messaging._drivers.base import PollStyleListenerAdapter, RpcIncomingMessage  # noqa: E402
from oslo_messaging._drivers.common import ConnectionContext, Timeout  # noqa: E402
from oslo_messaging._drivers.impl_rabbit import Connection, Consumer, RabbitMessage  # noqa: E402
from oslo_messaging.rpc.dispatcher import PingEndpoint, RPCDispatcher  # noqa: E402
from oslo_messaging.rpc.server import RPCServer  # noqa: E402

__all__ = [
    "AMQPDriverBase",
    "Connection",
    "ConnectionContext",
    "Consumer",
    "PingEndpoint",
    "PollStyleListenerAdapter",
    "RPCDispatcher",
    "RPCServer",
    "RabbitMessage",
    "RpcIncomingMessage",
    "Timeout",
]

UNIQUE_ID: str = amqp.UNIQUE_ID
MESSAGE_KEY: str = common._MESSAGE_KEY
serialize_msg = common.serialize_msg

#: Failures of one attempt to connect to the broker after which the time limit is checked.
CONNECT_RETRIES = 1


# -- drivers and connections ---------------------------------------------------------------------------------


def driver_of(transport: messaging.Transport) -> AMQPDriverBase:
    """Return the driver of a transport, of whatever kind."""
    return transport._driver


def amqp_driver_of(transport: messaging.Transport) -> AMQPDriverBase | None:
    """Return the driver of a transport; None if it does not speak AMQP."""
    driver = driver_of(transport)
    return driver if isinstance(driver, amqpdriver.AMQPDriverBase) else None


def url_of(transport: messaging.Transport) -> messaging.TransportURL:
    """Return the URL of a transport as it was read."""
    return transport._driver._url


def use_connections(transport: messaging.Transport, kind: type[Connection]) -> None:
    """Let a transport make connections of a class, if it is one for RabbitMQ."""
    driver = driver_of(transport)
    if isinstance(driver, impl_rabbit.RabbitDriver):
        driver._connection_pool.connection_cls = kind


def connection_to_read(driver: AMQPDriverBase) -> ConnectionContext:
    """Return a connection of its own; the broker is waited for."""
    return driver._get_connection(common.PURPOSE_LISTEN)


def connection_to_send(driver: AMQPDriverBase) -> AbstractContextManager[ConnectionContext]:
    """Return a context with a connection of the pool."""
    made: AbstractContextManager[ConnectionContext] = driver._get_connection(
        common.PURPOSE_SEND, retry=CONNECT_RETRIES
    )
    return made


def exchange_of(driver: AMQPDriverBase, target: messaging.Target) -> str:
    """Return the exchange of a target."""
    return str(driver._get_exchange(target))


def look_often(connection: ConnectionContext, interval: float) -> None:
    """Look every so many seconds whether to stop."""
    connection.connection._poll_timeout = interval


def lock_of(connection: ConnectionContext) -> AbstractContextManager[bool]:
    """Return the lock under which a connection is used."""
    lock: AbstractContextManager[bool] = connection._connection_lock
    return lock


def broker_of(connection: ConnectionContext) -> BrokerConnection:
    """Return kombu's connection: below the place in the pool, and oslo.messaging's own."""
    return connection.connection.connection


def producer_of(connection: ConnectionContext) -> Producer:
    """Return what publishes on the connection."""
    return connection._producer


def use_channel(connection: ConnectionContext, channel: Channel | None) -> None:
    """Let a connection publish on another channel."""
    connection._set_current_channel(channel)


# -- consumers -----------------------------------------------------------------------------------------------


def consumers_of(connection: ConnectionContext) -> list[Consumer]:
    """Return the consumers of a connection."""
    return list(connection._consumers)


def remove_consumer(connection: ConnectionContext, consumer: Consumer) -> int:
    """Let a connection forget a consumer, which goes on until it is cancelled; return its tag."""
    tag: int = connection._consumers.pop(consumer)
    connection._new_tags.discard(tag)
    return tag


def add_consumer(connection: ConnectionContext, consumer: Consumer) -> None:
    """Let a connection read from a consumer that was removed.

    Not by its old tag: a quorum queue may end the connection when calls that this tag got before are
    acknowledged. And not by ``declare_consumer``: if the connection is lost meanwhile, only this consumer
    would read again.
    """
    tag = next(connection._tags)
    connection._consumers[consumer] = tag
    connection._new_tags.add(tag)


def second_consumer(connection: ConnectionContext, consumer: Consumer) -> Consumer:
    """Let a connection read from the queue of a consumer by another consumer too, and return that.

    Not by ``declare_consumer``, which gives all consumers of a queue one tag.
    """
    second = copy.copy(consumer)
    second._declared_on = None
    add_consumer(connection, second)
    return second


def log_unreadable(consumer: Consumer, log: Callable[[Exception], None]) -> None:
    """Let a consumer drop a message that is no JSON with a line of ours, instead of a traceback for each."""

    def receive(raw: object) -> None:
        message = consumer.queue.channel.message_to_python(raw)
        try:
            consumer.callback(RabbitMessage(message))
        except Exception as error:  # noqa: BLE001 - it would end the connection
            log(error)
            message.reject()

    if not consumer.rabbit_stream_fanout:  # there the library notes how far it has read
        consumer._callback = receive


@contextmanager
def prefetch(connection: Connection, messages: int) -> Iterator[None]:
    """Let the consumers that begin in this context have so many messages at most."""
    connection.channel.basic_qos(0, messages, False)
    try:
        yield
    finally:
        connection.channel.basic_qos(0, connection.rabbit_qos_prefetch_count, False)


def declare_where_needed(consumer: Consumer, connection: Connection) -> None:
    """Declare the queue of a consumer, unless that was done on this channel."""
    if connection.channel != consumer._declared_on:
        consumer.declare(connection)


def note_declared(consumer: Consumer, connection: Connection) -> None:
    """Note that the queue of a consumer was declared on the channel of a connection."""
    consumer._declared_on = connection.channel


# -- messages ------------------------------------------------------------------------------------------------


def raw_of(message: RabbitMessage) -> Message:
    """Return kombu's message: its body, headers, channel and delivery tag."""
    raw: Message = message._raw_message
    return raw


def requeue(message: RabbitMessage) -> None:
    """Return a message to its queue.

    By ``nack``: quorum queues of RabbitMQ 4.3 count a message that is rejected as a failed delivery.
    """
    raw = raw_of(message)
    raw.channel.send_method(spec.Basic.Nack, "Lbb", (raw.delivery_tag, False, True))
    raw._state = "REQUEUED"  # as kombu's own


class Call(amqpdriver.AMQPIncomingMessage):
    """A message as a listener receives it."""

    def send_reply(self, publisher: "Publisher", reply: object, failure: object, ending: bool = True) -> None:
        """Let a publisher send one reply, or a heartbeat."""
        self._send_reply(publisher, reply, failure, ending)


class Publisher(Protocol):
    """What sends replies, in the place of a connection."""

    def direct_send(self, queue: str, message: dict[str, str]) -> None:
        """Publish a message to a queue."""


class _Operations(amqpdriver.MessageOperationsHandler):
    """What the thread that reads from a connection does between two reads."""

    def __init__(self, name: str, each_time: Callable[[], None]) -> None:
        super().__init__(name)
        self._each_time = each_time

    def process(self) -> None:
        super().process()
        self._each_time()


class Listener(amqpdriver.RpcAMQPListener):
    """Receives messages in one thread, in which functions can be called between two reads."""

    def __init__(
        self,
        driver: AMQPDriverBase,
        connection: ConnectionContext,
        each_time: Callable[[], None],
        waits: tuple[float, float],
    ) -> None:
        """Listen on a connection; the caller declares the queues.

        Args:
            each_time: Called after each read.
            waits: Seconds for which a message is waited for, at least and at most.
        """
        self._waits = waits
        super().__init__(driver, connection)
        self._message_operations_handler = _Operations("LateListener", each_time)

    @property
    def _current_timeout(self) -> float:
        return self._wait

    @_current_timeout.setter
    def _current_timeout(self, seconds: float) -> None:
        # oslo.messaging sets it to a millisecond after a message, and doubles it whenever none comes
        shortest, longest = self._waits
        self._wait = min(max(seconds, shortest), longest)

    def do(self, task: Callable[[], None]) -> None:
        """Let the thread that reads call a function soon."""
        self._message_operations_handler.do(task)

    def take(self, message: RabbitMessage) -> "Call":
        """Take a message that stays unacknowledged, and return it."""
        amqpdriver.AMQPListener.__call__(self, message)
        taken: Call = self.incoming[-1]
        return taken

    def finish(self) -> None:
        """Call the functions that wait, in this thread, after the thread that reads has ended."""
        operations = self._message_operations_handler
        operations.stop()
        if operations._shutdown_thread.is_alive():
            operations._shutdown_thread.join()
        operations.process()


def look_often_of(adapter: PollStyleListenerAdapter, interval: float) -> None:
    """Let a listener of oslo.messaging's own look often whether to stop, if it speaks AMQP."""
    listener = adapter._poll_style_listener
    if isinstance(listener, amqpdriver.AMQPListener):
        look_often(listener.conn, interval)
