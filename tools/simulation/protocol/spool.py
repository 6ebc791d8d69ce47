"""What a bad day left unsettled: one line a consumer, kept over restarts, tried until it is settled."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.placement.errors import PlacementSilent
from tools.simulation.callers import State
from tools.simulation.placement import Rows
from tools.simulation.protocol.writing import WINDOW, Held, Outcome, Writer

# Seconds for which a consumer is left alone while a caller waits for its instance: longer than any waits.
PATIENCE = 1900.0

# Seconds between two tries, and for one.
INTERVAL = 20.0
TRY = 5.0


class Away(Exception):
    """Nova's databases do not answer."""


@dataclass
class Entry:
    """One line.

    Attributes:
        lost: What a write without a response was to give the consumer, which may be there and not be shown.
        answered: What its caller was told that it has; {} if it was not told.
        generation: The one with which it is to be released; None: the one that it turns out to have.
        source: Nodes of which an evacuated instance keeps what it holds.
        since: When the line was written.
        due: When the consumer is looked at next.
    """

    since: float
    due: float
    lost: Rows = field(default_factory=dict)
    answered: Rows = field(default_factory=dict)
    generation: int | None = None
    source: frozenset[str] = frozenset()


class Spool:
    """The entries of one worker, in a file that outlives it.

    Args:
        entries: The lines of that file, by consumer.
        clock: Returns the seconds.
    """

    def __init__(self, entries: dict[str, Entry], clock: Callable[[], float]) -> None:
        self._entries = entries
        self._clock = clock

    def note_lost(self, wanted: Mapping[str, Rows], source: frozenset[str] = frozenset()) -> None:
        """Write down that a write had no response."""
        now = self._clock()
        for uuid, rows in wanted.items():
            before = self._entries.get(uuid, Entry(now, now))
            self._entries[uuid] = Entry(
                now, now + WINDOW, dict(rows) or before.lost, before.answered, source=source
            )

    def note_unknown(self, uuids: Iterable[str], source: frozenset[str]) -> None:
        """Write down that it is not known what consumers hold, or will when late writes have come."""
        self.note_lost({uuid: {} for uuid in uuids}, source)

    def note_unreleased(self, uuid: str, generation: int | None, source: frozenset[str]) -> None:
        """Write down a claim that could not be released. A lost write for it is looked at in any case."""
        now = self._clock()
        self._entries.setdefault(uuid, Entry(now, now, generation=generation, source=source))

    def note_answered(self, held: Mapping[str, Rows]) -> None:
        """Write down what callers were told of consumers for which writes were lost."""
        for uuid, rows in held.items():
            if uuid in self._entries:
                self._entries[uuid].answered = dict(rows)

    def work(self, writer: Writer, state_of: Callable[[str], State]) -> None:
        """Settle what is due and can be settled."""
        for uuid, entry in list(self._entries.items()):
            if entry.due > self._clock():
                continue
            try:
                settled = self._settle(uuid, entry, writer, state_of(uuid))
            except (PlacementSilent, Away):
                settled = False
            if self._entries.get(uuid) is not entry:
                continue
            if settled:
                del self._entries[uuid]
            entry.due = self._clock() + INTERVAL

    def _settle(self, uuid: str, entry: Entry, writer: Writer, state: State) -> bool:
        if state is State.WAITING and entry.generation is None and self._clock() < entry.since + PATIENCE:
            return False
        held = writer.read(uuid)
        if state is State.PLACED:
            return bool(held.rows) or not entry.answered or self._show(uuid, entry.answered, writer)
        if not held.rows:
            # Written once more they are shown, and released at the next try.
            return not entry.lost or not self._show(uuid, entry.lost, writer)
        if entry.generation not in {None, held.generation}:
            return True
        source = frozenset() if state is State.DELETED else entry.source
        kept = {node: held.rows[node] for node in held.rows.keys() & source}
        if kept == held.rows:
            return True
        outcome = writer.write({uuid: Held(kept, held.generation)}, self._clock() + TRY).outcome
        if outcome is Outcome.DONE:
            entry.lost = {}
        return outcome is Outcome.DONE

    def _show(self, uuid: str, rows: Rows, writer: Writer) -> bool:
        """Write rows that overlapping writes may have hidden; return whether they are shown now.

        Raises:
            PlacementSilent: It is not known.
        """
        for generation in (None, 0):
            outcome = writer.write({uuid: Held(rows, generation)}, self._clock() + TRY).outcome
            if outcome is Outcome.DONE:
                return True
            if outcome in {Outcome.AWAY, Outcome.UNKNOWN, Outcome.DENIED}:
                raise PlacementSilent("it is tried again")
        return False
