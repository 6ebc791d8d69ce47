"""Writes of concurrent requests that go to Placement together, in two lanes.

Placement deletes the rows of a consumer before it inserts new ones. For a new consumer there are none, so
InnoDB locks the gap of the index that its UUID falls in. Two transactions in one gap deadlock, and Placement
repeats the loser after a second. So the consumers are divided by the first digit of their UUIDs: each half, a
*lane*, has at most one write in flight. In a database with a few hundred instances the lanes share no gap.
Where they do, a write takes a second, and for some minutes there is one lane.

What waits meanwhile goes along with the next write of its lane, as one POST for many consumers, which costs
Placement half as much for each. A write that need not wait is sent at once, alone.

A POST is carried out for all consumers or for none. If Placement refuses it, the consumer that the refusal
names gets it, and the others are sent again; if it names none of them, each is sent alone. So a refusal
concerns its own consumer only.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
import math
import threading
import time
from typing import Any

from scheduler import deadline
from scheduler.claims.allocations_api import AllocationsApi
from scheduler.claims.responses import WriteOutcome, refused_resource, write_outcome
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent, PlacementUnanswered, PlacementUnreachable
from scheduler.placement.reply import Reply

# More consumers in one POST make Placement's transaction longer than they save; it is measured best at 20.
MOST_IN_GROUP = 20

# Half of the first digits of UUIDs each. More lanes gain nothing: Placement's database is busy with two.
LANES = 2
DIGITS = "0123456789abcdef"

# A write that takes longer, in seconds, has probably met another one in Placement's database.
SLOW_WRITE = 1.0

# Seconds with one lane after a slow write that had another one beside it. Instances are built meanwhile, and
# gaps become smaller; a second in five minutes is little where they do not.
ONE_LANE = 300.0

# A refused POST is sent again without those refused so often; then the others are sent one by one.
MOST_REFUSALS = 3

# Seconds that a write waits for others to be sent before it. It was not sent then.
WAIT_TIMEOUT = 30.0

Body = dict[str, Any]


@dataclass(eq=False, slots=True)
class _Write:
    """One caller's write: of one consumer, or of several that must stay together."""

    bodies: dict[str, Body]
    context: Any
    is_single: bool
    lanes: frozenset[int]
    ready: threading.Event = field(default_factory=threading.Event)
    leads: bool = False
    reply: Reply | None = None
    error: PlacementSilent | None = None

    def finish(self, reply: Reply) -> None:
        self.reply = reply

    def fail(self, error: PlacementSilent) -> None:
        self.error = error

    def result(self) -> Reply:
        if self.error is not None:
            raise self.error
        if self.reply is None:
            # Another thread failed while it sent this write.
            raise PlacementUnanswered("it is not known whether the write was sent")
        return self.reply


class GroupCommit(AllocationsApi):
    """An ``AllocationsApi`` that sends what waits at the same time together. Shared by all threads."""

    def __init__(
        self,
        client: PlacementClient,
        wait_timeout: float = WAIT_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up the queue of writes.

        Args:
            client: Sends them.
            wait_timeout: Seconds that a write waits before it is given up, unsent.
            clock: Seconds that only grow.
        """
        super().__init__(client, clock)
        self._busy: set[int] = set()
        self._one_lane_until = -math.inf
        self._wait_timeout = wait_timeout
        self._most = MOST_IN_GROUP
        self._lock = threading.Lock()
        self._queue: deque[_Write] = deque()

    def put_allocations(self, uuid: str, body: Body, context: Any = None) -> Reply:
        """Write the allocations of one consumer, perhaps together with others.

        Raises:
            PlacementUnreachable: It was not sent.
            PlacementUnanswered: It was sent, and there was no response.
        """
        return self._submit({uuid: body}, context, is_single=True)

    def post_allocations(self, bodies: dict[str, Body], context: Any = None) -> Reply:
        """Write the allocations of many consumers, all or none; raises as ``put_allocations``."""
        return self._submit(bodies, context, is_single=False)

    @property
    def waiting(self) -> int:
        """How many writes wait for others to be sent."""
        with self._lock:
            return sum(not write.leads for write in self._queue)

    @property
    def lanes(self) -> int:
        """The number of lanes now."""
        return LANES if self._clock() >= self._one_lane_until else 1

    def _submit(self, bodies: dict[str, Body], context: Any, *, is_single: bool) -> Reply:
        write = _Write(bodies, context, is_single, self._lanes_of(bodies))
        with self._lock:
            self._queue.append(write)
            self._choose_leaders()
        if not write.leads:
            self._wait(write)
        if write.leads:
            self._lead(write)
        return write.result()

    def _lanes_of(self, bodies: dict[str, Body]) -> frozenset[int]:
        if self.lanes == 1:
            return frozenset(range(LANES))
        return frozenset(max(0, DIGITS.find(uuid[:1].lower())) * LANES // len(DIGITS) for uuid in bodies)

    def _choose_leaders(self) -> None:
        """Let each write lead whose lanes are free, and that none before it waits for. The lock is held."""
        taken = set(self._busy)
        for write in self._queue:
            if not write.leads and taken.isdisjoint(write.lanes):
                write.leads = True
                self._busy |= write.lanes
                write.ready.set()
            taken |= write.lanes

    def _wait(self, write: _Write) -> None:
        """Wait until the write was sent with others, or is to be sent by this thread."""
        if write.ready.wait(deadline.current().bound(self._wait_timeout)):
            return
        with self._lock:
            if write in self._queue and not write.leads:
                self._queue.remove(write)
                write.fail(PlacementUnreachable("too many writes wait for Placement"))
                return
        # Another thread is sending it: its own timeouts bound that.
        write.ready.wait()

    def _lead(self, write: _Write) -> None:
        """Send a write with those of its lane that wait behind it, and let the next ones lead."""
        group = [write]
        try:
            group = self._next_group(write)
            self._send(group)
        finally:
            self._hand_over(write)
            for other in group:
                if other is not write:
                    other.ready.set()

    def _next_group(self, write: _Write) -> list[_Write]:
        with self._lock:
            self._queue.remove(write)
            group = [write]
            for other in [each for each in self._queue if not write.lanes.isdisjoint(each.lanes)]:
                if not self._goes_along(other, group):
                    break
                self._queue.remove(other)
                group.append(other)
            return group

    def _goes_along(self, other: _Write, group: Sequence[_Write]) -> bool:
        # Writes of several consumers have one response, and a consumer has one write in a group.
        known = {uuid for write in group for uuid in write.bodies}
        return (
            group[0].is_single
            and other.is_single
            and len(group) < self._most
            and other.lanes <= group[0].lanes
            and known.isdisjoint(other.bodies)
        )

    def _hand_over(self, ended: _Write) -> None:
        """Let the next writes be sent after this one, or instead of it if it has failed before."""
        with self._lock:
            if ended in self._queue:
                self._queue.remove(ended)
            self._busy -= ended.lanes
            self._choose_leaders()

    def _send(self, group: list[_Write]) -> None:
        started = self._clock()
        try:
            if group[0].is_single:
                self._send_singles(group)
            else:
                group[0].finish(super().post_allocations(group[0].bodies, group[0].context))
        except PlacementSilent as error:
            for write in group:
                if write.reply is None:
                    write.fail(_copy_of(error))
        finally:
            self._adapt(group, self._clock() - started)

    def _send_singles(self, group: list[_Write]) -> None:
        left, refusals = list(group), 0
        while len(left) > 1 and refusals <= MOST_REFUSALS:
            bodies = {
                uuid: body for write in sorted(left, key=_provider) for uuid, body in write.bodies.items()
            }
            reply = super().post_allocations(bodies, left[0].context)
            refused = _refused_by(reply, left)
            for write in refused:
                write.finish(reply)
            left = [write for write in left if write not in refused]
            if not refused:
                break
            refusals += 1
        for write in left:
            ((uuid, body),) = write.bodies.items()
            write.finish(super().put_allocations(uuid, body, write.context))

    def _adapt(self, group: Sequence[_Write], seconds: float) -> None:
        """After a slow write use one lane for some time, or smaller groups if there was no other write."""
        with self._lock:
            was_alone = self._busy <= group[0].lanes
            if seconds <= SLOW_WRITE:
                self._most = min(MOST_IN_GROUP, self._most + 1)
            elif not was_alone:
                self._one_lane_until = self._clock() + ONE_LANE
            elif len(group) > 1:
                self._most = max(2, self._most // 2)


def _provider(write: _Write) -> str:
    """Return what writes are sorted by: transactions that share providers take them in the same order."""
    return min((provider for body in write.bodies.values() for provider in body["allocations"]), default="")


def _refused_by(reply: Reply, writes: Sequence[_Write]) -> list[_Write]:
    """Return the writes that a response decides: all, those that a refusal names, or none."""
    outcome = write_outcome(reply)
    if outcome in {WriteOutcome.DONE, WriteOutcome.UNKNOWN, WriteOutcome.DENIED, WriteOutcome.CONCURRENT}:
        return list(writes)
    _, provider = refused_resource(reply)
    named = [write for write in writes if any(provider in b["allocations"] for b in write.bodies.values())]
    # Of several that use a full provider the last one is left out: the others may fit.
    return named[-1:] if outcome is WriteOutcome.REFUSED else named


def _copy_of(error: PlacementSilent) -> PlacementSilent:
    """Return an equal error: each thread raises one of its own."""
    if isinstance(error, PlacementUnanswered):
        return PlacementUnanswered(str(error), timed_out=error.timed_out)
    return type(error)(str(error))
