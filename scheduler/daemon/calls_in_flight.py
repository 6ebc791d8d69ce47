"""Which calls the workers run, in memory that they share with the master: for calls that end their worker.

The broker delivers a call of a worker that has died to the next one. A call that ends each worker that runs
it would end all of them, one after the other. So the master counts the deaths for each call.
"""

from hashlib import blake2b
import threading
from typing import Any

#: Calls of a worker that are known; far more than it has threads. Others are run, and not counted.
SLOTS = 512

#: Calls of dead workers that are counted; the oldest are forgotten first.
COUNTED = 512

#: Bytes by which a call is known.
SIZE = 16

_FREE = [0] * SIZE


def _key(message_id: str) -> list[int]:
    return list(blake2b(message_id.encode(), digest_size=SIZE).digest())


class CallsInFlight:
    """The calls of all workers. Without locks, which a killed worker would keep."""

    def __init__(self, context: Any, workers: int) -> None:
        """Create it before so many workers are forked; ``context`` is the multiprocessing context."""
        self._running = context.RawArray("B", workers * SLOTS * SIZE)
        self._dead = context.RawArray("B", COUNTED * SIZE)
        self._deaths = context.RawArray("B", COUNTED)
        self._next = 0

    def of(self, worker_id: int) -> "CallsOfWorker":
        """Return the calls of a worker, for its process."""
        return CallsOfWorker(self, worker_id)

    def note_death(self, worker_id: int) -> None:
        """Count what a worker ran when it died; in the master."""
        for slot in range(worker_id * SLOTS, (worker_id + 1) * SLOTS):
            key = self.read(slot)
            if key != _FREE:
                self.write(slot, _FREE)
                self._count(key)

    def deaths(self, message_id: str) -> int:
        """Return how many workers died while they ran a call."""
        place = self._place_of(_key(message_id))
        return 0 if place is None else int(self._deaths[place])

    def read(self, slot: int) -> list[int]:
        """Return what a slot has."""
        return list(self._running[slot * SIZE : (slot + 1) * SIZE])

    def write(self, slot: int, key: list[int]) -> None:
        """Let a slot have this."""
        self._running[slot * SIZE : (slot + 1) * SIZE] = key

    def _count(self, key: list[int]) -> None:
        place = self._place_of(key)
        if place is None:
            place, self._next = self._next, (self._next + 1) % COUNTED
            self._deaths[place] = 0
            self._dead[place * SIZE : (place + 1) * SIZE] = key
        self._deaths[place] = min(255, self._deaths[place] + 1)

    def _place_of(self, key: list[int]) -> int | None:
        known = bytes(self._dead)
        wanted = bytes(key)
        return next((n for n in range(COUNTED) if known[n * SIZE : (n + 1) * SIZE] == wanted), None)


class CallsOfWorker:
    """The calls of one worker; any of its threads may use it."""

    def __init__(self, calls: CallsInFlight, worker_id: int) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self._free = list(range(worker_id * SLOTS, (worker_id + 1) * SLOTS))
        self._slots: dict[str, int] = {}

    def begin(self, message_id: str) -> None:
        """Note that this worker runs a call."""
        with self._lock:
            if message_id and self._free and message_id not in self._slots:
                self._slots[message_id] = slot = self._free.pop()
                self._calls.write(slot, _key(message_id))

    def end(self, message_id: str) -> None:
        """Note that it does not run it any more."""
        with self._lock:
            slot = self._slots.pop(message_id, None)
            if slot is not None:
                self._calls.write(slot, _FREE)
                self._free.append(slot)

    def deaths(self, message_id: str) -> int:
        """Return how many workers died while they ran a call."""
        return self._calls.deaths(message_id)
