"""Connections to the message bus. Source: spec wire-and-config 1.1, 5.1."""

import oslo_messaging as messaging

TOPIC = "scheduler"
BASE_NAMESPACE = "baseapi"

#: modules of which a caller rebuilds an error as its own class
ERROR_MODULES = ("nova.exception",)


def rpc_transport(conf, url=None):
    """The connection for requests; ``[DEFAULT]/transport_url`` unless ``url`` is given."""
    return messaging.get_rpc_transport(conf, url=url, allowed_remote_exmods=list(ERROR_MODULES))


def notification_transport(conf):
    """The connection for notifications; ``[oslo_messaging_notifications]/transport_url`` or the other's."""
    return messaging.get_notification_transport(conf, allowed_remote_exmods=list(ERROR_MODULES))
