"""When writes are sent, and which of them together.

Placement deletes the rows of a consumer before it inserts new ones. For a new consumer there are none, so
InnoDB locks the gap of the index that its UUID falls in. Two transactions in one gap deadlock, and Placement
repeats the loser after a second. So the consumers are divided by the first digit of their UUIDs: each half, a
*lane*, has at most one POST in flight. In a database with a few hundred instances the lanes share no gap.
Where they do, a POST takes a second, and for some minutes there is one lane. So there is while another
scheduler is alive: Placement's database is busy with the POSTs of both, and more consumers share one.

A provider has at most one POST in flight, too: writes on one provider that overlap can over-commit it.

What waits meanwhile goes along with the next POST of its lane, which costs Placement half as much for each
consumer. A write that need not wait is sent at once.

A POST is carried out for all consumers or for none. If Placement refuses it, the units that the refusal names
get it, and the others are sent again; if it names none of them, each half is sent alone. So a refusal
concerns its own unit only.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
import math
import threading
from typing import Any

from scheduler import deadline
from scheduler.placement.claim_events import ClaimState
from scheduler.placement.errors import PlacementSilent, PlacementUnanswered, PlacementUnreachable
from scheduler.placement.reply import Reply
from scheduler.placement.write_outcomes import WriteOutcome, cause_of, refused_resource, write_outcome
from scheduler.placement.writes import Unit

# More consumers in one POST make Placement's transaction longer than they save; it is measured best at 20.
MOST_TOGETHER = 20

# Half of the first digits of UUIDs each. More lanes gain nothing: Placement's database is busy with two.
LANES = 2
DIGITS = "0123456789abcdef"

# A POST that takes longer, in seconds, has probably met another one in Placement's database.
SLOW = 1.0

# Seconds with one lane after a slow POST that had another one beside it. Instances are built meanwhile, and
# gaps become smaller; a second in five minutes is little where they do not.
ONE_LANE = 300.0

# A refused POST is sent again without those refused so often; then what is left is sent in halves. More
# refusals mean that the providers are nearly full (spec: placement-and-workflow 4.9 step 3).
MOST_REFUSALS = 3

#: Outcomes that say the same of all consumers of a POST.
_OF_ALL = frozenset({WriteOutcome.DONE, WriteOutcome.UNKNOWN, WriteOutcome.DENIED, WriteOutcome.CONCURRENT})

Post = Callable[[Sequence[Unit], Any], Reply]
"""Sends units in one request; raises as ``PlacementClient.write``."""


@dataclass(eq=False, slots=True)
class _Entry:
    """What one call sends, and what it needs for itself: lanes and providers."""

    units: Sequence[Unit]
    context: Any
    lanes: frozenset[int]
    providers: frozenset[str]
    refusal: Callable[[], str]
    ready: threading.Event = field(default_factory=threading.Event)
    leads: bool = False

    @property
    def keys(self) -> frozenset[int | str]:
        return self.lanes | self.providers

    @property
    def consumers(self) -> set[str]:
        return {uuid for unit in self.units for uuid in unit.writes}


class Lanes:
    """Sends units; shared by all threads."""

    def __init__(
        self, post: Post, clock: Callable[[], float], queue_timeout: float, alone: Callable[[], bool]
    ) -> None:
        """Begin with nothing in flight.

        Args:
            post: Sends units in one request.
            clock: Seconds that only grow.
            queue_timeout: Seconds that units wait before they are given up, unsent.
            alone: Returns whether no other scheduler writes.
        """
        self._post = post
        self._clock = clock
        self._queue_timeout = queue_timeout
        self._alone = alone
        self._one_lane_until = -math.inf
        self._most = MOST_TOGETHER
        self._lock = threading.Lock()
        self._busy: set[int | str] = set()
        self._queue: deque[_Entry] = deque()

    @property
    def waiting(self) -> int:
        """How many calls wait for others to be sent."""
        with self._lock:
            return sum(not entry.leads for entry in self._queue)

    @property
    def lanes(self) -> int:
        """The number of lanes now."""
        return LANES if self._alone() and self._clock() >= self._one_lane_until else 1

    def send(
        self, units: Sequence[Unit], context: Any = None, refusal: Callable[[], str] = lambda: ""
    ) -> None:
        """Send each unit once; afterwards each has a ``reply`` or an ``error``.

        Args:
            units: Of different consumers.
            context: The context of the request, for Placement's log.
            refusal: Returns why they are not to be sent any more, once it is their turn; "" if they are.
        """
        entry = self._entry(units, context, refusal)
        with self._lock:
            self._queue.append(entry)
            self._choose_leaders()
        if not entry.leads:
            self._wait(entry)
        if entry.leads:
            self._lead(entry)
        for unit in units:
            if unit.reply is None and unit.error is None:
                # Another thread failed while it sent this unit.
                unit.error = PlacementUnanswered("it is not known whether the write was sent")

    def _entry(self, units: Sequence[Unit], context: Any, refusal: Callable[[], str]) -> _Entry:
        for unit in units:
            unit.reply = unit.error = None
        lanes = {
            max(0, DIGITS.find(uuid[:1].lower())) * LANES // len(DIGITS) for u in units for uuid in u.writes
        }
        providers = frozenset().union(*(unit.providers for unit in units))
        numbers = frozenset(lanes if self.lanes > 1 else range(LANES))
        return _Entry(units, context, numbers, providers, refusal)

    def _choose_leaders(self) -> None:
        """Let each entry lead whose keys are free, and that none before it waits for. The lock is held.

        One that waits for its lanes lets others have its providers: it could not use them now.
        """
        taken = set(self._busy)
        for entry in self._queue:
            if entry.leads:
                continue
            has_lanes = taken.isdisjoint(entry.lanes)
            if has_lanes and taken.isdisjoint(entry.providers):
                entry.leads = True
                self._busy |= entry.keys
                entry.ready.set()
            taken |= entry.keys if has_lanes else entry.lanes

    def _wait(self, entry: _Entry) -> None:
        """Wait until the entry was sent with others, or is to be sent by this thread."""
        if entry.ready.wait(deadline.current().bound(self._queue_timeout)):
            return
        with self._lock:
            if entry in self._queue and not entry.leads:
                self._queue.remove(entry)
                _fail(entry.units, PlacementUnreachable("too many writes wait for Placement"))
                self._choose_leaders()
                return
        # Another thread is sending it: its own timeouts bound that.
        entry.ready.wait()

    def _lead(self, entry: _Entry) -> None:
        """Send an entry with those of its lane that wait behind it, and let the next ones lead."""
        group = [entry]
        try:
            group = self._next_group(entry)
            self._send(group)
        finally:
            self._hand_over(group)
            for other in group:
                if other is not entry:
                    other.ready.set()

    def _next_group(self, leader: _Entry) -> list[_Entry]:
        with self._lock:
            self._queue.remove(leader)
            group, consumers, own = [leader], leader.consumers, set(leader.keys)
            for other in [each for each in self._queue if not leader.lanes.isdisjoint(each.lanes)]:
                if other.leads or not other.lanes <= leader.lanes:
                    break
                if len(consumers) + len(other.consumers) > self._most or consumers & other.consumers:
                    break
                if not self._busy.isdisjoint(other.providers - own):
                    continue  # it is sent once the other lane has ended with its provider
                self._queue.remove(other)
                group.append(other)
                consumers |= other.consumers
                own |= other.keys
                self._busy |= other.keys
            return group

    def _hand_over(self, group: Iterable[_Entry]) -> None:
        """Let the next entries be sent after these, or instead of one that has failed before."""
        with self._lock:
            for ended in group:
                if ended in self._queue:
                    self._queue.remove(ended)
                self._busy -= ended.keys
            self._choose_leaders()

    def _send(self, group: Sequence[_Entry]) -> None:
        started = self._clock()
        for entry in group:
            if why := entry.refusal():
                _fail(entry.units, PlacementUnreachable(why))
        units = [unit for entry in group for unit in entry.units if unit.error is None]
        # Transactions that share providers take them in the same order.
        units.sort(key=lambda one: min(one.providers, default=""))
        try:
            self._send_units(units, group[0].context)
        finally:
            self._adapt(group, self._clock() - started)

    def _send_units(self, units: Sequence[Unit], context: Any) -> None:
        pieces, refusals = deque([units] if units else []), 0
        while pieces:
            piece = pieces.popleft()
            try:
                reply = self._post(piece, context)
            except PlacementSilent as error:
                _fail(piece, error)
                for other in pieces:
                    _fail(other, PlacementUnreachable(str(error)))
                return
            decided = _decide(piece, reply)
            if left := [unit for unit in piece if unit not in decided]:
                refusals += 1
                pieces.extendleft(
                    reversed(_pieces_of(left, reply, halve=not decided or refusals > MOST_REFUSALS))
                )

    def _adapt(self, group: Sequence[_Entry], seconds: float) -> None:
        """After a slow POST use one lane for some time, or smaller groups if there was no other POST."""
        with self._lock:
            was_alone = {key for key in self._busy if isinstance(key, int)} <= group[0].lanes
            if seconds <= SLOW:
                self._most = min(MOST_TOGETHER, self._most + 1)
            elif not was_alone:
                self._one_lane_until = self._clock() + ONE_LANE
            elif len(group) > 1:
                self._most = max(2, self._most // 2)


def _decide(piece: Sequence[Unit], reply: Reply) -> list[Unit]:
    """Give a response to the units that it decides: all, those that a refusal names, or none. Return them."""
    outcome = write_outcome(reply)
    decided = list(piece)
    if len(piece) > 1 and outcome not in _OF_ALL:
        name, provider = refused_resource(reply)
        decided = [unit for unit in piece if provider and unit.takes_from(provider, name)]
        # Of several that use a full provider the last one is left out: the others may fit.
        decided = decided[-1:] if outcome is WriteOutcome.REFUSED else decided
    for unit in decided:
        unit.reply = reply
    if outcome is WriteOutcome.GONE:
        for unit in piece:
            unit.note_records()
    return decided


def _pieces_of(left: Sequence[Unit], reply: Reply, *, halve: bool) -> list[Sequence[Unit]]:
    """Return what is sent next of a refused POST."""
    for unit in left:
        unit.note(ClaimState.SPLIT if halve else ClaimState.BATCH_WRITE, cause_of(reply), reply.status)
    middle = (len(left) + 1) // 2
    return [half for half in (left[:middle], left[middle:]) if half] if halve else [left]


def _fail(units: Iterable[Unit], error: PlacementSilent) -> None:
    """Let units have no response; each thread gets an error of its own."""
    for unit in units:
        if isinstance(error, PlacementUnanswered):
            unit.error = PlacementUnanswered(str(error), timed_out=error.timed_out)
        else:
            unit.error = type(error)(str(error))
