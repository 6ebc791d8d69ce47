"""Heartbeats to callers that wait for a reply (spec: wire-and-config 1.6).

A call is watched from its receipt, so that callers also hear from requests that wait for a free thread. One
thread serves all calls. oslo.messaging would start one for each call, which never ends if the
method is unknown.
"""

from collections.abc import Callable
import math
import threading
import time

from oslo_log import log as logging

from scheduler.bounds.background import BackgroundLoop, MakeLoop
from scheduler.logs import RateLimitedLogger
from scheduler.rpc.amqp.library import RpcIncomingMessage

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between looks at the calls. The shortest interval of a caller is one second.
TICK = 0.25

#: Seconds that the thread sleeps while there is no call; a new call wakes it.
IDLE = 3600.0

#: Seconds for which a reply waits for a heartbeat that is being sent. While the broker is unavailable that
#: takes longer, and the reply has a minute of its own.
LAST_TIMEOUT = 5.0


class Heartbeats:
    """Sends a heartbeat for each watched call, every half of its timeout. Any thread may call the methods."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        tick: float = TICK,
        make_loop: MakeLoop = BackgroundLoop,
    ) -> None:
        """Watch no call yet.

        Args:
            tick: Seconds between looks at the calls.
        """
        self._clock = clock
        self._tick = tick
        self._calls: dict[int, _Call] = {}
        self._lock = threading.Lock()
        self._loop = make_loop("heartbeats", self._round)
        self._warnings = RateLimitedLogger(LOG, clock=clock)

    def start(self) -> None:
        """Start the thread, before the first call is received.

        Raises:
            RuntimeError: The system has no thread left.
        """
        self._loop.start()

    def watch(self, incoming: RpcIncomingMessage, silence: float = 0.0) -> None:
        """Begin to send heartbeats for a message, instead of those of oslo.messaging. Never raises.

        Args:
            incoming: oslo.messaging's incoming message.
            silence: Seconds for which its caller may have heard nothing, from processes that had the message
                before. The first heartbeat is due so much earlier.
        """
        interval = self._interval(incoming.client_timeout)
        incoming.client_timeout = None
        if interval is None:
            return
        with self._lock:
            is_first = not self._calls
            self._calls[id(incoming)] = _Call(incoming, interval, silence, self._clock)
        if is_first:
            self._loop.wake()

    def release(self, incoming: RpcIncomingMessage) -> None:
        """Begin no more heartbeats for this message; wait for one that is being sent, a short time."""
        with self._lock:
            call = self._calls.pop(id(incoming), None)
        if call:
            call.end()

    def send_due(self) -> None:
        """Send the heartbeats that are due now."""
        now = self._clock()
        with self._lock:
            due = [call for call in self._calls.values() if call.due <= now]
        for call in due:
            call.send()

    def _round(self) -> float:
        self.send_due()
        return self._tick if self._calls else IDLE

    def _interval(self, client_timeout: float | str | None) -> float | None:
        """Return half of a caller's timeout, in seconds; None if it is not set or not valid."""
        if not client_timeout:
            return None
        try:
            interval = int(client_timeout) / 2
        except (TypeError, ValueError, OverflowError):
            interval = 0
        if interval < 1:
            self._warnings.warning(
                "timeout",
                "Caller's timeout %.40r is not a number of at least 2 s; sending no heartbeats",
                client_timeout,
            )
            return None
        return interval


class _Call:
    """One watched call.

    Attributes:
        due: When the next heartbeat is to be sent.
    """

    def __init__(
        self, incoming: RpcIncomingMessage, interval: float, silence: float, clock: Callable[[], float]
    ) -> None:
        self._incoming = incoming
        self._interval = interval
        self._clock = clock
        self._lock = threading.Lock()
        self._ended = False
        self.due = clock() + interval - min(silence, interval)

    def send(self) -> None:
        """Send one heartbeat."""
        with self._lock:
            if self._ended:
                self.due = math.inf
                return
            self.due = self._clock() + self._interval
            try:
                self._incoming.heartbeat()
            except Exception as error:  # noqa: BLE001 - whatever the driver raises, the call itself goes on
                LOG.debug("Cannot send a heartbeat: %s", error)

    def end(self) -> None:
        self._ended = True
        if self._lock.acquire(timeout=LAST_TIMEOUT):
            self._lock.release()
