"""Connections to the message bus (spec: wire-and-config 1.1, 5.1)."""

from collections.abc import Callable

from oslo_config import cfg
import oslo_messaging as messaging

from scheduler import errors

TOPIC = "scheduler"
BASE_NAMESPACE = "baseapi"

#: Modules whose exceptions callers rebuild as their own classes.
ERROR_MODULES = ("nova.exception",)

_Make = Callable[[cfg.ConfigOpts, str | None, list[str]], messaging.Transport]


def rpc_transport(conf: cfg.ConfigOpts, url: str | None = None) -> messaging.Transport:
    """Return the transport of requests, not yet connected.

    Args:
        url: The transport URL; None for ``[DEFAULT]/transport_url``.

    Raises:
        ConfigError: The URL cannot be read, or has no driver.
    """
    return _make("[DEFAULT]/transport_url", messaging.get_rpc_transport, conf, url)


def notification_transport(conf: cfg.ConfigOpts) -> messaging.Transport:
    """Return the transport of notifications, not yet connected.

    Its URL is ``[oslo_messaging_notifications]/transport_url``, or that of requests if this is not set.

    Raises:
        ConfigError: The URL cannot be read, or has no driver.
    """
    url = conf.oslo_messaging_notifications.transport_url
    group = "oslo_messaging_notifications" if url else "DEFAULT"
    return _make(f"[{group}]/transport_url", messaging.get_notification_transport, conf, url or None)


def _check_server(url: messaging.TransportURL) -> None:
    """Check that the password has no "/": what precedes it would be read, and shown, as server and port.

    Raises:
        ValueError: It has one.
    """
    if "@" in (url.virtual_host or "") and not any(host.username for host in url.hosts):
        raise ValueError


def _make(option: str, make: _Make, conf: cfg.ConfigOpts, url: str | None) -> messaging.Transport:
    try:
        made = make(conf, url, list(ERROR_MODULES))
        _check_server(messaging.TransportURL.parse(conf, url))
        return made
    except (messaging.DriverLoadFailure, ImportError) as error:
        step = "; install the package of this driver" if isinstance(error, ImportError) else ""
        raise errors.ConfigError(f"{option} cannot be used: {error}{step}") from error
    except (messaging.InvalidTransportURL, ValueError):
        # their text may contain parts of the URL, and a traceback would contain their text
        raise errors.ConfigError(
            f"{option} cannot be read as a URL; special characters in a password must be percent-encoded"
        ) from None
