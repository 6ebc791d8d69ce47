"""Publishes one message until the broker has confirmed it, or a deadline has passed."""

from collections.abc import Callable
from contextlib import suppress
import time

from amqp.exceptions import IrrecoverableChannelError
import kombu

from scheduler.rpc.amqp import library


class ReplyTooLarge(Exception):
    """The broker does not accept a message of this size."""


class ReplyTimeout(library.Timeout):
    """The time in which a message must be sent is over."""


class BoundedPublisher:
    """Publishes a message on a connection and waits for the confirmation, until a deadline."""

    def __init__(
        self,
        connection: library.ConnectionContext,
        deadline: float,
        largest: int,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """Publish on a connection of oslo.messaging's pool.

        Args:
            deadline: Seconds of ``time.monotonic``.
            largest: Bytes that a message may have.
            on_failure: Called when a message may be sent once more, as the connection was lost before its
                confirmation.
        """
        self._on_failure = on_failure
        self._connection = connection
        self._deadline = deadline
        self._largest = largest

    def direct_send(self, queue: str, message: dict[str, str]) -> None:
        """Publish a reply to a queue.

        Raises:
            ReplyTooLarge: The message is larger than the broker accepts.
            MessageUndeliverable: The queue does not exist.
            ReplyTimeout: The deadline has passed.
            MessageDeliveryFailure: The broker cannot be reached.
        """
        size = size_of(message[library.MESSAGE_KEY])
        if size > self._largest:
            raise ReplyTooLarge(f"it has {size} bytes; at most {self._largest} can be sent")
        self.send(queue, message)

    def send(self, queue: str, message: object, **properties: object) -> None:
        """Publish a message of any size to a queue; for the errors see ``direct_send``."""
        connection = self._connection
        with library.lock_of(connection):
            try:
                connection.ensure(
                    lambda: self._publish(queue, message, properties),
                    recoverable_error_callback=self._check_deadline,
                    error_callback=_raise_refusal,
                )
            except Exception:
                self._replace_channel()
                raise

    def _publish(self, queue: str, message: object, properties: dict[str, object]) -> None:
        library.producer_of(self._connection).publish(
            message,
            exchange=kombu.Exchange(""),
            routing_key=queue,
            mandatory=True,
            compression=self._connection.kombu_compression,
            confirm_timeout=max(1.0, self._deadline - time.monotonic()),
            **properties,
        )

    def _replace_channel(self) -> None:
        """Publish nothing more on this channel.

        A confirmation that was not read is still to come, also after a message was returned. It could be
        taken for that of the next message.
        """
        channel = None
        connection = library.broker_of(self._connection)
        if connection.connected:
            with suppress(Exception):  # it is lost meanwhile: the next message finds another one
                channel = connection.channel()
        library.use_channel(self._connection, channel)

    def _check_deadline(self, error: Exception) -> None:
        self._on_failure()
        if time.monotonic() >= self._deadline:
            raise ReplyTimeout(f"the broker did not confirm it in time: {error}") from error


def size_of(text: str) -> int:
    """Return the bytes of a JSON text that is sent as a string of another one, where it is escaped."""
    return len(text) + text.count('"') + text.count("\\")


def _raise_refusal(error: Exception) -> None:
    if isinstance(error, IrrecoverableChannelError):
        raise ReplyTooLarge(f"the broker refuses it: {error}") from error
