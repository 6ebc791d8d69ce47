"""The process of a router: what the daemon runs in the place of a scheduler."""

from collections.abc import Callable
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from scheduler import conf as options
from scheduler import errors
from scheduler.conf.partitions import PREFIX, all_partitions
from scheduler.router.proxy import Router, Unreachable
from scheduler.rpc.bus import Bus
from scheduler.rpc.calls import Call
from scheduler.rpc.client import BrokerAway, Client, ErrorReply
from scheduler.rpc.errors import of_failure
from scheduler.rpc.methods import VERSION, Method, Methods, Table
from scheduler.rpc.server import Server
from scheduler.rpc.transport import rpc_transport

LOG = logging.getLogger(f"nova.{__name__}")

MOST_IN_FLIGHT = 1000
"""Calls that are received and not answered; further ones are answered with an error."""


MOST_AT_ONCE = 256
"""Threads that each wait for the reply to one call; executor_thread_pool_size unless that is set."""


class RouterService:
    """The parts of a router; the daemon starts and stops them."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Put the parts together; nothing is connected to yet.

        Raises:
            ConfigError: The transport cannot be used, or there is no partition.
        """
        if not all_partitions(conf):
            raise errors.ConfigError(f"There is no partition to call: add a [{PREFIX}NAME]")
        conf.set_default("executor_thread_pool_size", MOST_AT_ONCE)
        self.conf = conf
        self._bus = Bus(rpc_transport(conf), conf.berth.largest_message)
        self._client = Client(self._bus)
        self._router = Router(all_partitions(conf), self._client, lambda: conf.berth.outage_patience)

    def start(self) -> None:
        """Connect to the broker; waits until it is available."""
        self._client.start()
        self._router.presence.start()

    def _wait(self, timeout: float) -> bool:
        """Return True: no database is read, and requests wait for partitions that do not reply."""
        return True

    wait_until_ready = wait_until_able = _wait

    def _do_nothing(self) -> None:
        """Do nothing: options take effect at the next start, and requests under way are answered."""

    catch_up = reset = stop_claiming = _do_nothing

    def stop(self, seconds_left: Callable[[], float]) -> None:
        """Close the connection, after the last request."""
        self._router.presence.stop()
        self._client.stop()

    def server(self) -> Server:
        """Return the server that routes calls, not started."""
        calls = Calls(self.conf, self._router)
        table: Table = {
            (None, "select_destinations"): Method(VERSION, calls.select_destinations, reads=False)
        }
        made = Server(self.conf, self._bus, Methods(table))
        calls.unanswered = lambda: len(made.open_calls)
        # the watchdog takes a router for stuck whose threads all wait, and hear nothing
        self._router.on_sign = made.open_calls.touch
        return made


class Calls:
    """What a router does with calls. Arguments and replies are as they are on the wire."""

    def __init__(self, conf: cfg.ConfigOpts, router: Router) -> None:
        self._conf = conf
        self._router = router
        self.unanswered: Callable[[], int] = lambda: 0

    def select_destinations(self, call: Call, /, **arguments: Any) -> Any:
        """Return what a partition replies.

        Raises:
            RemoteError: A partition has replied an error.
            ReturnedToBroker: The broker is unavailable.
        """
        if self.unanswered() > MOST_IN_FLIGHT:
            raise errors.RouterBusy(MOST_IN_FLIGHT)
        message: dict[str, Any] = {"method": "select_destinations", "args": arguments, "version": VERSION}
        message |= {f"_context_{key}": value for key, value in call.frame.context.items()}
        now = time.monotonic()
        patience = options.caller_patience(self._conf) - max(0.0, now - call.received)
        try:
            reply = self._router.reply_to(message, patience, again=call.may_have_left(now))
        except Unreachable as error:
            LOG.warning("No host found, and partitions did not answer: %s", error)
            raise errors.PartitionUnreachable from None
        except BrokerAway as error:
            raise errors.ReturnedToBroker(str(error)) from error
        if isinstance(reply, ErrorReply):
            raise of_failure(*reply)
        return reply
