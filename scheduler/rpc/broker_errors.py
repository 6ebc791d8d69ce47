"""What a broker refuses for good, as one line: a login, a virtual host, a queue that has another type."""

from collections.abc import Iterator
from contextlib import contextmanager

from amqp import exceptions as amqp
import oslo_messaging as messaging

from scheduler.errors import ConfigError

_ADVICE = {
    amqp.AccessRefused: (
        "check user, password and permissions of [DEFAULT]/transport_url: besides nova's queues the user must"
        " be able to configure, write and read ^berth (rabbitmqctl set_permissions)"
    ),
    amqp.NotAllowed: "check the virtual host in [DEFAULT]/transport_url, and the rights of its user",
    amqp.PreconditionFailed: (
        "a queue or exchange exists with other properties: set [oslo_messaging_rabbit] rabbit_quorum_queue, "
        "rabbit_transient_quorum_queue, rabbit_stream_fanout and amqp_durable_queues as nova's other "
        "services have them, or delete the queue while nothing uses it"
    ),
}


def refusal_in(error: BaseException) -> Exception | None:
    """Return the first refusal of the broker that led to an error; None if none did.

    After a refused declaration oslo.messaging tries another one, whose error would mislead.
    """
    found: Exception | None = None
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, Exception) and isinstance(current, tuple(_ADVICE)):
            found = current
        current = current.__cause__ or current.__context__
    return found


def advice(refusal: Exception) -> str:
    """Return what the broker says, and what to do about it."""
    said = getattr(refusal, "reply_text", None) or str(refusal)
    what = next(text for kind, text in _ADVICE.items() if isinstance(refusal, kind))
    return f"RabbitMQ refuses the connection or a queue: {said}; {what}"


@contextmanager
def refusals_as_config_errors() -> Iterator[None]:
    """Turn a refusal of the broker into an error of one line.

    Raises:
        ConfigError: The broker refused the connection or a queue.
    """
    try:
        yield
    except (*_ADVICE, messaging.MessageDeliveryFailure) as error:
        refusal = refusal_in(error)
        if refusal is None:
            raise
        raise ConfigError(advice(refusal)) from None
