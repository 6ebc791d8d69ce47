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

_FREE = 0


def _key(message_id: str) -> int:
    """Return the number by which a call is known."""
    return int.from_bytes(blake2b(message_id.encode(), digest_size=8).digest()) or 1


class CallsInFlight:
    """The calls of all workers. Without locks, which a killed worker would keep."""

    def __init__(self, context: Any, workers: int) -> None:
        """Create it before so many workers are forked; ``context`` is the multiprocessing context."""
        self.slots = context.RawArray("Q", workers * SLOTS)
        self._dead = context.RawArray("Q", COUNTED)
        self._deaths = context.RawArray("B", COUNTED)
        self._next = 0

    def of(self, worker_id: int) -> "CallsOfWorker":
        """Return the calls of a worker, for its process."""
        return CallsOfWorker(self, worker_id)

    def note_death(self, worker_id: int) -> None:
        """Count what a worker ran when it died; in the master."""
        for slot in range(worker_id * SLOTS, (worker_id + 1) * SLOTS):
            if self.slots[slot] != _FREE:
                self._count(self.slots[slot])
                self.slots[slot] = _FREE

    def deaths(self, message_id: str) -> int:
        """Return how many workers died while they ran a call."""
        place = self._place_of(_key(message_id))
        return 0 if place is None else int(self._deaths[place])

    def _count(self, key: int) -> None:
        place = self._place_of(key)
        if place is None:
            place, self._next = self._next, (self._next + 1) % COUNTED
            self._deaths[place] = 0
            self._dead[place] = key
        self._deaths[place] = min(255, self._deaths[place] + 1)

    def _place_of(self, key: int) -> int | None:
        return next((place for place, dead in enumerate(self._dead) if dead == key), None)


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
                self._calls.slots[slot] = _key(message_id)

    def end(self, message_id: str) -> None:
        """Note that it does not run it any more."""
        with self._lock:
            slot = self._slots.pop(message_id, None)
            if slot is not None:
                self._calls.slots[slot] = _FREE
                self._free.append(slot)

    def deaths(self, message_id: str) -> int:
        """Return how many workers died while they ran a call."""
        return self._calls.deaths(message_id)
