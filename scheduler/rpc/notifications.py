"""Notifications of the start and the end of a request (spec: wire-and-config 5).

Nothing is sent unless ``[oslo_messaging_notifications]/driver`` is set. A thread of its own sends: a
notification broker that is away costs notifications, never scheduling.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
import threading
import time
from typing import NamedTuple

from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging as messaging

from scheduler import objects
from scheduler.bounds.background import BackgroundLoop
from scheduler.logs import RateLimitedLogger
from scheduler.rpc import payloads, transport
from scheduler.rpc.context import RequestContext
from scheduler.rpc.serializer import ObjectSerializer

LOG = logging.getLogger(f"nova.{__name__}")

START = "scheduler.select_destinations.start"
END = "scheduler.select_destinations.end"
SERVICE_CREATE = "service.create"

#: Notifications that may wait for the broker; about ten kilobytes each.
MOST_WAITING = 1000

#: Seconds that the thread sleeps while nothing waits; a new notification wakes it.
IDLE = 3600.0


class Channel(NamedTuple):
    """One form of notifications, and the Notifier of oslo.messaging that sends it."""

    notifier: messaging.Notifier
    of_request: Callable[[objects.RequestSpec], payloads.Payload]
    of_service: Callable[[Mapping[str, object]], payloads.Payload | None] = lambda _service: None


class Notifications:
    """Sends what the manager reports; each method but ``stop`` returns at once, and none raises."""

    def __init__(
        self,
        channels: Iterable[Channel],
        most_waiting: int = MOST_WAITING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Send on each of ``channels``; further notifications are dropped while ``most_waiting`` wait."""
        self._channels = list(channels)
        self._most_waiting = most_waiting
        self._waiting: deque[Callable[[], None]] = deque()
        # started by the first use: most clouds have no notifications
        self._loop = BackgroundLoop("notifications", self._send_waiting)
        self._warnings = RateLimitedLogger(LOG, clock=clock)

    def select_destinations_start(self, context: RequestContext, spec: objects.RequestSpec) -> None:
        """Report that candidates are known and hosts are about to be examined."""
        self._notify(context, START, lambda channel: channel.of_request(spec))

    def select_destinations_end(self, context: RequestContext, spec: objects.RequestSpec) -> None:
        """Report that all instances have their hosts."""
        self._notify(context, END, lambda channel: channel.of_request(spec))

    def service_created(self, context: RequestContext, service: Mapping[str, object]) -> None:
        """Report a new record of this scheduler in table ``services``."""
        self._notify(context, SERVICE_CREATE, lambda channel: channel.of_service(service))

    def stop(self, timeout: float) -> None:
        """Send what waits, for at most ``timeout`` seconds, and end the thread."""
        if not self._loop.running:
            return
        all_sent = threading.Event()
        self._waiting.append(all_sent.set)
        self._loop.wake()
        all_sent.wait(timeout)
        self._loop.stop(0)

    def _notify(
        self, context: RequestContext, event: str, make: Callable[[Channel], payloads.Payload | None]
    ) -> None:
        for channel in self._channels:
            try:
                payload = make(channel)  # here, as the request continues to change
                if payload is not None:
                    self._put(partial(self._send, channel.notifier, context.redacted_copy(), event, payload))
            except Exception:
                LOG.exception("Cannot make notification %s", event)

    def _put(self, notification: Callable[[], None]) -> None:
        if len(self._waiting) < self._most_waiting:
            self._waiting.append(notification)
        else:
            self._warnings.warning(
                "full", "Dropped a notification: %d are waiting for the broker", self._most_waiting
            )
        try:
            self._loop.start()
        except RuntimeError as error:  # the next notification tries again
            self._warnings.warning("start", "Cannot start the notification thread: %s", error)
        self._loop.wake()

    def _send_waiting(self) -> float:
        """Send all that waits; return the seconds until the next look."""
        while self._waiting:
            self._waiting.popleft()()
        return IDLE

    def _send(
        self, notifier: messaging.Notifier, context: RequestContext, event: str, payload: payloads.Payload
    ) -> None:
        try:
            notifier.info(context, event, payload)
        except Exception as error:  # noqa: BLE001 - one lost notification must not end the others
            self._warnings.warning("send", "Notification %s was not sent: %s", event, error)


def build(conf: cfg.ConfigOpts) -> Notifications:
    """Return the notifications that the options enable.

    Raises:
        ConfigError: The URL of the notification bus cannot be used.
    """
    if not conf.oslo_messaging_notifications.driver:
        return Notifications(())
    bus = transport.notification_transport(conf)
    form, serializer = conf.notifications.notification_format, ObjectSerializer()
    channels = []
    if form in ("unversioned", "both"):
        notifier = messaging.Notifier(bus, f"scheduler.{conf.host}", serializer=serializer)
        channels.append(Channel(notifier, payloads.unversioned_request))
    if form in ("versioned", "both"):
        topics = conf.notifications.versioned_notifications_topics
        notifier = messaging.Notifier(
            bus, f"nova-scheduler:{conf.host}", serializer=serializer, topics=topics
        )
        channels.append(Channel(notifier, payloads.versioned_request, payloads.versioned_service))
    return Notifications(channels)
