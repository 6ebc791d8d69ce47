"""The process of a router: what the daemon runs in the place of a scheduler."""

from collections.abc import Callable
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging as messaging

from scheduler import conf as options
from scheduler import errors
from scheduler.conf.partitions import PREFIX, all_partitions
from scheduler.router.proxy import Router, Unreachable
from scheduler.rpc import calls, server, transport
from scheduler.rpc.client import BrokerAway, Client, Failure
from scheduler.rpc.context import RequestContext
from scheduler.rpc.endpoints import VERSION
from scheduler.rpc.errors import for_caller, of_failure

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
        self._bus = transport.rpc_transport(conf)
        self._client = Client(self._bus, conf.berth.largest_message)
        self._router = Router(all_partitions(conf), self._client, lambda: conf.berth.outage_patience)

    def start(self) -> None:
        """Connect to the broker; waits until it is available."""
        self._client.start()
        self._router.presence.start()

    def wait_until_ready(self, timeout: float) -> bool:
        """Return True: no database is read."""
        return True

    def wait_until_able(self, timeout: float) -> bool:
        """Return True: requests wait for partitions that do not reply."""
        return True

    def catch_up(self) -> None:
        """Do nothing: a router knows nothing of earlier decisions."""

    def reset(self) -> None:
        """Do nothing: the options of partitions take effect at the next start."""

    def stop_claiming(self) -> None:
        """Do nothing: requests under way are answered."""

    def stop(self, seconds_left: Callable[[], float]) -> None:
        """Close the connection, after the last request."""
        self._router.presence.stop()
        self._client.stop()

    def server(self) -> server.Server:
        endpoint = Calls(self.conf, self._router)
        made = server.make(self.conf, self._bus, [endpoint])
        made.takes_casts = False
        endpoint.unanswered = lambda: made.unanswered
        # the watchdog takes a router for stuck whose threads all wait, and hear nothing
        self._router.on_sign = made.activity.touch
        return made


class Calls:
    """The methods that a router takes. Arguments and replies are as they are on the wire."""

    target = messaging.Target(version=VERSION)

    def __init__(self, conf: cfg.ConfigOpts, router: Router) -> None:
        self._conf = conf
        self._router = router
        self.unanswered: Callable[[], int] = lambda: 0

    def select_destinations(self, context: dict[str, Any], **arguments: Any) -> Any:
        """Return what a partition replies."""
        RequestContext.from_dict(context).update_store()
        current = calls.CURRENT.get()
        try:
            try:
                return self._reply(context, arguments, current)
            except Exception as error:  # noqa: BLE001 - sent in a form that callers can read
                raise for_caller(error) from None
        except Exception:  # noqa: BLE001 - oslo.messaging sends it and logs nothing
            raise messaging.ExpectedException from None

    def _reply(self, context: dict[str, Any], arguments: dict[str, Any], current: calls.Call | None) -> Any:
        if self.unanswered() > MOST_IN_FLIGHT:
            raise errors.RouterBusy(MOST_IN_FLIGHT)
        message = {"method": "select_destinations", "args": arguments, "version": VERSION}
        message |= {f"_context_{key}": value for key, value in context.items()}
        now = time.monotonic()
        waited = max(0.0, now - current.received) if current else 0.0
        again = current is not None and calls.caller_may_have_left(current, now)
        try:
            reply = self._router.reply_to(message, options.caller_patience(self._conf) - waited, again=again)
        except Unreachable as error:
            LOG.warning("No host found, and partitions did not answer: %s", error)
            raise errors.PartitionUnreachable from None
        except BrokerAway as error:
            if current is not None and current.can_be_requeued:
                raise calls.Requeued(str(error)) from error
            raise
        if isinstance(reply, Failure):
            raise of_failure(*reply)
        return reply
