"""The documents of the latest decisions, encoded: a ring bounded in number and in bytes."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
import threading

from scheduler.decisions.document import Decision


@dataclass(slots=True)
class Kept:
    """One document.

    Attributes:
        name: Request id and time.
    """

    name: tuple[str, str]
    instances: tuple[str, ...]
    encoded: bytes


class DecisionMemory:
    """The latest documents. Any thread may use it."""

    def __init__(self, count: int, max_bytes: int) -> None:
        """Keep nothing yet.

        Args:
            count: Maximum number of documents.
            max_bytes: Maximum size of all documents.
        """
        self._count = count
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._ring: deque[Kept] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._ring)

    def add(self, decision: Decision, encoded: bytes) -> None:
        with self._lock:
            self._ring.append(Kept(_name(decision), tuple(decision.instances), encoded))
            self._bytes += len(encoded)
            self._shrink()

    def latest_first(self) -> Iterator[bytes]:
        """Yield the documents that are kept now, the latest first."""
        with self._lock:
            ring = list(self._ring)
        return (kept.encoded for kept in reversed(ring))

    def find(self, name: str) -> bytes | None:
        """Return the latest document of a request id or of an instance uuid; None if there is none."""
        with self._lock:
            ring = list(self._ring)
        found = (kept.encoded for kept in reversed(ring) if name == kept.name[0] or name in kept.instances)
        return next(found, None)

    def _shrink(self) -> None:
        while self._ring and (len(self._ring) > self._count or self._bytes > self._max_bytes):
            self._bytes -= len(self._ring.popleft().encoded)


def _name(decision: Decision) -> tuple[str, str]:
    return decision.request_id, decision.time
