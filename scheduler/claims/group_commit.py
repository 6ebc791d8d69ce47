"""Writes of concurrent requests that go to Placement together.

Most databases of Placement carry out writes one after the other at best: concurrent ones deadlock, and cost a
second each then. So few writes are in flight at once (``writes_in_flight``), of all workers of a daemon. What
waits meanwhile goes along with the next one, as one POST for many consumers, which costs Placement half as
much for each. A write that need not wait is sent at once, alone.

A POST is carried out for all consumers or for none. If Placement refuses it, the consumer that the refusal
names gets it, and the others are sent again; if it names none of them, each is sent alone. So a refusal
concerns its own consumer only.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from itertools import islice
import threading
import time
from typing import Any

from scheduler import deadline
from scheduler.claims.allocations_api import AllocationsApi
from scheduler.claims.responses import WriteOutcome, refused_resource, write_outcome
from scheduler.claims.writes_in_flight import SLOW_WRITE, WritesInFlight
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent, PlacementUnanswered, PlacementUnreachable
from scheduler.placement.reply import Reply

# More consumers in one POST make Placement's transaction longer than they save; it is measured best at 20.
MOST_IN_GROUP = 20

# A refused POST is sent again without those refused so often; then the others are sent one by one.
MOST_REFUSALS = 3

# Seconds that a write waits for others to be sent before it. It was not sent then.
WAIT_TIMEOUT = 30.0

# Seconds after which the write of another worker is no longer waited for; that worker may be stopped.
WORKER_PATIENCE = 3.0

Body = dict[str, Any]

TakeSlot = Callable[[str, int, float], AbstractContextManager[None]]
"""What, how many at once, the patience → a slot among all workers, as of ``WorkerLocks.slot``."""


def _take_none(_kind: str, _at_once: int, _patience: float) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(eq=False, slots=True)
class _Write:
    """One caller's write: of one consumer, or of several that must stay together."""

    bodies: dict[str, Body]
    context: Any
    is_single: bool
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
        allowed: WritesInFlight | None = None,
        wait_timeout: float = WAIT_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
        slot: TakeSlot = _take_none,
    ) -> None:
        """Set up the queue of writes.

        Args:
            client: Sends them.
            allowed: How many writes may be in flight at once; None: one.
            wait_timeout: Seconds that a write waits before it is given up, unsent.
            clock: Seconds that only grow.
            slot: Takes a slot among the writes of all workers; by default there are no others.
        """
        super().__init__(client)
        self._slot = slot
        self._allowed = allowed or WritesInFlight(1, clock)
        self._in_flight = 0
        self._wait_timeout = wait_timeout
        self._clock = clock
        self._most = MOST_IN_GROUP
        self._lock = threading.Lock()
        self._queue: deque[_Write] = deque()

    def put_allocations(self, uuid: str, body: Body, context: Any = None) -> Reply:
        """Write the allocations of one consumer, perhaps together with others.

        Raises:
            PlacementUnreachable: It was not sent.
            PlacementUnanswered: It was sent, and there was no response.
        """
        return self._submit(_Write({uuid: body}, context, is_single=True))

    def post_allocations(self, bodies: dict[str, Body], context: Any = None) -> Reply:
        """Write the allocations of many consumers, all or none; raises as ``put_allocations``."""
        return self._submit(_Write(bodies, context, is_single=False))

    @property
    def waiting(self) -> int:
        """How many writes wait for others to be sent."""
        with self._lock:
            return len(self._queue)

    def _submit(self, write: _Write) -> Reply:
        with self._lock:
            self._queue.append(write)
            write.leads = self._in_flight < self._allowed.limit
            self._in_flight += write.leads
        if not write.leads:
            self._wait(write)
        if write.leads:
            self._lead(write)
        return write.result()

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
        """Send the first writes of the queue, this one among them, and let the next thread lead."""
        group = [write]
        with ExitStack() as slot:
            try:
                slot.enter_context(self._slot("writes", self._allowed.limit, WORKER_PATIENCE))
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
            while self._queue and self._goes_along(group):
                group.append(self._queue.popleft())
            return group

    def _goes_along(self, group: Sequence[_Write]) -> bool:
        # Writes of several consumers have one response, and a consumer has one write in a group.
        first = self._queue[0]
        known = {uuid for write in group for uuid in write.bodies}
        return (
            group[0].is_single
            and first.is_single
            and len(group) < self._most
            and not first.leads
            and known.isdisjoint(first.bodies)
        )

    def _hand_over(self, ended: _Write) -> None:
        """Let the next writes be sent after this one, or instead of it if it has failed before."""
        with self._lock:
            if ended in self._queue:
                self._queue.remove(ended)
            self._in_flight -= 1
            free = self._allowed.limit - self._in_flight
            following = list(islice(self._followers(), max(0, free)))
            self._in_flight += len(following)
            for write in following:
                write.leads = True
        for write in following:
            write.ready.set()

    def _followers(self) -> Iterator[_Write]:
        """Yield what waits, in order, apart from what is about to be sent. The caller holds the lock."""
        return (write for write in self._queue if not write.leads)

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
            self._adapt(len(group), self._clock() - started)

    def _send_singles(self, group: list[_Write]) -> None:
        left, refusals = list(group), 0
        while len(left) > 1 and refusals <= MOST_REFUSALS:
            bodies = {uuid: body for write in left for uuid, body in write.bodies.items()}
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

    def _adapt(self, size: int, seconds: float) -> None:
        """Learn from a write how many may be in flight, and how large the next groups may be.

        A slow write makes groups smaller only if there was no other: else it was the other that it met.
        """
        with self._lock:
            was_alone = self._in_flight == 1
            others_wait = next(self._followers(), None) is not None
            self._allowed.finished(size, seconds, others_wait=others_wait)
            if seconds <= SLOW_WRITE:
                self._most = min(MOST_IN_GROUP, self._most + 1)
            elif size > 1 and was_alone:
                self._most = max(2, self._most // 2)


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
