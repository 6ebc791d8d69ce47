"""Consumers that have a record without allocations in Placement (spec: placement-and-workflow 4.5)."""

import threading

from cachetools import FIFOCache


class EmptyConsumers:
    """Consumers that a claim on a missing provider left behind; any thread may use it.

    The next claim for such a consumer must send generation 0. This is a hint that saves two requests, so a
    bounded number is kept and the oldest are forgotten first.
    """

    def __init__(self, capacity: int) -> None:
        self._lock = threading.Lock()
        self._uuids: FIFOCache[str, None] = FIFOCache(capacity)

    def generation_of(self, uuid: str) -> int | None:
        """Return the consumer generation that the next claim has to send: 0, or None for a new consumer."""
        with self._lock:
            return 0 if uuid in self._uuids else None

    def add(self, uuid: str) -> None:
        """Remember that Placement has a record of the consumer without allocations."""
        with self._lock:
            self._uuids[uuid] = None

    def discard(self, uuid: str) -> None:
        """Forget a consumer that has allocations now."""
        with self._lock:
            self._uuids.pop(uuid, None)
