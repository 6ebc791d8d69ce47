"""Writing to the decision stream, in a thread of its own.

A publisher of records does not wait: they queue up in memory, within a bound, and are written in as
few messages as they fit into. What becomes of a claim waits for a moment, mostly for the next intent: each
message costs all readers more than a record does, and an intent holds the place already. While the stream is
away the oldest records are dropped and counted; they are of little use to others by then.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
import math
import threading
import time

from scheduler.background import BackgroundLoop
from scheduler.stream.broker import StreamConnection, StreamUnavailable
from scheduler.stream.membership import BEAT_INTERVAL
from scheduler.stream.records import MOST_RECORDS, VERSION, Entry, Kind, Record, Sender, encode

RETRY_INTERVAL = 1.0
"""Seconds between two attempts to connect."""

LINGER = 0.05
"""Seconds that records of ``_CAN_WAIT`` wait at most for others to be written with."""

_CAN_WAIT = frozenset({Kind.CLAIMED, Kind.REFUSED, Kind.RELEASED, Kind.GONE})

STALE_AFTER = 60.0
"""Seconds after which a record that could not be written is dropped."""


class StreamWriter:
    """Writes the records of one scheduler. Any thread may publish.

    Attributes:
        sender: Identifies this process.
        published: How many records were published so far; the counter of the next one.
        dropped: How many of them were dropped.
    """

    def __init__(
        self,
        sender: str,
        connect: Callable[[], StreamConnection],
        about: Callable[[], Sender],
        on_failure: Callable[[StreamUnavailable], None],
        most_waiting: int = 10_000,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up the writer; nothing is connected to before ``start``.

        Args:
            sender: Identifies this process.
            connect: Connects to the stream.
            about: Returns what the beats tell of this scheduler.
            on_failure: Called with each reason for which nothing can be written.
            most_waiting: Records that wait at most.
            clock: Seconds since the epoch.
            monotonic: Seconds that only grow.
        """
        self.sender = sender
        self.published = 0
        self.dropped = 0
        self._connect = connect
        self._about = about
        self._on_failure = on_failure
        self._most_waiting = most_waiting
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._waiting: deque[Record] = deque()
        self._connection: StreamConnection | None = None
        self._retry_at = self._next_beat = 0.0
        self._due_at = math.inf
        self._loop = BackgroundLoop("decision-stream-writer", self.run_round)

    def start(self) -> None:
        """Begin to write."""
        self._loop.start()

    def stop(self, timeout: float) -> None:
        """Tell that this scheduler stops, and stop writing, in ``timeout`` seconds at most."""
        self.publish(Kind.BYE)
        end = self._monotonic() + timeout
        while self._waiting and self._loop.running and self._monotonic() < end:
            time.sleep(0.01)
        self._loop.stop(max(0.0, end - self._monotonic()))
        self._disconnect()

    def publish(self, kind: Kind, *entries: Entry, about: Sender | None = None) -> int:
        """Publish a record, without a wait.

        Returns:
            The counter of the record.
        """
        due = self._monotonic() + (LINGER if kind in _CAN_WAIT else 0.0)
        with self._lock:
            sooner = due < self._due_at
            self._due_at = min(due, self._due_at)
            counter = self.published
            self.published += 1
            if len(self._waiting) >= self._most_waiting:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append(
                Record(
                    version=VERSION,
                    kind=kind,
                    sender=self.sender,
                    counter=counter,
                    time=self._clock(),
                    entries=entries,
                    about=about,
                )
            )
        if sooner:
            self._loop.wake()
        return counter

    def run_round(self) -> float:
        """Write what waits if it is due, and a beat if it is time to. Return the seconds to wait."""
        now = self._monotonic()
        if now < self._retry_at:
            return self._retry_at - now
        if now >= self._next_beat:
            self._next_beat = now + BEAT_INTERVAL
            self.publish(Kind.BEAT, about=self._about())
        if now < self._due_at:
            return min(self._due_at, self._next_beat) - now
        try:
            self._write()
        except StreamUnavailable as error:
            self._disconnect()
            self._retry_at = self._monotonic() + RETRY_INTERVAL
            self._on_failure(error)
            return RETRY_INTERVAL
        return max(0.0, min(self._due_at, self._next_beat) - self._monotonic())

    def _write(self) -> None:
        self._drop_stale()
        if self._connection is None:
            self._connection = self._connect()
        self._connection.send_heartbeat()
        while batch := self._first():
            for body, accounted in encode(batch):
                self._connection.publish(body)
                self._remove(batch[:accounted])
                batch = batch[accounted:]

    def _first(self) -> list[Record]:
        with self._lock:
            if not self._waiting:
                self._due_at = math.inf
            return list(islice(self._waiting, MOST_RECORDS))

    def _remove(self, written: list[Record]) -> None:
        """Remove what was written; some of it may have been dropped meanwhile."""
        last = written[-1].counter
        with self._lock:
            while self._waiting and self._waiting[0].counter <= last:
                self._waiting.popleft()

    def _drop_stale(self) -> None:
        oldest = self._clock() - STALE_AFTER
        with self._lock:
            while self._waiting and self._waiting[0].time < oldest:
                self._waiting.popleft()
                self.dropped += 1

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
