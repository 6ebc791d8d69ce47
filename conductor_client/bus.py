"""A message bus, for clients and servers."""

from oslo_config import cfg
import oslo_messaging as messaging

from scheduler.rpc.serializer import ObjectSerializer


class Bus:
    """An exchange in a virtual host of a broker, or in the in-memory driver."""

    def __init__(self, conf: cfg.ConfigOpts, url: str | None = None, exchange: str | None = None) -> None:
        """Describe a bus; it is connected when it is first used.

        Args:
            url: The transport URL; None for ``[DEFAULT]/transport_url``.
            exchange: The exchange; None for ``[DEFAULT]/control_exchange``. The in-memory driver has no
            virtual
                hosts: there the exchange separates two buses.
        """
        self.conf = conf
        self.exchange = exchange
        # no module is allowed: errors arrive as RemoteError, also if nova is installed
        self.transport = messaging.get_rpc_transport(conf, url=url, allowed_remote_exmods=[])
        self._serializer = ObjectSerializer()

    def client(self, topic: str, version: str, **options: float | None) -> messaging.RPCClient:
        """Return an RPC client; ``options`` are those of ``oslo_messaging.get_rpc_client``."""
        target = messaging.Target(topic=topic, version=version, exchange=self.exchange)
        return messaging.get_rpc_client(self.transport, target, serializer=self._serializer, **options)

    def server(self, topic: str, name: str, *endpoints: object) -> messaging.MessageHandlingServer:
        """Return an RPC server, not started; each server of a topic has its own ``name``."""
        target = messaging.Target(topic=topic, server=name, exchange=self.exchange)
        return messaging.get_rpc_server(
            self.transport,
            target,
            endpoints,
            serializer=self._serializer,
            access_policy=messaging.ExplicitRPCAccessPolicy,
        )

    def close(self) -> None:
        """Close the connections. With the in-memory driver this empties every bus of the process."""
        self.transport.cleanup()
