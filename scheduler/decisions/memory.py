"""The documents of the latest decisions, encoded: a ring bounded in number and in bytes.

Documents are encoded some at a time: the code and the memory that this takes are cold after each request.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
import threading

from scheduler.decisions.document import Decision, encode

#: Documents that wait until they are encoded together.
MOST_WAITING = 32


@dataclass(slots=True)
class KeptDecision:
    """One document.

    Attributes:
        name: Request id and time.
        is_kept: Whether it is in the ring.
    """

    name: tuple[str, str]
    instances: tuple[str, ...]
    encoded: bytes = b""
    is_kept: bool = True


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
        self._ring: deque[KeptDecision] = deque()
        self._waiting: list[tuple[KeptDecision, Decision]] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._ring)

    def change(self, kept: KeptDecision, decision: Decision) -> None:
        """Take over a document that was added and has changed since."""
        with self._lock:
            self._waiting = [each for each in self._waiting if each[0] is not kept]
            self._waiting.append((kept, decision))

    def text(self, kept: KeptDecision) -> bytes:
        """Return the text of a document that was added, also if it is kept no more."""
        with self._lock:
            self._encode()
            self._shrink()
            return kept.encoded

    def add(self, decision: Decision) -> KeptDecision:
        """Keep a complete document."""
        kept = KeptDecision(_name(decision), tuple(decision.instances))
        with self._lock:
            self._ring.append(kept)
            self._waiting.append((kept, decision))
            if len(self._waiting) >= MOST_WAITING:
                self._encode()
            self._shrink()
        return kept

    def latest_first(self) -> Iterator[bytes]:
        """Yield the documents that are kept now, the latest first."""
        ring = self._encoded()
        return (kept.encoded for kept in reversed(ring))

    def find(self, name: str) -> bytes | None:
        """Return the latest document of a request id or of an instance uuid; None if there is none."""
        ring = self._encoded()
        found = (kept.encoded for kept in reversed(ring) if name == kept.name[0] or name in kept.instances)
        return next(found, None)

    def _encoded(self) -> list[KeptDecision]:
        with self._lock:
            self._encode()
            self._shrink()
            return list(self._ring)

    def _encode(self) -> None:
        """Encode what waits. The caller holds the lock."""
        for kept, decision in self._waiting:
            before = len(kept.encoded)
            kept.encoded = encode(decision)
            if kept.is_kept:
                self._bytes += len(kept.encoded) - before
        self._waiting.clear()

    def _shrink(self) -> None:
        while self._ring and (len(self._ring) > self._count or self._bytes > self._max_bytes):
            dropped = self._ring.popleft()
            dropped.is_kept = False
            self._bytes -= len(dropped.encoded)


def _name(decision: Decision) -> tuple[str, str]:
    return decision.request_id, decision.time
