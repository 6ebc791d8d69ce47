"""Signs of life for callers that wait (spec: wire-and-config 1.6).

A call is watched from its receipt, so that callers also hear from requests that wait for a free thread. One
thread serves all calls: oslo.messaging's own would be one a call, which never ends if the method is unknown.
"""

import logging
import threading
import time

LOG = logging.getLogger(__name__)

#: Seconds between looks at the calls. The shortest interval of a caller is one second.
TICK = 0.25


class Heartbeats:
    """Sends a heartbeat for each watched call, every half of its timeout."""

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self._calls = {}
        self._changed = threading.Condition()
        self._thread = None

    def watch(self, incoming):
        """Begin to send heartbeats for a message. The library's own are switched off for it."""
        interval = _interval(incoming.client_timeout)
        incoming.client_timeout = None
        if interval is None:
            return
        with self._changed:
            self._calls[id(incoming)] = _Call(incoming, interval, self._clock() + interval)
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)
                self._thread.start()

    def release(self, incoming):
        """Send no more for this message; when this returns, none is under way."""
        with self._changed:
            call = self._calls.pop(id(incoming), None)
        if call:
            call.end()

    def send_due(self):
        """Send what is due now."""
        now = self._clock()
        with self._changed:
            due = [(key, call) for key, call in self._calls.items() if call.due <= now]
        for key, call in due:
            if not call.send(now):
                with self._changed:
                    self._calls.pop(key, None)

    def _run(self):
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._calls)
            time.sleep(TICK)
            self.send_due()


class _Call:
    """One watched call."""

    def __init__(self, incoming, interval, due):
        self.due = due
        self._incoming = incoming
        self._interval = interval
        self._lock = threading.Lock()
        self._ended = False

    def send(self, now):
        """Send one heartbeat; False if that failed, which ends them for this call."""
        self.due = now + self._interval
        with self._lock:
            if self._ended:
                return True
            try:
                self._incoming.heartbeat()
            except Exception as error:  # noqa: BLE001 - whatever the driver raises, the call itself goes on
                LOG.debug("No more heartbeats for a call: %s", error)
                return False
        return True

    def end(self):
        with self._lock:
            self._ended = True


def _interval(client_timeout):
    """Half of a caller's timeout, in seconds; None if it did not ask, or for nonsense."""
    if not client_timeout:
        return None
    try:
        interval = int(client_timeout) / 2
    except (TypeError, ValueError, OverflowError):
        interval = 0
    if interval < 1:
        LOG.warning(
            "A caller's timeout of %.40r is no number of seconds from 2 up: no heartbeats", client_timeout
        )
        return None
    return interval
