"""Sends messages over RabbitMQ until the broker has confirmed them, and asks it whether a queue is read.

Every wait is bounded by a deadline: for a connection of the pool, for the broker, and for its confirmation.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
import threading
import time

from amqp import exceptions as amqp
import kombu
import oslo_messaging as messaging

from scheduler.errors import ConfigError
from scheduler.rpc import library

#: Seconds that an answer of the broker to a question about a queue may take.
LOOK_TIMEOUT = 5.0

PERSISTENT, TRANSIENT = kombu.Exchange.PERSISTENT_DELIVERY_MODE, kombu.Exchange.TRANSIENT_DELIVERY_MODE


class MessageTooLarge(Exception):
    """The broker does not accept a message of this size."""


class SendTimeout(library.Timeout):
    """The time in which a message must be sent is over."""


class NobodyReads(messaging.MessageUndeliverable):
    """The queue does not exist, or nobody reads from it."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "", "", None)
        self.args = (text,)


class Bus:
    """RabbitMQ, with the connections that nova's other services have. Any thread may use it.

    Attributes:
        transport: oslo.messaging's transport.
        patience: Seconds for which a reply queue that nobody reads is waited for.
        exchange: The exchange of requests.
    """

    def __init__(self, transport: messaging.Transport, largest: int) -> None:
        """Use the connections of a transport; nothing is connected to yet.

        Args:
            largest: Bytes of the largest message.

        Raises:
            ConfigError: The transport is not RabbitMQ.
        """
        pool = library.pool_of(transport)
        if pool is None:
            raise ConfigError(
                "[DEFAULT]/transport_url cannot be used: requests are served over RabbitMQ only"
            )
        self.transport = transport
        options = pool.conf.oslo_messaging_rabbit
        self.patience = float(options.kombu_missing_consumer_retry_timeout)
        self.exchange: str = pool.conf.control_exchange
        self._largest = largest
        self._pool = pool
        # the pool would wait without a bound
        self._places = threading.Semaphore(options.rpc_conn_pool_size)

    def reader(self) -> library.ReadingConnection:
        """Return a connection to read from; the broker is waited for."""
        return library.ReadingConnection(self._pool)

    def close(self) -> None:
        """Close the connections that are not in use."""
        self.transport.cleanup()

    def reply(
        self,
        queue: str,
        message: dict[str, str],
        deadline: float,
        on_failure: Callable[[], None] = lambda: None,
        *,
        to_reader: bool = True,
    ) -> None:
        """Publish a reply to a queue, and wait until the broker has confirmed it.

        Args:
            message: What ``wire.reply`` returned.
            deadline: Seconds of ``time.monotonic``.
            on_failure: Called when the message may be sent once more, as the connection was lost before its
                confirmation.
            to_reader: Whether to look first whether anybody reads from the queue.

        Raises:
            MessageTooLarge: The message is larger than the broker accepts.
            NobodyReads: The queue does not exist, or nobody reads from it.
            Exception: It is not known whether the broker has it.
        """
        size = sum(map(size_of, message.values()))
        if size > self._largest:
            raise MessageTooLarge(f"it has {size} bytes; at most {self._largest} can be sent")
        with self._connection(deadline) as connection:
            _Publication(connection, queue, deadline, on_failure, to_reader).send(message)

    def publish(self, queue: str, message: object, deadline: float, **properties: object) -> None:
        """Publish a message of any size to a queue, which has to exist; raises as ``reply``."""
        with self._connection(deadline) as connection:
            _Publication(connection, queue, deadline).send(message, **properties)

    def publish_again(self, raw: kombu.Message, deadline: float, headers: dict[str, object]) -> None:
        """Put a message into its queue once more, with other headers; raises as ``reply``."""
        with self._connection(deadline) as connection:
            _Publication(connection, raw.delivery_info["routing_key"], deadline).send(
                raw.body,
                content_type=raw.content_type,
                content_encoding=raw.content_encoding,
                headers=headers,
                delivery_mode=PERSISTENT if connection.durable else TRANSIENT,
            )

    def is_read(self, queue: str) -> bool:
        """Return whether anybody reads from a queue; raises if the broker does not answer."""
        with self._connection(time.monotonic() + LOOK_TIMEOUT) as connection:
            broker = connection.connection
            # on a channel of its own, which a refusal ends
            with broker.connection.transport.having_timeout(LOOK_TIMEOUT), broker.channel() as channel:
                try:
                    return bool(channel.queue_declare(queue, passive=True).consumer_count)
                except amqp.NotFound:
                    return False
                except amqp.ChannelError:  # it may not be looked at
                    return True

    @contextmanager
    def _connection(self, deadline: float) -> Iterator[library.Connection]:
        if not self._places.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise SendTimeout("all connections to the broker are in use")
        try:
            with library.connection_to_send(self._pool) as connection:
                yield connection
        finally:
            self._places.release()


@dataclass
class _Publication:
    """One message on its way to a queue, over one connection; see ``Bus.reply``."""

    connection: library.Connection
    queue: str
    deadline: float
    on_failure: Callable[[], None] = lambda: None
    to_reader: bool = False
    is_spoilt: bool = False

    def send(self, message: object, **properties: object) -> None:
        """Publish it until it is confirmed."""
        try:
            self.connection.ensure(
                lambda: self._publish(message, properties),
                recoverable_error_callback=self._check_deadline,
                error_callback=_raise_refusal,
            )
        except Exception as error:
            self.is_spoilt = True
            if isinstance(error, messaging.MessageUndeliverable) and not isinstance(error, NobodyReads):
                raise NobodyReads(f"queue {self.queue} does not exist") from None
            raise
        finally:
            if self.is_spoilt:
                self._replace_channel()

    def _publish(self, message: object, properties: dict[str, object]) -> None:
        if self.to_reader:
            self._look()
        library.producer_of(self.connection).publish(
            message,
            exchange=kombu.Exchange(""),
            routing_key=self.queue,
            mandatory=True,
            compression=self.connection.kombu_compression,
            confirm_timeout=max(1.0, self.deadline - time.monotonic()),
            **properties,
        )

    def _look(self) -> None:
        """Check that somebody reads from the queue: that of a caller that was killed lives on for long.

        Raises:
            NobodyReads: Nobody does.
        """
        try:
            readers = self.connection.channel.queue_declare(self.queue, passive=True).consumer_count
        except amqp.NotFound:
            raise NobodyReads(f"queue {self.queue} does not exist") from None
        except amqp.ChannelError:  # it may not be looked at, and the channel is gone
            self._replace_channel()
            self.is_spoilt, self.to_reader = True, False
            return
        if not readers:
            raise NobodyReads(f"nobody reads from queue {self.queue}")

    def _replace_channel(self) -> None:
        """Publish nothing more on this channel.

        A confirmation that was not read is still to come, also after a message was returned. It could be
        taken for that of the next message.
        """
        channel = None
        connection = self.connection.connection
        if connection.connected:
            with suppress(Exception):  # it is lost meanwhile: the next message finds another one
                channel = connection.channel()
        library.use_channel(self.connection, channel)

    def _check_deadline(self, error: Exception) -> None:
        self.on_failure()
        if time.monotonic() >= self.deadline:
            raise SendTimeout(f"the broker did not confirm it in time: {error}") from error


def size_of(text: str) -> int:
    """Return the bytes of a JSON text that is sent as a string of another one, where it is escaped."""
    return len(text) + text.count('"') + text.count("\\")


def _raise_refusal(error: Exception) -> None:
    if isinstance(error, amqp.IrrecoverableChannelError):
        raise MessageTooLarge(f"the broker refuses it: {error}") from error
