"""Reading the decision stream, in a thread of its own.

After each subscription this scheduler publishes a record, the *marker*: what is read before it comes back may
be older than the subscription. A subscription can end without notice: the broker does not report when a
stream is deleted and created again with fewer messages, nor when its host is cut off. So this scheduler's own
beats must come back; if they do not for ``SILENT_AFTER`` seconds, it subscribes again, on the next host, from
some minutes ago. What it knows already is recognized by the counters of the senders.
"""

from collections.abc import Callable
import math
import threading
import time

from scheduler.hosts.pending import LIFETIME
from scheduler.stream.broker import StreamConnection, StreamUnavailable, UnreadableMessage
from scheduler.stream.connected_loop import ConnectedLoop

SILENT_AFTER = 15.0
"""Seconds without an own record after which the stream is subscribed to again."""

REPLAYED = f"{LIFETIME + 30:.0f}s"
"""From when on the stream is read at each subscription, for RabbitMQ: what is older has no effect."""

ROUND = 0.5
"""Seconds that one round waits for messages, and reads them, before heartbeats are looked after."""

SPELL, REST = 0.005, 3.0
"""Seconds of CPU that one round takes, and how many times as long the rest after it is.

So a flood of records leaves the interpreter to the requests. There is no rest before the first request.
"""

MOST_REFUSALS = 3
"""Refusals of the broker, one after the other, after which a start waits for the stream no longer."""


class StreamReader:
    """Delivers the messages of the stream, from some minutes before each subscription on."""

    def __init__(
        self,
        connect: Callable[[], StreamConnection],
        deliver: Callable[[bytes | str], None],
        publish_marker: Callable[[], int],
        on_failure: Callable[[StreamUnavailable], None],
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        """Set up the reader; nothing is connected to before ``start``.

        Args:
            deliver: Called with the body of each message.
            publish_marker: Called after each subscription, before its first message; publishes a record and
                returns its counter.
            on_failure: Called with each reason for which nothing can be read.
            cpu: Seconds of CPU that the calling thread took.
        """
        self._connect = connect
        self._deliver = deliver
        self._publish_marker = publish_marker
        self._on_failure = on_failure
        self._clock = clock
        self._cpu = cpu
        self._offset = REPLAYED
        self._marker = math.inf
        self._last_own = -1
        self._own_seen_at = 0.0
        self._own_expected = False
        self._refusals = 0
        self._caught_up = False
        self._start_is_over = threading.Event()
        self.loop = ConnectedLoop("decision-stream-reader", self._subscribe, self._read, self._fail, clock)

    # -- how far it was read ---------------------------------------------------------------------------------

    @property
    def is_replaying(self) -> bool:
        """Whether what is read may be older than the subscription."""
        return self._marker < math.inf

    @property
    def in_step(self) -> bool:
        """Whether own records come back, so that others' are seen too."""
        return self._caught_up and self._silent_for() <= SILENT_AFTER

    def wait_until_caught_up(self, timeout: float) -> bool:
        """Wait until what was written before the start is read, or until the broker refuses.

        Args:
            timeout: Seconds that it may take.

        Returns:
            Whether it is read.
        """
        self._start_is_over.wait(timeout)
        return self._caught_up

    def is_new(self, counter: int, published: int) -> bool:
        """Return whether an own record was published here and not seen before.

        Args:
            published: How many records were published: others can write what names this scheduler.
        """
        return self._last_own < counter < published

    def see_own(self, counter: int) -> None:
        """Note an own record that is new, by its counter, once it has had its effect."""
        self._last_own = counter
        self._own_expected, self._own_seen_at = True, self._clock()
        if counter >= self._marker:
            self._marker = math.inf
            self._caught_up = True
            self._refusals = 0
            self._start_is_over.set()

    def _silent_for(self) -> float:
        """Return the seconds since an own record came back; after a subscription, since any record did."""
        return self._clock() - self._own_seen_at

    # -- on the thread ---------------------------------------------------------------------------------------

    def _subscribe(self) -> StreamConnection:
        """Return a connection with a subscription that others know of; none is kept if any step fails."""
        connection = self._connect()
        try:
            connection.subscribe(self._offset)
            self._offset = REPLAYED
            self._own_seen_at, self._own_expected = self._clock(), False
            self._marker = self._publish_marker()
        except BaseException:
            connection.close()
            raise
        return connection

    def _read(self, connection: StreamConnection) -> float:
        """Deliver what arrives within a round. Return the seconds to rest."""
        before, end, spent = self._cpu(), self._clock() + ROUND, 0.0
        while (left := end - self._clock()) > 0 and spent < SPELL:
            body = connection.receive(left)
            if body is None:
                break
            if not self._own_expected:
                self._own_seen_at = self._clock()
            self._deliver(body)
            spent = self._cpu() - before
        connection.send_heartbeat()
        if self._silent_for() > SILENT_AFTER:
            raise StreamUnavailable(
                f"broker {connection.host}: own records did not come back in {SILENT_AFTER:g} s"
            )
        return REST * spent if self._caught_up else 0.0

    def _fail(self, error: StreamUnavailable) -> None:
        if isinstance(error, UnreadableMessage):
            self._offset = "next"  # the same message would be met again
        self._refusals = self._refusals + 1 if error.refused else 0
        if self._refusals >= MOST_REFUSALS:
            self._start_is_over.set()
        self._on_failure(error)
