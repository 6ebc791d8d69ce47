"""Simulated time, and the decision stream between simulated schedulers."""

from collections.abc import Callable, Collection
import heapq
import itertools
import random
from typing import Protocol

from greenlet import getcurrent, greenlet

from scheduler.stream.membership import BEAT_INTERVAL
from scheduler.stream.records import VERSION, Entry, Kind, Member, Record


class Events:
    """What happens, in the order of its time. Requests are greenlets, which ``sleep`` while they wait."""

    def __init__(self) -> None:
        self._now = 0.0
        self._order = itertools.count()
        self._queue: list[tuple[float, int, Callable[[], object]]] = []
        self._hub = getcurrent()

    def now(self) -> float:
        """Return the seconds since the start."""
        return self._now

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Run an action in so many seconds; what is due at the same time runs in the order of the calls."""
        heapq.heappush(self._queue, (self._now + seconds, next(self._order), action))

    def start(self, seconds: float, task: Callable[[], object]) -> None:
        """Begin a task that may sleep, in so many seconds."""
        self.after(seconds, lambda: greenlet(task, self._hub).switch())

    def sleep(self, seconds: float) -> None:
        """Let time pass for the task that calls."""
        self.after(seconds, getcurrent().switch)
        self._hub.switch()

    def run(self, until: float) -> None:
        """Run what is due up to a time."""
        while self._queue and self._queue[0][0] <= until:
            self._now, _, action = heapq.heappop(self._queue)
            action()
        self._now = until


class Reader(Protocol):
    """A scheduler that reads the stream."""

    sender: str

    def receive(self, record: Record) -> None:
        """Learn of a record that another scheduler wrote."""

    def about(self) -> Member:
        """Return what a beat tells of this scheduler."""


class SimulatedStream:
    """Delivers each record to all other schedulers, in order, a little later."""

    def __init__(
        self, events: Events, kinds: Collection[Kind], latency: float, loss: float, rng: random.Random
    ) -> None:
        """Share decisions of these kinds; ``latency`` is in seconds, ``loss`` a probability."""
        self._events, self._rng = events, rng
        self._kinds, self._latency, self._loss = kinds, latency, loss
        self._readers: list[Reader] = []
        self._delivered_at = 0.0
        self._counter = itertools.count()

    def join(self, reader: Reader) -> None:
        """Let a scheduler read."""
        self._readers.append(reader)

    def beat(self) -> None:
        """Tell all schedulers of each other, now and from now on."""
        for reader in self._readers:
            self._deliver(self._record(Kind.BEAT, reader.sender, about=reader.about()))
        self._events.after(BEAT_INTERVAL, self.beat)

    def publish(self, sender: str, kind: Kind, entry: Entry) -> None:
        """Write what a scheduler has decided."""
        if kind in self._kinds:
            record = self._record(kind, sender, entry)
            due = self._events.now() + self._latency * self._rng.uniform(0.5, 1.5)
            self._delivered_at = max(self._delivered_at, due)
            self._events.after(self._delivered_at - self._events.now(), lambda: self._deliver(record))

    def _record(self, kind: Kind, sender: str, *entries: Entry, about: Member | None = None) -> Record:
        return Record(
            version=VERSION,
            kind=kind,
            sender=sender,
            counter=next(self._counter),
            time=self._events.now(),
            entries=entries,
            about=about,
        )

    def _deliver(self, record: Record) -> None:
        for reader in self._readers:
            missed = not record.about and self._rng.random() < self._loss
            if reader.sender != record.sender and not missed:
                reader.receive(record)
