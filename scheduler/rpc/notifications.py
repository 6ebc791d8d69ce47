"""Notifications of the start and the end of a request (spec: wire-and-config 5).

Nothing is sent unless ``[oslo_messaging_notifications]/driver`` is set. What is sent goes out from a thread
of its own: a notification broker that is away costs notifications, never scheduling.
"""

import logging
import queue
import threading

import oslo_messaging as messaging

from scheduler.rpc import legacy_payload, transport, versioned_payload

LOG = logging.getLogger(__name__)

START = "scheduler.select_destinations.start"
END = "scheduler.select_destinations.end"
SERVICE_CREATE = "service.create"

#: Notifications that may wait for the broker; about ten kilobytes each.
MOST_WAITING = 1000
_STOP = object()


class Notifications:
    """What the manager tells; each call returns at once, and never raises."""

    def __init__(self, channels, most_waiting=MOST_WAITING):
        """``channels`` are pairs of a module that makes payloads and an oslo.messaging Notifier."""
        self._channels = list(channels)
        self._waiting = queue.Queue(most_waiting)
        self._thread = None
        self._lock = threading.Lock()
        self._dropping = False

    def select_destinations_start(self, context, spec):
        """Candidates are known, and hosts will now be looked at."""
        self._tell(context, START, "of_request", spec)

    def select_destinations_end(self, context, spec):
        """All instances have their hosts."""
        self._tell(context, END, "of_request", spec)

    def service_created(self, context, service):
        """The row of this scheduler in table ``services`` is new; ``service`` maps its columns to values."""
        self._tell(context, SERVICE_CREATE, "of_service", service)

    def stop(self, timeout):
        """Send what waits, for at most ``timeout`` seconds."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            self._waiting.put(_STOP, timeout=timeout)
        except queue.Full:
            return
        thread.join(timeout)

    def _tell(self, context, event, maker, subject):
        for payloads, notifier in self._channels:
            try:
                # made here, as the request goes on changing
                if make := getattr(payloads, maker, None):
                    self._put(notifier, context.redacted_copy(), event, make(subject))
            except Exception:
                LOG.exception("Notification %s could not be made", event)

    def _put(self, *notification):
        try:
            self._waiting.put_nowait(notification)
            self._dropping = False
        except queue.Full:
            if not self._dropping:
                LOG.warning(
                    "Notifications are dropped: %d wait for their broker already", self._waiting.maxsize
                )
            self._dropping = True
        with self._lock:
            if self._thread is None:
                # not before the first use: a process that forks would lose it
                self._thread = threading.Thread(target=self._send, name="notifications", daemon=True)
                self._thread.start()

    def _send(self):
        while (notification := self._waiting.get()) is not _STOP:
            notifier, context, event, payload = notification
            try:
                notifier.info(context, event, payload)
            except Exception as error:  # noqa: BLE001 - one lost notification must not end the others
                LOG.warning("Notification %s was not sent: %s", event, error)


def build(conf, serializer):
    """The notifications that the options ask for. Raises ``ConfigError`` for a URL that cannot be used."""
    if not conf.oslo_messaging_notifications.driver:
        return Notifications(())
    bus = transport.notification_transport(conf)
    form = conf.notifications.notification_format
    channels = []
    if form in ("unversioned", "both"):
        notifier = messaging.Notifier(bus, f"scheduler.{conf.host}", serializer=serializer)
        channels.append((legacy_payload, notifier))
    if form in ("versioned", "both"):
        topics = conf.notifications.versioned_notifications_topics
        notifier = messaging.Notifier(
            bus, f"nova-scheduler:{conf.host}", serializer=serializer, topics=topics
        )
        channels.append((versioned_payload, notifier))
    return Notifications(channels)
