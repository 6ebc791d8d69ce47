"""The transports of the message bus, and what its broker refuses (spec: wire-and-config 1.1, 5.1)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from amqp import exceptions as amqp
from oslo_config import cfg
import oslo_messaging as messaging

from scheduler.errors import ConfigError
from scheduler.rpc import library

TOPIC = "scheduler"
BASE_NAMESPACE = "baseapi"

#: Modules whose exceptions callers rebuild as their own classes.
ERROR_MODULES = ("nova.exception",)

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

_Make = Callable[[cfg.ConfigOpts, str | None, list[str]], messaging.Transport]


def rpc_transport(conf: cfg.ConfigOpts, url: str | None = None) -> messaging.Transport:
    """Return the transport of requests, not yet connected.

    Args:
        url: The transport URL; None for ``[DEFAULT]/transport_url``.

    Raises:
        ConfigError: The URL cannot be read, or has no driver.
    """
    return _make("[DEFAULT]/transport_url", messaging.get_rpc_transport, conf, url)


def command_transport(conf: cfg.ConfigOpts) -> messaging.Transport:
    """Return the transport of a command; see ``library.CommandConnection``. Raises as ``rpc_transport``."""
    made = rpc_transport(conf)
    library.use_connections_of_commands(made)
    return made


def notification_transport(conf: cfg.ConfigOpts) -> messaging.Transport:
    """Return the transport of notifications, not yet connected.

    Its URL is ``[oslo_messaging_notifications]/transport_url``, or that of requests if this is not set.

    Raises:
        ConfigError: The URL cannot be read, or has no driver.
    """
    url = conf.oslo_messaging_notifications.transport_url
    group = "oslo_messaging_notifications" if url else "DEFAULT"
    return _make(f"[{group}]/transport_url", messaging.get_notification_transport, conf, url or None)


def _make(option: str, make: _Make, conf: cfg.ConfigOpts, url: str | None) -> messaging.Transport:
    try:
        made = make(conf, url, list(ERROR_MODULES))
        parsed = messaging.TransportURL.parse(conf, url)
        # A "/" in the password: what precedes it would be read, and shown, as server and port.
        if "@" in (parsed.virtual_host or "") and not any(host.username for host in parsed.hosts):
            raise ValueError
        return made
    except (messaging.DriverLoadFailure, ImportError) as error:
        step = "; install the package of this driver" if isinstance(error, ImportError) else ""
        raise ConfigError(f"{option} cannot be used: {error}{step}") from error
    except (messaging.InvalidTransportURL, ValueError):
        # their text may contain parts of the URL, and a traceback would contain their text
        raise ConfigError(
            f"{option} cannot be read as a URL; special characters in a password must be percent-encoded"
        ) from None


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
