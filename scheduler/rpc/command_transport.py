"""The transport of commands, which call schedulers and end: it leaves nothing on the broker.

The reply queue of a daemon lives on for ``rabbit_transient_queues_ttl``, as a quorum queue if the options say
so, since the daemon may come back to it. That of a command is exclusive: a classic queue, which the broker
deletes with its connection, also if the command is killed.
"""

from collections.abc import Callable

import kombu
from oslo_config import cfg
import oslo_messaging as messaging

from scheduler.rpc import library
from scheduler.rpc.transport import rpc_transport


def command_transport(conf: cfg.ConfigOpts) -> messaging.Transport:
    """Return the transport of a command, not yet connected; raises as ``rpc_transport``."""
    made = rpc_transport(conf)
    library.use_connections(made, _Connection)
    return made


class _Connection(library.Connection):
    def declare_direct_consumer(self, topic: str, callback: Callable[[library.RabbitMessage], None]) -> None:
        consumer = _ExclusiveConsumer(
            exchange_name="",
            queue_name=topic,
            routing_key="",
            type="direct",
            durable=False,
            exchange_auto_delete=False,
            queue_auto_delete=True,
            callback=callback,
        )
        self.declare_consumer(consumer)


class _ExclusiveConsumer(library.ExclusiveConsumer):
    def declare(self, conn: library.Connection) -> None:
        # The type is named, as a virtual host may have another default
        self.queue = kombu.Queue(
            self.queue_name,
            self.exchange,
            channel=conn.channel,
            durable=self.durable,
            exclusive=True,
            queue_arguments={"x-queue-type": "classic"},
        )
        self.queue.declare()
        self.note_declared(conn)
