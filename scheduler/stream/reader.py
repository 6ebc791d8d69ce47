"""Reading the decision stream, in a thread of its own.

A subscription can end without a word: the broker does not tell when a stream is deleted and created anew with
fewer messages, nor when its host is cut off. So this scheduler's own beats must come back; if they do not for
``SILENT_AFTER`` seconds, it subscribes again, on the next host, from some minutes ago. What it knows already
is recognized by the counters of the senders.
"""

from collections.abc import Callable
import time

from scheduler.background import BackgroundLoop
from scheduler.hosts.pending import LIFETIME
from scheduler.stream.broker import StreamConnection, StreamUnavailable

SILENT_AFTER = 15.0
"""Seconds without an own record after which the stream is subscribed to again."""

REPLAYED = f"{LIFETIME + 30:.0f}s"
"""From when on the stream is read at each subscription, for RabbitMQ: what is older has no effect."""

POLL_INTERVAL = 0.5
RETRY_INTERVAL = 1.0


class StreamReader:
    """Delivers the messages of the stream, from some minutes before each subscription on."""

    def __init__(
        self,
        connect: Callable[[], StreamConnection],
        deliver: Callable[[bytes], None],
        on_subscribed: Callable[[], None],
        on_failure: Callable[[StreamUnavailable], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up the reader; nothing is connected to before ``start``.

        Args:
            connect: Connects to the stream.
            deliver: Called with the body of each message.
            on_subscribed: Called after each subscription, before its first message.
            on_failure: Called with each reason for which nothing can be read.
            clock: Seconds that only grow.
        """
        self._connect = connect
        self._deliver = deliver
        self._on_subscribed = on_subscribed
        self._on_failure = on_failure
        self._clock = clock
        self._connection: StreamConnection | None = None
        self._retry_at = 0.0
        self._own_seen_at = 0.0
        self._catching_up = True
        self._loop = BackgroundLoop("decision-stream-reader", self.run_round)

    def start(self) -> None:
        """Begin to read."""
        self._loop.start()

    def stop(self, timeout: float) -> None:
        """Stop reading, in ``timeout`` seconds at most."""
        if self._loop.stop(timeout):
            self._disconnect()

    def see_own_record(self) -> None:
        """Note that a new record of this scheduler has come back."""
        self._catching_up = False
        self._own_seen_at = self._clock()

    def silent_for(self) -> float:
        """Return the seconds since an own record came back.

        After a subscription, what is older than the first of them counts too.
        """
        return self._clock() - self._own_seen_at

    def run_round(self) -> float:
        """Deliver what arrives. Return the seconds to wait before the next round."""
        now = self._clock()
        if now < self._retry_at:
            return self._retry_at - now
        try:
            if self._connection is None:
                self._connection = self._subscribed()
            self._connection.poll(POLL_INTERVAL)
            self._connection.send_heartbeat()
            if self.silent_for() > SILENT_AFTER:
                host = self._connection.host
                raise StreamUnavailable(f"broker {host}: own records did not come back in {SILENT_AFTER:g} s")
        except StreamUnavailable as error:
            self._disconnect()
            self._retry_at = self._clock() + RETRY_INTERVAL
            self._on_failure(error)
            return RETRY_INTERVAL
        return 0.0

    def _subscribed(self) -> StreamConnection:
        """Return a connection with a subscription that others know of; none is kept if any step fails."""
        connection = self._connect()
        try:
            connection.subscribe(REPLAYED, self._receive)
            self._own_seen_at, self._catching_up = self._clock(), True
            self._on_subscribed()
        except BaseException:
            connection.close()
            raise
        return connection

    def _receive(self, body: bytes) -> None:
        if self._catching_up:
            self._own_seen_at = self._clock()
        self._deliver(body)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
