"""A write of allocations, sent again as it is until its outcome is known."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
import itertools
import math
import random
from typing import Any

import orjson

from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent, PlacementUnanswered
from scheduler.placement.write_outcomes import (
    WriteOutcome,
    expected_generation,
    refused_resource,
    write_outcome,
)
from tools.simulation.placement import Rows

# Seconds after which a write without a response is not carried out any more.
WINDOW = 30.0

DELAYS = (0.1, 0.5, 1.0, 2.0, 4.0)


class Outcome(Enum):
    """What became of a write.

    Attributes:
        DONE: It is carried out.
        CHANGED: A consumer is not in the state that was expected: another writer was first.
        REFUSED: There is no room, or a provider is gone.
        DENIED: It will never be accepted.
        AWAY: It was certainly not carried out, and the time is over.
        UNKNOWN: It may have been carried out, or may yet be, and the time is over.
    """

    DONE = auto()
    CHANGED = auto()
    REFUSED = auto()
    DENIED = auto()
    AWAY = auto()
    UNKNOWN = auto()


_FINAL = {
    WriteOutcome.REFUSED: Outcome.REFUSED,
    WriteOutcome.GONE: Outcome.REFUSED,
    WriteOutcome.INVALID: Outcome.DENIED,
    WriteOutcome.DENIED: Outcome.DENIED,
}


@dataclass(frozen=True)
class Held:
    """What a consumer holds, and the generation that it had then; None: it has no record that is shown."""

    rows: Rows = field(default_factory=dict)
    generation: int | None = None


@dataclass(frozen=True)
class Written:
    """The outcome of a write.

    Attributes:
        held: By consumer, what it holds after a write that is DONE.
        provider: The one that a refusal names, or "".
        gone: The provider does not exist; new consumers are left with a record of generation 0.
        expected: After CHANGED, the generation that one of the consumers has; None: it has no record.
    """

    outcome: Outcome
    held: Mapping[str, Held] = field(default_factory=dict)
    provider: str = ""
    gone: bool = False
    expected: int | None = None


class Writer:
    """Reads and writes allocations of consumers.

    Args:
        client: The product's client.
        clock: Returns the seconds.
        sleep: Waits for so many.
    """

    def __init__(
        self, client: PlacementClient, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._client = client
        self._clock = clock
        self._sleep = sleep
        self._random = random.Random("writer")

    def read(self, uuid: str) -> Held:
        """Return what a consumer holds.

        Raises:
            PlacementSilent: There is no answer that tells.
        """
        reply = self._client.get(f"/allocations/{uuid}", "1.28")
        if reply.status != 200 or "allocations" not in reply.data:
            raise PlacementUnanswered(f"Placement answers {reply.status}")
        rows = {name: entry["resources"] for name, entry in reply.data["allocations"].items()}
        return Held(rows, reply.data["consumer_generation"]) if rows else Held()

    def read_many(self, uuids: Iterable[str], deadline: float) -> dict[str, Held] | None:
        """Return what each consumer holds; None if Placement does not tell until the deadline."""
        found: dict[str, Held] = {}
        for uuid in uuids:
            while uuid not in found:
                try:
                    found[uuid] = self.read(uuid)
                except PlacementSilent:
                    if self._clock() >= deadline:
                        return None
                    self._sleep(1.0)
        return found

    def write(
        self, wanted: Mapping[str, Held], deadline: float, lost: Callable[[], None] = lambda: None
    ) -> Written:
        """Let each consumer hold what is wanted, all or none.

        Args:
            wanted: By consumer its rows, and the generation that it must have before.
            deadline: When to give up.
            lost: Called whenever a try has no response.
        """
        lost_at = -math.inf
        for delay in itertools.chain(DELAYS, itertools.repeat(DELAYS[-1])):
            outcome, reply = self._send(wanted)
            if outcome is WriteOutcome.UNKNOWN:
                lost_at = self._clock()
                lost()
            written = self._meaning(outcome, reply, wanted, lost_at, deadline)
            if written is not None:
                return written
            if self._clock() >= deadline:
                return Written(Outcome.UNKNOWN if lost_at > -math.inf else Outcome.AWAY)
            self._sleep(delay * (0.5 + self._random.random()))
        raise AssertionError("not reached")

    def _meaning(
        self,
        outcome: WriteOutcome | None,
        reply: Any,
        wanted: Mapping[str, Held],
        lost_at: float,
        deadline: float,
    ) -> Written | None:
        """Return what the response to a try says of the write; None: nothing yet."""
        was_lost, may_come = lost_at > -math.inf, self._clock() < lost_at + WINDOW
        if outcome is WriteOutcome.DONE:
            return Written(Outcome.DONE, {uuid: _after(one) for uuid, one in wanted.items()})
        if outcome is WriteOutcome.CONSUMER_CONFLICT:
            changed = Written(Outcome.CHANGED, expected=expected_generation(reply))
            if not was_lost:
                return changed
            return self._look(wanted, deadline) or (None if may_come else changed)
        # A denial says nothing of a try that was lost, and a refusal only once that cannot come any more.
        if outcome is WriteOutcome.DENIED and was_lost:
            return None
        if outcome in _FINAL and not may_come:
            gone = outcome is WriteOutcome.GONE
            return Written(_FINAL[outcome], provider=refused_resource(reply)[1], gone=gone)
        return None

    def _send(self, wanted: Mapping[str, Held]) -> tuple[WriteOutcome | None, Any]:
        """Send it once. None instead of an outcome: it was certainly not carried out."""
        bodies = {uuid: _body(held) for uuid, held in wanted.items()}
        (uuid, body), *more = bodies.items()
        single = "PUT", f"/allocations/{uuid}", body
        method, path, data = ("POST", "/allocations", bodies) if more else single
        try:
            reply = self._client.write(method, path, "1.36", None, orjson.dumps(data))
        except PlacementUnanswered:
            return WriteOutcome.UNKNOWN, None
        except PlacementSilent:
            return None, None
        return write_outcome(reply), reply

    def _look(self, wanted: Mapping[str, Held], deadline: float) -> Written | None:
        """Return what a conflict after a lost try means; None if that cannot be told yet."""
        held = self.read_many(wanted, deadline)
        if held is None:
            return None
        if all(held[uuid].rows == one.rows for uuid, one in wanted.items()):
            return Written(Outcome.DONE, held)
        if any(held[uuid].rows or one.generation for uuid, one in wanted.items()):
            return Written(Outcome.CHANGED)
        return None


def _after(wanted: Held) -> Held:
    return Held(wanted.rows, (wanted.generation or 0) + 1) if wanted.rows else Held()


def _body(wanted: Held) -> dict[str, Any]:
    return {
        "allocations": {name: {"resources": amounts} for name, amounts in wanted.rows.items()},
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": wanted.generation,
    }
