"""The latest decisions: a ring bounded in number and in bytes. Documents are made when they are wanted."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
import threading
from typing import Any

import msgspec

from scheduler.decisions.document import decode, decode_entry, encode, seconds_of
from scheduler.decisions.host_history import history_of
from scheduler.decisions.record import LARGEST_SPEC, DecisionRecord
from scheduler.hosts.table import HostTable

#: Maximum length of a list of decisions.
MOST_ENTRIES = 10_000

#: Records that are packed together: the code and the memory that this takes are cold after each request.
MOST_WAITING = 32

#: The most instances of a decision whose document is made when it is wanted: the record grows with them.
FEW = 10

#: Bytes of a record and its hosts besides the request. The document has less than half as many.
RECORD = 10 * 1024


@dataclass(slots=True, eq=False)
class KeptDecision:
    """One decision.

    Attributes:
        record: What its document is made of; None: the document is made, and stays as it is.
        text: The document; b"" before it is made.
        size: Bytes of the document, or about those of the record; 0 before that is packed.
        is_kept: Whether it is in the ring.
        is_urgent: Whether its explanation is asked for, or being completed: then it is not dropped.
    """

    request_id: str
    instances: Sequence[str]
    record: DecisionRecord | None
    text: bytes = b""
    size: int = 0
    is_kept: bool = True
    is_urgent: bool = False

    def is_called(self, name: str) -> bool:
        """Return whether a request id or the UUID of an instance is its name."""
        return name == self.request_id or name in self.instances


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

    def close(self, kept: KeptDecision) -> bool:
        """Make the last document of a decision; return False if it is made."""
        with self._lock:
            if kept.record is None:
                return False
            kept.record.unexplained, kept.text = None, b""
            self._make(kept)
            self._shrink()
            return True

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
        return next((self.text(kept) for kept in self._latest_first() if kept.is_called(name)), None)

    def entries(
        self, *, failed: bool = False, since: float = 0.0, project: str | None = None, at_most: int = 100
    ) -> list[dict[str, Any]]:
        """Return an entry for each of the latest decisions, the latest first."""
        kept = map(decode_entry, self.latest_first())
        wanted = (entry for entry in kept if entry.is_wanted(failed=failed, since=since, project=project))
        return [entry.values() for entry in islice(wanted, at_most)]

    def host_history(self, host: str, since: float = 0.0) -> dict[str, Any]:
        """Return the outcomes of a host in the decisions since a time; see ``host_history.history_of``."""
        decisions = (one for one in map(decode, self.latest_first()) if seconds_of(one.time) >= since)
        return msgspec.to_builtins(history_of(decisions, host), str_keys=True)

    def _latest_first(self) -> Sequence[KeptDecision]:
        with self._lock:
            return list(reversed(self._ring))

    def _make(self, kept: KeptDecision) -> None:
        """Make the document. The caller holds the lock."""
        if kept.record is not None and not kept.text:
            kept.text = encode(kept.record.decision)
            if kept.record.unexplained is None:
                kept.record = None
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
