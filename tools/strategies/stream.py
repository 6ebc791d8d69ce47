"""The decision stream between simulated schedulers."""

from collections.abc import Collection
import random
from typing import Protocol

from scheduler.stream.membership import BEAT_INTERVAL
from scheduler.stream.records import VERSION, Entry, Kind, Member, Record
from tools.strategies.events import Events


class Reader(Protocol):
    """A scheduler that reads the stream."""

    sender: str

    def receive(self, record: Record, age: float) -> None:
        """Learn of a record that another scheduler wrote ``age`` seconds ago, if it is read again."""

    def about(self) -> Member:
        """Return what the next beat tells of this scheduler."""


class SimulatedStream:
    """Delivers each record to all other schedulers, in order, a little later.

    A scheduler that is cut off neither reads nor writes; afterwards both are made up for.
    """

    def __init__(
        self, events: Events, kinds: Collection[Kind], latency: float, loss: float, rng: random.Random
    ) -> None:
        """Set up a stream without readers.

        Args:
            events: The time.
            kinds: Decisions of other kinds are not shared.
            latency: Seconds until a record is read, on average.
            loss: The probability with which a scheduler misses a record.
            rng: Draws latencies and losses.
        """
        self._events = events
        self._kinds = kinds
        self._latency = latency
        self._loss = loss
        self._rng = rng
        self._readers: list[Reader] = []
        self._delivered_at = 0.0
        self._counter = 0
        self._cut: set[str] = set()
        self._held: dict[str, list[Record]] = {}

    def join(self, reader: Reader) -> None:
        """Let a scheduler read, and be known to all from the start."""
        self._readers.append(reader)

    def begin(self) -> None:
        """Tell all schedulers of each other, and let them beat from now on."""
        for reader in self._readers:
            self._deliver(self._record(Kind.HELLO, reader.sender, about=reader.about()))
        self._events.after(BEAT_INTERVAL, self._beat)

    def _beat(self) -> None:
        for reader in self._readers:
            self._send(self._record(Kind.BEAT, reader.sender, about=reader.about()))
        self._events.after(BEAT_INTERVAL, self._beat)

    def publish(self, sender: str, kind: Kind, entry: Entry) -> None:
        """Write what a scheduler has decided."""
        if kind in self._kinds:
            self._send(self._record(kind, sender, entry))

    def cut_off(self, sender: str) -> None:
        """Let a scheduler neither read nor write."""
        self._cut.add(sender)

    def restore(self, sender: str) -> None:
        """Let a scheduler read what it has missed, and write what it has kept."""
        self._cut.discard(sender)
        held, self._held = self._held, {}
        for record in held.pop(sender, []):
            self._deliver(record)
        for reader in self._readers:
            if reader.sender == sender:
                for record in held.pop("", []):
                    reader.receive(record, self._events.now() - record.time)
        self._held = held

    def _record(self, kind: Kind, sender: str, *entries: Entry, about: Member | None = None) -> Record:
        self._counter += 1
        return Record(
            version=VERSION,
            kind=kind,
            sender=sender,
            counter=self._counter,
            time=self._events.now(),
            entries=entries,
            about=about,
        )

    def _send(self, record: Record) -> None:
        if record.sender in self._cut:
            self._held.setdefault(record.sender, []).append(record)
            return
        due = self._events.now() + self._latency * self._rng.uniform(0.5, 1.5)
        self._delivered_at = max(self._delivered_at, due)
        self._events.after(self._delivered_at - self._events.now(), lambda: self._deliver(record))

    def _deliver(self, record: Record) -> None:
        if self._cut:
            self._held.setdefault("", []).append(record)
        for reader in self._readers:
            if reader.sender == record.sender or reader.sender in self._cut:
                continue
            if not self._loss or record.about or self._rng.random() >= self._loss:
                reader.receive(record, 0.0)
