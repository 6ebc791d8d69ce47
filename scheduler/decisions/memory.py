"""The latest decisions: a ring bounded in number and in bytes. Documents are made when they are wanted."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
import threading

from scheduler.decisions.document import encode
from scheduler.decisions.record import LARGEST_SPEC, DecisionRecord
from scheduler.hosts.table import HostTable

#: Records that are packed together: the code and the memory that this takes are cold after each request.
MOST_WAITING = 32

#: The most instances of a decision whose document is made when it is wanted: the record grows with them.
FEW = 10

#: Bytes of a record and its hosts besides the request. The document has less than half as many.
RECORD = 10 * 1024


@dataclass(slots=True)
class KeptDecision:
    """One decision.

    Attributes:
        record: What its document is made of; None: the document is made.
        text: The document; b"" before it is made.
        size: Bytes of the document, or about those of the record; 0 before that is packed.
        is_kept: Whether it is in the ring.
    """

    request_id: str
    instances: Sequence[str]
    record: DecisionRecord | None
    text: bytes = b""
    size: int = 0
    is_kept: bool = True


class DecisionMemory:
    """The latest decisions. Any thread may use it."""

    def __init__(self, count: int, max_bytes: int) -> None:
        """Keep nothing yet.

        Args:
            count: Maximum number of decisions.
            max_bytes: Maximum size of all decisions.
        """
        self._count = count
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._ring: deque[KeptDecision] = deque()
        self._waiting: list[KeptDecision] = []
        self._table: HostTable | None = None  # of those that wait
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._ring)

    def add(self, record: DecisionRecord) -> KeptDecision:
        """Keep a decision that has ended."""
        kept = KeptDecision(record.request_id, record.instances, record)
        with self._lock:
            self._ring.append(kept)
            self._waiting.append(kept)
            # no table is kept for long: a new one comes every few seconds
            before, self._table = self._table, record.table
            is_old = before is not None and before is not record.table
            if is_old or record.error or len(record.instances) > FEW or len(self._waiting) >= MOST_WAITING:
                self._pack()
            self._shrink()
        return kept

    def change(self, kept: KeptDecision, record: DecisionRecord) -> None:
        """Take over the document of a decision that was added and has changed since."""
        with self._lock:
            kept.record = record
            self._make(kept)
            self._shrink()

    def text(self, kept: KeptDecision) -> bytes:
        """Return the document of a decision that was added, also if it is kept no more."""
        with self._lock:
            self._pack()
            self._make(kept)
            self._shrink()
            return kept.text

    def latest_first(self) -> Iterator[bytes]:
        """Yield the documents that are kept now, the latest first."""
        return map(self.text, self._latest_first())

    def find(self, name: str) -> bytes | None:
        """Return the latest document of a request id or of an instance uuid; None if there is none."""
        named = (kept for kept in self._latest_first() if name == kept.request_id or name in kept.instances)
        return next(map(self.text, named), None)

    def _latest_first(self) -> Sequence[KeptDecision]:
        with self._lock:
            return list(reversed(self._ring))

    def _make(self, kept: KeptDecision) -> None:
        """Make the document. The caller holds the lock."""
        if kept.record is not None:
            kept.text, kept.record = encode(kept.record.decision), None
            self._resize(kept, len(kept.text))

    def _pack(self) -> None:
        """Pack what waits; make the documents of what is large. The caller holds the lock."""
        waiting, self._waiting, self._table = self._waiting, [], None
        for kept in waiting:
            if (record := kept.record) is not None:
                size = record.pack()
                if record.error is not None or len(record.instances) > FEW or size > LARGEST_SPEC:
                    self._make(kept)
                else:
                    self._resize(kept, RECORD + size)

    def _resize(self, kept: KeptDecision, size: int) -> None:
        if kept.is_kept:
            self._bytes += size - kept.size
        kept.size = size

    def _shrink(self) -> None:
        while self._ring and (len(self._ring) > self._count or self._bytes > self._max_bytes):
            dropped = self._ring.popleft()
            dropped.is_kept = False
            self._bytes -= dropped.size
