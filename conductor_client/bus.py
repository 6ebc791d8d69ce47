"""A message bus, as somebody sees it who calls on it and serves on it."""

import oslo_messaging as messaging

from scheduler.rpc.serializer import ObjectSerializer


class Bus:
    """A broker's virtual host (or the in-memory driver) with an exchange on it.

    url: transport URL; None for ``[DEFAULT]/transport_url``.
    exchange: None for ``[DEFAULT]/control_exchange``. The in-memory driver knows no virtual hosts, so there
    the exchange is what keeps two buses apart.
    """

    def __init__(self, conf, url=None, exchange=None):
        self.conf = conf
        self.exchange = exchange
        # no module is allowed: errors arrive as RemoteError, whether nova is installed here or not
        self.transport = messaging.get_rpc_transport(conf, url=url, allowed_remote_exmods=[])
        self._serializer = ObjectSerializer()

    def client(self, topic, version, **options):
        """An RPC client; options as of ``oslo_messaging.get_rpc_client`` (timeout, call_monitor_timeout)."""
        target = messaging.Target(topic=topic, version=version, exchange=self.exchange)
        return messaging.get_rpc_client(self.transport, target, serializer=self._serializer, **options)

    def server(self, topic, name, endpoint):
        """An RPC server, not started: ``name`` tells apart those that share the topic."""
        target = messaging.Target(topic=topic, server=name, exchange=self.exchange)
        return messaging.get_rpc_server(
            self.transport,
            target,
            [endpoint],
            serializer=self._serializer,
            access_policy=messaging.ExplicitRPCAccessPolicy,
        )

    def close(self):
        """Drop the connections. With the in-memory driver this empties every bus of the process."""
        self.transport.cleanup()
