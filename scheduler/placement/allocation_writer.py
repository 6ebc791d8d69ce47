"""Writing allocations: the only place that sends a write to Placement (spec: placement-and-workflow 4.1-4.9).

``AllocationWriter.write`` takes what consumers shall hold, and the generation that each must have before. It
returns what became of each once that is known. Claims, the fence, and releases are policies over it: each
says what to write, and what its caller receives.

After each try one table says what follows::

    response            what follows
    carried out         DONE
    consumer conflict   the consumer is read: DONE if it is from a lost try, else CHANGED; a record without
                        allocations: the next try, with its generation
    concurrent update   the next try after a random delay; too often: CONTENDED
    refused, gone       REFUSED, GONE; while a lost try may be carried out yet: the next try after a delay
    invalid, denied     INVALID, DENIED; after a lost try: the next try after a delay
    none, or unclear    the try is lost. The consumer is read until the effect shows; else the next try
    not sent            UNSENT; after a lost try: the next try after a delay

The next try is the same once more. After a lost try it goes on until the outcome is known or the time is
over; that is UNKNOWN, or STOPPING if the process stops. A lost try that is still at work does no harm once
another one is carried out, but for hiding what that one wrote (4.5); so the caller checks the consumers of
``Written.lost`` later.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
import math
from typing import Any

import orjson

from scheduler.placement.allocations import NOTHING, AllocationReader, ConsumerAllocations, path_of
from scheduler.placement.claim_events import ClaimState
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent, PlacementUnanswered, PlacementUnreachable
from scheduler.placement.outcomes import (
    Outcome,
    Refuses,
    cause_of,
    expected_generation,
    outcome_of,
    refused_resource,
)
from scheduler.placement.reply import Reply
from scheduler.placement.write_policy import Timing, WritePolicy
from scheduler.placement.write_queue import WriteQueue
from scheduler.placement.writes import Unit, Write, Written
from scheduler.request.query import MICROVERSION

ANOTHER_WRITER = "another writer changes the allocations of the instance"

TIME_OVER = "Placement does not answer any write"


class AllocationWriter:
    """Writes and reads allocations; shared by all threads of a process.

    Attributes:
        reader: Reads what consumers hold.
        queue: Sends what is written.
        policy: The bounds.
        timing: Clock, sleep and randomness.
        written: Called after each try with what was sent for each consumer, when it was begun in seconds of
            the clock, and ``done``: whether it was carried out; None: that is not known.
    """

    def __init__(
        self,
        client: PlacementClient,
        policy: WritePolicy = WritePolicy(),  # noqa: B008 - it is immutable
        timing: Timing = Timing(),  # noqa: B008 - it is immutable
        written: Callable[..., None] = lambda *_sent, **_done: None,
    ) -> None:
        """Write through ``client``; nothing is sent yet."""
        self._client = client
        self.policy, self.timing, self.written = policy, timing, written
        self.reader = AllocationReader(client, policy.reads_at_once)
        self.queue = WriteQueue(self._post, policy.queue_timeout)

    def write(
        self,
        writes: Mapping[str, Write],
        *,
        all_or_none: bool = False,
        until: float = math.inf,
        refusal: Refuses = lambda: None,
        context: Any = None,
    ) -> Mapping[str, Written]:
        """Write what consumers shall hold. Never raises for a failure of Placement.

        Writes of concurrent calls go together, one POST at a time. A write without a response is sent again
        as it is until its outcome is known.

        Args:
            writes: By consumer UUID. Without ``all_or_none`` each has its own outcome, though they are sent
                in one POST where that can be; the one that a refusal is about is found, and left out.
            all_or_none: All are carried out or none, in one POST, with one outcome for all. After CHANGED
                ``held`` is what each of them holds.
            until: No try but the first is begun later; seconds of the clock.
            refusal: Returns why nothing more may be sent; None while it may.

        Returns:
            By consumer UUID what became of its write.
        """
        parts = [writes] if all_or_none else [{uuid: write} for uuid, write in writes.items()]
        exchange = _Exchange(self, [Unit(part, refusal) for part in parts], until, refusal, context)
        done = exchange.run()
        return {uuid: done[uuid] for uuid in writes}

    def _post(self, units: Sequence[Unit], context: Any) -> Reply:
        """Send units in one request."""
        bodies = {uuid: body for unit in units for uuid, body in unit.bodies().items()}
        for unit in units:
            unit.begin_try()
        begun, done = self.timing.monotonic(), None
        (uuid, body), *more = bodies.items()
        method, path, data = ("POST", "/allocations", bodies) if more else ("PUT", path_of(uuid), body)
        try:
            reply = self._client.write(method, path, MICROVERSION, context, orjson.dumps(data))
            outcome = outcome_of(reply)
            done = None if outcome is Outcome.UNKNOWN else outcome is Outcome.DONE
            return reply
        except PlacementUnreachable:
            done = False
            raise
        finally:
            self.written(bodies.values(), begun, done=done)


class _Exchange:
    """One call of ``write``: the tries of its units, and what follows each of them."""

    def __init__(
        self,
        writer: AllocationWriter,
        units: Sequence[Unit],
        until: float,
        refusal: Refuses,
        context: Any,
    ) -> None:
        self._reader, self._queue = writer.reader, writer.queue
        self._policy, self._timing = writer.policy, writer.timing
        self._units = units
        self._until = until
        self._refusal = refusal
        self._context = context
        self._reactions: Mapping[Outcome, Callable[[Unit, Reply], None]] = {
            Outcome.DONE: self._accept,
            Outcome.CHANGED: self._look,
            Outcome.CONTENDED: self._back_off,
            Outcome.REFUSED: self._refuse,
            Outcome.GONE: self._refuse,
            Outcome.INVALID: self._refuse,
            Outcome.DENIED: self._refuse,
            Outcome.UNKNOWN: self._lose_reply,
        }
        self._unclear: dict[Unit, str] = {}  # units whose last try had no clear response, and why
        self._read_delays: Sequence[float] = ()

    def run(self) -> dict[str, Written]:
        """Send all units until each has an outcome."""
        while open_units := [unit for unit in self._units if unit.written is None]:
            self._unclear, self._read_delays = {}, ()
            self._queue.send(open_units, self._context)
            for unit in open_units:
                unit.delay = 0.0
                try:
                    self._react(unit)
                except PlacementSilent as error:
                    self._wait_or_end(unit, str(error))
            if self._unclear:
                self._watch()
            left = [unit for unit in open_units if unit.written is None]
            if left:
                self._timing.pause(max(unit.delay for unit in left))
                self._end_if_over(left)
        return {uuid: written for unit in self._units for uuid, written in (unit.written or {}).items()}

    def _end_if_over(self, units: Sequence[Unit]) -> None:
        refusal = self._refusal()
        why = refusal.reason if refusal else TIME_OVER if self._timing.monotonic() >= self._until else ""
        for unit in units if why else ():
            self._end_unsent(unit, f"{unit.cause}; {why}", unit.reply)

    # -- what follows a try ----------------------------------------------------------------------------------

    def _react(self, unit: Unit) -> None:
        if isinstance(unit.error, PlacementUnanswered):
            self._lose(unit, str(unit.error), timed_out=unit.error.timed_out)
        elif unit.error or unit.reply is None:
            self._wait_or_end(unit, str(unit.error))
        else:
            self._reactions[outcome_of(unit.reply)](unit, unit.reply)

    def _accept(self, unit: Unit, reply: Reply) -> None:
        self._end(unit, Outcome.DONE, "Placement accepted it", reply, unit.made())

    def _look(self, unit: Unit, reply: Reply) -> None:
        """Read consumers that are not as they must be."""
        unit.note(ClaimState.CONSUMER_CHANGED, cause_of(reply), reply.status)
        unit.conflicts += 1
        held = self._read([unit])
        if self._has_ended(unit, held):
            return
        if unit.conflicts > self._policy.consumer_conflicts or (unit.is_new and len(unit.writes) > 1):
            self._end(unit, Outcome.CHANGED, f"{cause_of(reply)}; {ANOTHER_WRITER}", reply, held)
        elif unit.is_new:
            self._look_for_record(unit, expected_generation(reply))

    def _look_for_record(self, unit: Unit, generation: int | None) -> None:
        """Go on with a new consumer that shows nothing, with this generation of its record; None: no record.

        The record is left behind by a refused write or a killed Placement, or a write is in progress. Such a
        write mostly ends soon.
        """
        if generation is not None:
            for delay in self._policy.reads_after_reset:
                self._timing.pause(delay)
                if self._has_ended(unit, self._read([unit])):
                    return
        unit.generations[unit.first] = generation
        text = "does not exist" if generation is None else f"has generation {generation}"
        unit.note(ClaimState.FIRST_WRITE, f"the consumer {text} and holds nothing")

    def _back_off(self, unit: Unit, reply: Reply) -> None:
        unit.concurrent_updates += 1
        if unit.concurrent_updates >= self._policy.concurrent_update_tries and not self._may_come(unit):
            self._end(unit, Outcome.CONTENDED, cause_of(reply), reply)
            return
        unit.delay = self._timing.uniform(*self._policy.retry_delay)
        unit.note(ClaimState.BACKING_OFF, cause_of(reply), reply.status)

    def _refuse(self, unit: Unit, reply: Reply) -> None:
        """End, unless a lost try may yet be carried out: the consumers are as they must be for it."""
        outcome = outcome_of(reply)
        is_final = outcome in {Outcome.REFUSED, Outcome.GONE}
        if unit.lost and (self._may_come(unit) or not is_final):
            unit.delay = self._policy.late_delay
            unit.note(
                ClaimState.BACKING_OFF, f"{cause_of(reply)}; an earlier try may be carried out", reply.status
            )
            return
        unit.lost = 0
        self._end(unit, outcome, cause_of(reply), reply)

    def _lose_reply(self, unit: Unit, reply: Reply) -> None:
        self._lose(unit, cause_of(reply), reply.status)

    def _lose(self, unit: Unit, cause: str, status: int | None = None, *, timed_out: bool = False) -> None:
        unit.lost += 1
        unit.late_until = self._timing.monotonic() + self._policy.late_write_window
        unit.note(ClaimState.OUTCOME_UNKNOWN, f"no clear response ({cause})", status)
        policy = self._policy
        self._unclear[unit] = cause
        self._read_delays = policy.reads_after_timeout if timed_out else policy.reads_after_reset

    def _wait_or_end(self, unit: Unit, why: str) -> None:
        """End a unit that was not sent, or cannot be read; after a lost try it is sent again."""
        if unit.lost:
            unit.delay = self._policy.outage_delay
            unit.note(ClaimState.RESENDING, why)
        else:
            self._end_unsent(unit, why)

    # -- after a lost try ------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Read what consumers of lost tries hold, until the outcome of each shows, or for long enough."""
        left = list(self._unclear)
        for number, delay in enumerate(self._read_delays):
            if number and (self._refusal() or self._timing.monotonic() + delay > self._until):
                self._until = -math.inf
                break
            self._timing.pause(delay)
            with suppress(PlacementSilent):
                held = self._read(left)
                left = [unit for unit in left if not self._has_ended(unit, held)]
            if not left:
                return
        for unit in left:
            unit.note(ClaimState.RESENDING, f"no clear response ({self._unclear[unit]}) and no effect")

    def _has_ended(self, unit: Unit, held: Mapping[str, ConsumerAllocations]) -> bool:
        """End a unit if the allocations of its consumers show its outcome; return whether they do."""
        writes = unit.writes.items()
        if unit.lost and all(write.explains(held[uuid], unit.lost) for uuid, write in writes):
            self._end(unit, Outcome.DONE, "the instance holds the allocations", None, held)
        elif not all(write.finds(held[uuid]) for uuid, write in writes):
            self._end(unit, Outcome.CHANGED, ANOTHER_WRITER, unit.reply, held)
        return unit.written is not None

    # -- tools -----------------------------------------------------------------------------------------------

    def _may_come(self, unit: Unit) -> bool:
        return bool(unit.lost) and self._timing.monotonic() < unit.late_until

    def _read(self, units: Iterable[Unit]) -> Mapping[str, ConsumerAllocations]:
        consumers = [uuid for unit in units for uuid in unit.writes]
        return self._reader.read_many(consumers, self._context, in_any_case=True)

    def _end_unsent(self, unit: Unit, cause: str, reply: Reply | None = None) -> None:
        """End a unit; nothing more is sent."""
        refusal = self._refusal()
        if refusal and refusal.outcome is Outcome.STOPPING:
            outcome = Outcome.STOPPING
        else:
            outcome = Outcome.UNKNOWN if unit.lost else Outcome.UNSENT
        self._end(unit, outcome, cause, reply)

    def _end(
        self,
        unit: Unit,
        outcome: Outcome,
        cause: str,
        reply: Reply | None = None,
        held: Mapping[str, ConsumerAllocations] | None = None,
    ) -> None:
        done = outcome is Outcome.DONE
        # Of tries that expect the same generation, one is carried out. Without a response it may be another
        # run that has written the same.
        lost = 0 if done and reply and not unit.is_new else unit.lost
        refusal = None if done else reply  # to look into a response takes long
        name, provider = refused_resource(refusal) if refusal else ("", "")
        reason = refusal.summary if refusal else cause
        unit.written = {
            uuid: Written(
                outcome,
                (held or {}).get(uuid, NOTHING),
                lost,
                reply.status if reply else None,
                cause,
                reason,
                name,
                provider,
            )
            for uuid in unit.writes
        }
