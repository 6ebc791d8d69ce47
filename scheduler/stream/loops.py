"""Reading and writing the decision stream, each in a thread and on a connection of its own.

A publisher of records does not wait: they queue up in memory, within a bound, and are written in as few
messages as they fit into. What becomes of a claim waits up to ``LINGER`` seconds, mostly for the next intent:
each message costs all readers more than a record does, and an intent holds the place already. While the
stream is unavailable the oldest records are dropped and counted; they are of little use to others by then.

After each subscription the reader publishes a record, the *marker*: what is read before it comes back may be
older than the subscription. A subscription can end without notice: the broker does not report when a stream
is deleted and created again with fewer messages, nor when its host is cut off. So this scheduler's own beats
must come back; if they do not for ``SILENT_AFTER`` seconds, it subscribes again, on the next host, from some
minutes ago. What it knows already is recognized by the counters of the senders.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
import math
import threading
import time

from scheduler.bounds.background import STOP_TIMEOUT, BackgroundLoop
from scheduler.hosts.pending import LIFETIME
from scheduler.stream.broker import StreamConnection, StreamUnavailable, UnreadableMessage
from scheduler.stream.records import MOST_RECORDS, VERSION, Entry, Kind, Record, encode

Connect = Callable[[], StreamConnection]
OnFailure = Callable[[StreamUnavailable], None]
"""Called with each reason for which the stream cannot be used, until the loop stops."""

Clock = Callable[[], float]

RETRY_INTERVAL = 1.0
"""Seconds between two attempts to connect."""

BEAT_INTERVAL = 5.0
"""Seconds between two records that a scheduler is alive."""

LINGER = 0.05
"""Seconds that records of ``_CAN_WAIT`` wait at most for others to be written with."""

_CAN_WAIT = frozenset({Kind.CLAIMED, Kind.RELEASED, Kind.GONE})

MOST_WAITING = 10_000
"""Records that wait for the broker at most."""

STALE_AFTER = 60.0
"""Seconds after which a record that could not be written is dropped."""

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


class ConnectedLoop(BackgroundLoop):
    """Works with a connection, again and again; after a failure with another. Its thread alone uses it."""

    def __init__(self, name: str, connect: Connect, on_failure: OnFailure, clock: Clock) -> None:
        """Describe the loop; nothing is connected to before ``start``."""
        super().__init__(name, self.run_round)
        self.failing = False
        self._connect = connect
        self._on_failure = on_failure
        self._clock = clock
        self._connection: StreamConnection | None = None
        self._retry_at = 0.0
        self._stopping = False

    def start(self, delay: float = 0.0) -> None:
        """Start the thread, unless it is running or was stopped."""
        if not self._stopping:
            super().start(delay)

    def stop(self, timeout: float = STOP_TIMEOUT) -> bool:
        """End the thread, in ``timeout`` seconds at most.

        A thread that needs longer closes the connection itself: closed by another thread, it would fail.
        """
        self._stopping = True
        ended = super().stop(timeout)
        if ended:
            self._disconnect()
        return ended

    def run_round(self) -> float:
        """Connect if necessary, and work. Return the seconds to wait before the next round."""
        now = self._clock()
        if now < self._retry_at:
            return self._retry_at - now
        try:
            if self._connection is None:
                self._connection = self._open()
            wait = self._work_on(self._connection)
            self.failing = False
            return wait
        except StreamUnavailable as error:
            self._disconnect()
            self._retry_at, self.failing = self._clock() + RETRY_INTERVAL, True
            if not self._stopping:
                self._fail(error)
            return RETRY_INTERVAL
        finally:
            if self._stopping:
                self._disconnect()

    def _open(self) -> StreamConnection:
        return self._connect()

    def _work_on(self, connection: StreamConnection) -> float:
        """Do one round. Return the seconds until the next one."""
        raise NotImplementedError

    def _fail(self, error: StreamUnavailable) -> None:
        self._on_failure(error)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class StreamWriter(ConnectedLoop):
    """Writes the records of one scheduler. Any thread may publish.

    Attributes:
        published: How many records were published so far; the counter of the next one.
        dropped: How many of them were dropped.
    """

    def __init__(
        self,
        connect: Connect,
        sender: str,
        host: str,
        on_failure: OnFailure,
        clock: Clock = time.time,
        monotonic: Clock = time.monotonic,
    ) -> None:
        """Set up the writer.

        Args:
            sender: Identifies this process.
            host: Its service host.
        """
        super().__init__("decision-stream-writer", connect, on_failure, monotonic)
        self.published = 0
        self.dropped = 0
        self._sender, self._host = sender, host
        self._time = clock
        self._records = threading.Lock()
        self._waiting: deque[Record] = deque()
        self._next_beat = 0.0
        self._due_at = math.inf

    def stop(self, timeout: float = STOP_TIMEOUT) -> bool:
        """Announce that this scheduler stops, and stop writing, in ``timeout`` seconds at most."""
        self.publish(Kind.BYE)
        end = self._clock() + timeout
        while self._waiting and self.running and not self.failing and self._clock() < end:
            time.sleep(0.01)
        return super().stop(max(0.0, end - self._clock()))

    def publish(self, kind: Kind, *entries: Entry) -> int:
        """Publish a record, without a wait; return its counter."""
        due = self._clock() + (LINGER if kind in _CAN_WAIT else 0.0)
        with self._records:
            sooner = due < self._due_at
            self._due_at = min(due, self._due_at)
            counter = self.published
            self.published += 1
            if len(self._waiting) >= MOST_WAITING:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append(
                Record(
                    version=VERSION,
                    kind=kind,
                    sender=self._sender,
                    counter=counter,
                    time=self._time(),
                    entries=entries,
                    host=self._host if kind in {Kind.HELLO, Kind.BEAT} else "",
                )
            )
        if sooner:
            self.wake()
        return counter

    def _work_on(self, connection: StreamConnection) -> float:
        """Write what waits if it is due, and a beat if it is time to. Return the seconds to wait."""
        now = self._clock()
        if now >= self._next_beat:
            self._next_beat = now + BEAT_INTERVAL
            self.publish(Kind.BEAT)
        if now < self._due_at:
            return min(self._due_at, self._next_beat) - now
        self.dropped += self._remove(before=self._time() - STALE_AFTER)
        connection.send_heartbeat()
        while batch := self._first():
            for body, accounted in encode(batch):
                connection.publish(body)
                self._remove(counter=batch[accounted - 1].counter)
                batch = batch[accounted:]
        return max(0.0, min(self._due_at, self._next_beat) - self._clock())

    def _first(self) -> list[Record]:
        with self._records:
            if not self._waiting:
                self._due_at = math.inf
            return list(islice(self._waiting, MOST_RECORDS))

    def _remove(self, before: float = 0.0, counter: int = -1) -> int:
        """Remove records published before a time, or up to a counter; return how many were still there."""
        removed = 0
        with self._records:
            while self._waiting and (self._waiting[0].time < before or self._waiting[0].counter <= counter):
                self._waiting.popleft()
                removed += 1
        return removed


class StreamReader(ConnectedLoop):
    """Delivers the messages of the stream, from some minutes before each subscription on."""

    def __init__(
        self,
        connect: Connect,
        deliver: Callable[[bytes | str], None],
        publish_marker: Callable[[], int],
        on_failure: OnFailure,
        clock: Clock = time.monotonic,
        cpu: Clock = time.thread_time,
    ) -> None:
        """Set up the reader.

        Args:
            deliver: Called with the body of each message.
            publish_marker: Called after each subscription, before its first message; publishes a record and
                returns its counter.
            cpu: Seconds of CPU that the calling thread took.
        """
        super().__init__("decision-stream-reader", connect, on_failure, clock)
        self._deliver = deliver
        self._publish_marker = publish_marker
        self._cpu = cpu
        self._offset = REPLAYED
        self._marker = math.inf
        self._last_own = -1
        self._own_seen_at = 0.0
        self._own_expected = False
        self._refusals = 0
        self._caught_up = False
        self._start_is_over = threading.Event()

    @property
    def is_replaying(self) -> bool:
        """Whether what is read may be older than the subscription."""
        return self._marker < math.inf

    @property
    def in_step(self) -> bool:
        """Whether own records come back, so that others' are seen too."""
        return self._caught_up and self._silent_for() <= SILENT_AFTER

    def wait_until_caught_up(self, timeout: float) -> bool:
        """Wait until what was written before the start is read, or refused; return whether it is read."""
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

    def _open(self) -> StreamConnection:
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

    def _work_on(self, connection: StreamConnection) -> float:
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
        super()._fail(error)
