"""When writes are sent, and which of them together.

One POST is in flight at a time. What waits meanwhile goes along with the next one, which costs Placement half
as much for each consumer. A write that need not wait is sent at once.

Several at a time gain nothing, as Placement's database is busy with one, and they get into each other's way.
Placement deletes the rows of a consumer before it inserts new ones. For a new consumer there are none, so
InnoDB locks the gap of the index that its UUID falls in: two transactions in one gap deadlock, and Placement
repeats the loser after a second. And writes on one provider that overlap can over-commit it.

A POST is carried out for all consumers or for none. If Placement refuses it, the units that the refusal names
get it, and the others are sent again; if it names none of them, each half is sent alone. So a refusal
concerns its own unit only. After some refusals what is left waits for its turn once more, each call for
itself: otherwise a few full providers would keep the claims of all other requests waiting. So a turn takes
few requests, and as the client bounds them, every wait for another call's turn is bounded.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
import threading
from typing import Any

from scheduler.bounds import deadline
from scheduler.bounds.waits import waiting_for
from scheduler.placement.claim_events import ClaimState
from scheduler.placement.errors import PlacementSilent, PlacementUnanswered, PlacementUnreachable
from scheduler.placement.outcomes import Outcome, cause_of, outcome_of, refused_resource
from scheduler.placement.reply import Reply
from scheduler.placement.writes import Unit

# More consumers in one POST make Placement's transaction longer than they save; it is measured best at 20. A
# POST that takes long is no reason for fewer: on an overloaded machine the queue then took no less time.
MOST_TOGETHER = 20

# A refused POST is sent again without those refused so often; then what is left takes another turn, in halves
# if it is of one call. More refusals mean that the providers are nearly full (spec:
# placement-and-workflow 4.9 step 3).
MOST_REFUSALS = 3

#: Seconds that a write waits while another call sends it: longer than the few requests of a turn can take.
LONGEST_TURN = 300

#: Outcomes that say the same of all consumers of a POST.
_OF_ALL = frozenset({Outcome.DONE, Outcome.UNKNOWN, Outcome.DENIED, Outcome.CONTENDED})

Post = Callable[[Sequence[Unit], Any], Reply]
"""Sends units in one request; raises as ``PlacementClient.write``."""


@dataclass(eq=False, slots=True)
class _QueuedWrite:
    """What one call sends; ``pieces``: how far it was split in its turns so far."""

    units: Sequence[Unit]
    context: Any
    ready: threading.Event = field(default_factory=threading.Event)
    leads: bool = False
    alone: bool = False
    pieces: Sequence[Sequence[Unit]] = ()

    @property
    def left(self) -> list[Unit]:
        """The units that have neither a response nor an error yet."""
        return [unit for unit in self.units if unit.reply is None and unit.error is None]

    @property
    def consumers(self) -> set[str]:
        return {uuid for unit in self.units for uuid in unit.writes}


class WriteQueue:
    """Sends units; shared by all threads."""

    def __init__(self, post: Post, queue_timeout: float) -> None:
        """Begin with nothing in flight.

        Args:
            queue_timeout: Seconds that units wait before they are given up, unsent.
        """
        self._post = post
        self._queue_timeout = queue_timeout
        self._lock = threading.Lock()
        self._in_flight = False
        self._queue: deque[_QueuedWrite] = deque()

    @property
    def waiting(self) -> int:
        """How many calls wait for others to be sent."""
        with self._lock:
            return len(self._queue)

    def send(self, units: Sequence[Unit], context: Any = None) -> None:
        """Send each unit once; afterwards each has a ``reply`` or an ``error``.

        Args:
            units: Of different consumers.
            context: The context of the request, for Placement's log.
        """
        for unit in units:
            unit.reply = unit.error = None
        entry = _QueuedWrite(units, context)
        with self._lock:
            self._queue.append(entry)
            self._choose_leader()
        while entry.left:
            if not entry.leads:
                with waiting_for("its turn in the queue of writes to Placement"):
                    self._wait(entry)
            if not entry.leads:
                break
            self._lead()
        for unit in entry.left:
            # Another thread failed while it sent this unit.
            unit.error = PlacementUnanswered("it is not known whether the write was sent")

    def _choose_leader(self) -> None:
        """Let the first entry lead if nothing is in flight. The lock is held."""
        if self._queue and not self._in_flight:
            self._in_flight = self._queue[0].leads = True
            self._queue[0].ready.set()

    def _wait(self, entry: _QueuedWrite) -> None:
        """Wait until the entry was sent with others, or is to be sent by this thread.

        Raises:
            TimeoutError: The thread that sends it hangs.
        """
        for seconds in (deadline.current().bound(self._queue_timeout), *repeat(1.0, LONGEST_TURN)):
            if entry.ready.wait(seconds):
                return
            with self._lock:
                if entry in self._queue and not entry.leads:
                    self._queue.remove(entry)
                    _fail(entry.left, PlacementUnreachable("too many writes wait for Placement"))
                    return
        # Not an error of its units: the thread that sends them may yet give them one.
        raise TimeoutError(f"a write to Placement was not sent within {LONGEST_TURN} s of its turn")

    def _lead(self) -> None:
        """Send the first entry with those that wait behind it, and let the next one lead."""
        again: list[_QueuedWrite] = []
        with self._lock:
            group = self._next_group()
        try:
            again = self._send(group)
        finally:
            with self._lock:
                self._in_flight = False
                for entry in again:
                    entry.alone, entry.leads = True, False
                    entry.ready.clear()
                    self._queue.append(entry)
                self._choose_leader()
            for entry in group if not again else ():
                entry.ready.set()

    def _next_group(self) -> list[_QueuedWrite]:
        """Take the entries that go together out of the queue. The lock is held."""
        group: list[_QueuedWrite] = []
        consumers: set[str] = set()
        while self._queue:
            own = self._queue[0].consumers
            alone = self._queue[0].alone or (group and group[0].alone)
            if group and (alone or len(consumers) + len(own) > MOST_TOGETHER or consumers & own):
                break
            group.append(self._queue.popleft())
            consumers |= own
        return group

    def _send(self, group: Sequence[_QueuedWrite]) -> list[_QueuedWrite]:
        """Send what is left of entries; return those that take another turn."""
        # Transactions that share providers take them in the same order.
        units = sorted(
            (unit for entry in group for unit in entry.left), key=lambda unit: min(unit.providers, default="")
        )
        waiting, pieces, refusals = list(group), deque(group[0].pieces or [units]), 0
        while pieces and refusals <= MOST_REFUSALS:
            if piece := _still_wanted(pieces.popleft()):
                try:
                    reply = self._post(piece, group[0].context)
                except PlacementSilent as error:
                    _fail(piece, error)
                    while pieces:
                        _fail(pieces.popleft(), PlacementUnreachable(str(error)))
                else:
                    decided = _decide(piece, reply)
                    left = [unit for unit in piece if unit not in decided]
                    refusals += bool(left)
                    halve = not decided or refusals > MOST_REFUSALS or bool(group[0].pieces)
                    pieces.extendleft(reversed(_pieces_of(left, reply, halve=halve)))
            waiting = _release_finished(waiting)
        group[0].pieces = list(pieces) if len(group) == 1 else ()
        return waiting


def _release_finished(entries: Iterable[_QueuedWrite]) -> list[_QueuedWrite]:
    """Let the threads go on whose units all have an outcome; return the other entries."""
    waiting = []
    for entry in entries:
        if entry.left:
            waiting.append(entry)
        else:
            entry.ready.set()
    return waiting


def _still_wanted(units: Iterable[Unit]) -> list[Unit]:
    """Return the units that are to be sent; the others learn why they are not."""
    wanted = []
    for unit in units:
        if refusal := unit.refusal():
            _fail([unit], PlacementUnreachable(refusal.reason))
        else:
            wanted.append(unit)
    return wanted


def _decide(piece: Sequence[Unit], reply: Reply) -> list[Unit]:
    """Give a response to the units that it decides: all, those that a refusal names, or none. Return them."""
    outcome = outcome_of(reply)
    decided = list(piece)
    if len(piece) > 1 and outcome not in _OF_ALL:
        name, provider = refused_resource(reply)
        decided = [unit for unit in piece if provider and unit.taken_from(provider, name)]
        if outcome is Outcome.REFUSED:
            # Of several that use a full provider the largest is left out. It does not fit with those of the
            # others that do, and if none of them does, it does not either.
            decided = sorted(decided, key=lambda unit: unit.taken_from(provider, name))[-1:]
    for unit in decided:
        unit.reply = reply
    if outcome is Outcome.GONE:
        for unit in piece:
            unit.note_records()
    return decided


def _pieces_of(left: Sequence[Unit], reply: Reply, *, halve: bool) -> list[Sequence[Unit]]:
    """Return what is sent next of a refused POST."""
    for unit in left:
        unit.note(ClaimState.SPLIT if halve else ClaimState.BATCH_WRITE, cause_of(reply), reply.status)
    middle = (len(left) + 1) // 2
    return [part for part in ((left[:middle], left[middle:]) if halve else (left,)) if part]


def _fail(units: Iterable[Unit], error: PlacementSilent) -> None:
    """Let units have no response; each thread gets an error of its own."""
    for unit in units:
        if isinstance(error, PlacementUnanswered):
            unit.error = PlacementUnanswered(str(error), timed_out=error.timed_out)
        else:
            unit.error = type(error)(str(error))
