"""The process of a router: what the daemon runs in the place of a scheduler."""

from collections.abc import Callable
import time
from typing import Any

from oslo_config import cfg

from scheduler import conf as options
from scheduler import errors
from scheduler.conf.partitions import PREFIX, all_partitions
from scheduler.router.proxy import Router
from scheduler.rpc.bus import Bus
from scheduler.rpc.calls import Call
from scheduler.rpc.client import Client, ErrorReply
from scheduler.rpc.errors import of_failure
from scheduler.rpc.methods import VERSION, Method, Methods
from scheduler.rpc.server import Server
from scheduler.rpc.transport import rpc_transport

MOST_IN_FLIGHT = 1000
"""Calls that are received and not answered; further ones are answered with an error."""


MOST_AT_ONCE = 256
"""Threads that each wait for the reply to one call; executor_thread_pool_size unless that is set."""


class RouterService:
    """The parts of a router; the daemon starts and stops them.

    Attributes:
        server: Takes calls.
        router: Calls partitions.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Put the parts together; nothing is connected to yet.

        Raises:
            ConfigError: The transport cannot be used, or there is no partition.
        """
        if not all_partitions(conf):
            raise errors.ConfigError(f"There is no partition to call: add a [{PREFIX}NAME]")
        conf.set_default("executor_thread_pool_size", MOST_AT_ONCE)
        self.conf = conf
        method = Method(VERSION, self.select_destinations, reads=False)
        bus = Bus(rpc_transport(conf), conf.berth.largest_message)
        self.server = Server(conf, bus, Methods({"select_destinations": method}))
        client = Client(bus, self.server.on_connection)
        self.router = Router(all_partitions(conf), client, lambda: conf.berth.outage_patience)
        # the watchdog takes a router for stuck whose threads all wait, and hear nothing
        self.router.on_sign = self.server.open_calls.touch

    def start(self) -> None:
        """Begin to look at partitions that do not answer."""
        self.router.presence.start()

    def _wait(self, timeout: float) -> bool:
        """Return True: no database is read, and requests wait for partitions that do not reply."""
        return True

    wait_until_ready = wait_until_able = _wait

    def _do_nothing(self) -> None:
        """Do nothing: options take effect at the next start, and requests under way are answered."""

    catch_up = reset = stop_claiming = _do_nothing

    def stop(self, seconds_left: Callable[[], float]) -> None:
        """Look at no partition any more."""
        self.router.presence.stop()

    def select_destinations(self, call: Call, /, **arguments: Any) -> Any:
        """Return what a partition replies; arguments and replies are as they are on the wire.

        Raises:
            RemoteError: A partition has replied an error.
            PartitionUnreachable, ReturnedToBroker: As ``Router.reply_to``.
        """
        if len(self.server.open_calls) > MOST_IN_FLIGHT:
            raise errors.RouterBusy(MOST_IN_FLIGHT)
        message: dict[str, Any] = {"method": "select_destinations", "args": arguments, "version": VERSION}
        message |= {f"_context_{key}": value for key, value in call.frame.context.items()}
        now = time.monotonic()
        patience = options.caller_patience(self.conf) - max(0.0, now - call.received)
        reply = self.router.reply_to(message, patience, again=call.may_have_left(now))
        if isinstance(reply, ErrorReply):
            raise of_failure(*reply)
        return reply
