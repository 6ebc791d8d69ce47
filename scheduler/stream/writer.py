"""Writing to the decision stream, in a thread of its own.

A publisher of records does not wait: they queue up in memory, within a bound, and are written in as few
messages as they fit into. What becomes of a claim waits up to ``LINGER`` seconds, mostly for the next intent:
each message costs all readers more than a record does, and an intent holds the place already. While the
stream is unavailable the oldest records are dropped and counted; they are of little use to others by then.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
import math
import threading
import time

from scheduler.stream.broker import StreamConnection, StreamUnavailable
from scheduler.stream.connected_loop import ConnectedLoop
from scheduler.stream.membership import BEAT_INTERVAL
from scheduler.stream.records import MOST_RECORDS, VERSION, Entry, Kind, Member, Record, encode

LINGER = 0.05
"""Seconds that records of ``_CAN_WAIT`` wait at most for others to be written with."""

_CAN_WAIT = frozenset({Kind.CLAIMED, Kind.RELEASED, Kind.GONE})

STALE_AFTER = 60.0
"""Seconds after which a record that could not be written is dropped."""


class StreamWriter:
    """Writes the records of one scheduler. Any thread may publish.

    Attributes:
        published: How many records were published so far; the counter of the next one.
        dropped: How many of them were dropped.
    """

    def __init__(
        self,
        connect: Callable[[], StreamConnection],
        describe: Callable[[], Member],
        on_failure: Callable[[StreamUnavailable], None],
        most_waiting: int = 10_000,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up the writer; nothing is connected to before ``start``.

        Args:
            describe: Returns this scheduler as it is now.
            on_failure: Called with each reason for which nothing can be written.
            most_waiting: Records that wait at most.
            clock: Seconds since the epoch.
            monotonic: Seconds that only grow.
        """
        self.published = 0
        self.dropped = 0
        self._describe = describe
        self._most_waiting = most_waiting
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._waiting: deque[Record] = deque()
        self._next_beat = 0.0
        self._due_at = math.inf
        self.loop = ConnectedLoop("decision-stream-writer", connect, self._write_due, on_failure, monotonic)

    def stop(self, timeout: float) -> None:
        """Announce that this scheduler stops, and stop writing, in ``timeout`` seconds at most."""
        self.publish(Kind.BYE)
        end = self._monotonic() + timeout
        while self._waiting and self.loop.running and not self.loop.failing and self._monotonic() < end:
            time.sleep(0.01)
        self.loop.stop(max(0.0, end - self._monotonic()))

    def publish(self, kind: Kind, *entries: Entry) -> int:
        """Publish a record, without a wait. HELLO and BEAT describe this scheduler.

        Returns:
            The counter of the record.
        """
        due = self._monotonic() + (LINGER if kind in _CAN_WAIT else 0.0)
        member = self._describe()
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
                    sender=member.sender,
                    counter=counter,
                    time=self._clock(),
                    entries=entries,
                    about=member if kind in {Kind.HELLO, Kind.BEAT} else None,
                )
            )
        if sooner:
            self.loop.wake()
        return counter

    def _write_due(self, connection: StreamConnection) -> float:
        """Write what waits if it is due, and a beat if it is time to. Return the seconds to wait."""
        now = self._monotonic()
        if now >= self._next_beat:
            self._next_beat = now + BEAT_INTERVAL
            self.publish(Kind.BEAT)
        if now < self._due_at:
            return min(self._due_at, self._next_beat) - now
        self._drop_stale()
        connection.send_heartbeat()
        while batch := self._first():
            for body, accounted in encode(batch):
                connection.publish(body)
                self._remove(batch[:accounted])
                batch = batch[accounted:]
        return max(0.0, min(self._due_at, self._next_beat) - self._monotonic())

    def _first(self) -> list[Record]:
        with self._lock:
            if not self._waiting:
                self._due_at = math.inf
            return list(islice(self._waiting, MOST_RECORDS))

    def _remove(self, written: list[Record]) -> None:
        """Remove what was written; some of it may have been dropped in the meantime."""
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
