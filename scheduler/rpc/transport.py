"""Connections to the message bus (spec: wire-and-config 1.1, 5.1)."""

import oslo_messaging as messaging

from scheduler import errors

TOPIC = "scheduler"
BASE_NAMESPACE = "baseapi"

#: modules of which a caller rebuilds an error as its own class
ERROR_MODULES = ("nova.exception",)


def rpc_transport(conf, url=None):
    """The connection for requests; ``[DEFAULT]/transport_url`` unless ``url`` is given.

    Raises ``ConfigError`` for a URL that leads to no driver. Nothing is connected to yet.
    """
    return _made("[DEFAULT]/transport_url", messaging.get_rpc_transport, conf, url)


def notification_transport(conf):
    """The connection for notifications; ``[oslo_messaging_notifications]/transport_url`` or the other's.

    Raises ``ConfigError`` as ``rpc_transport`` does.
    """
    option = "[oslo_messaging_notifications]/transport_url"
    return _made(option, messaging.get_notification_transport, conf, None)


def _made(option, make, conf, url):
    try:
        return make(conf, url=url, allowed_remote_exmods=list(ERROR_MODULES))
    except (messaging.DriverLoadFailure, ImportError) as error:
        raise errors.ConfigError(f"{option} cannot be used: {error}") from error
    except (messaging.InvalidTransportURL, ValueError):
        # What they say may show parts of the URL, and a traceback would show what they say
        raise errors.ConfigError(
            f"{option} cannot be read as a URL; special characters in a password have to be percent-encoded"
        ) from None
