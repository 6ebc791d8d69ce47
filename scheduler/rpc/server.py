"""The server on topic ``scheduler`` (spec: wire-and-config 1.1, 1.4)."""

import oslo_messaging as messaging
from oslo_messaging.rpc import dispatcher, server

from scheduler.rpc import endpoints
from scheduler.rpc.heartbeats import Heartbeats
from scheduler.rpc.serializer import ServerSerializer
from scheduler.rpc.transport import TOPIC


class Server(server.RPCServer):
    """oslo.messaging's server, with heartbeats from the receipt of a message on.

    ``start()`` begins to take messages, ``stop()`` takes no more, ``wait()`` returns once those taken are
    answered.
    """

    def __init__(self, transport, target, dispatcher, executor=None):
        self._heartbeats = Heartbeats()
        super().__init__(transport, target, _Dispatcher(dispatcher, self._heartbeats), "threading")

    def _on_incoming(self, incoming):
        for message in incoming:
            self._heartbeats.watch(message)
        super()._on_incoming(incoming)


class _Dispatcher:
    """Ends the heartbeats of a call before it is answered."""

    def __init__(self, dispatcher, heartbeats):
        self._dispatcher = dispatcher
        self._heartbeats = heartbeats

    def dispatch(self, incoming):
        try:
            return self._dispatcher.dispatch(incoming)
        finally:
            self._heartbeats.release(incoming)


def build(conf, transport, manager):
    """A server that hands requests to ``manager``, named ``[DEFAULT]/host``; not started."""
    served = [endpoints.Scheduler(manager), endpoints.Base()]
    if conf.rpc_ping_enabled:
        # the library looks at the global configuration object only, which is not ours
        served.append(dispatcher.PingEndpoint())
    return messaging.get_rpc_server(
        transport,
        messaging.Target(topic=TOPIC, server=conf.host),
        served,
        serializer=ServerSerializer(),
        access_policy=messaging.DefaultRPCAccessPolicy,
        server_cls=Server,
    )
