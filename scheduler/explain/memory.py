"""Keeping the records of the latest decisions, bounded in number and in bytes."""

from collections import Counter, deque
from collections.abc import Iterator
import threading

from scheduler.explain.record import ROW_SIZE, DecisionRecord
from scheduler.hosts.table import HostTable


class DecisionMemory:
    """The latest records. Any thread may use it.

    If bytes are short, the oldest records lose what explains single hosts, those of requests that were served
    first: their counts, weights and claims stay until the number of records is exceeded.
    """

    def __init__(self, count: int, max_bytes: int) -> None:
        """Keep nothing yet.

        Args:
            count: The most records.
            max_bytes: The most bytes, estimated, of all records and the tables that they refer to.
        """
        self._count = count
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._records: deque[DecisionRecord] = deque()
        self._whole: dict[bool, deque[DecisionRecord]] = {True: deque(), False: deque()}
        self._tables: Counter[HostTable] = Counter()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    @property
    def bytes(self) -> int:
        """The estimated bytes of all records."""
        return self._bytes

    def resize(self, count: int, max_bytes: int) -> None:
        """Use other bounds from now on."""
        with self._lock:
            self._count, self._max_bytes = count, max_bytes
            self._shrink()

    def add(self, record: DecisionRecord) -> None:
        """Keep a record that is complete."""
        with self._lock:
            self._records.append(record)
            record.counted = record.size
            self._bytes += record.counted
            if record.hosts is not None:
                self._whole[record.error is not None].append(record)
                self._refer(record.hosts.table, 1)
            self._shrink()

    def latest_first(self) -> Iterator[DecisionRecord]:
        """Yield the records that are kept now, the latest first."""
        with self._lock:
            records = list(self._records)
        return reversed(records)

    def find(self, name: str) -> DecisionRecord | None:
        """Return the latest record of a request id or of an instance uuid; None if there is none."""
        for record in self.latest_first():
            if name == record.request_id or name in record.request.instance_uuids:
                return record
        return None

    def _shrink(self) -> None:
        while len(self._records) > self._count:
            self._remove_oldest()
        while self._bytes > self._max_bytes and self._records:
            queue = self._whole[False] or self._whole[True]
            if queue:
                self._drop_hosts(queue.popleft())
            else:
                self._remove_oldest()

    def _remove_oldest(self) -> None:
        record = self._records.popleft()
        self._bytes -= record.counted
        if record.hosts is not None:
            self._whole[record.error is not None].remove(record)
            self._refer(record.hosts.table, -1)

    def _drop_hosts(self, record: DecisionRecord) -> None:
        if record.hosts is not None:
            table = record.hosts.table
            record.drop_hosts()
            self._bytes -= record.counted
            record.counted = record.size
            self._bytes += record.counted
            self._refer(table, -1)

    def _refer(self, table: HostTable, number: int) -> None:
        before = self._tables[table]
        self._tables[table] = before + number
        if not before:
            self._bytes += ROW_SIZE * len(table)
        elif not self._tables[table]:
            del self._tables[table]
            self._bytes -= ROW_SIZE * len(table)
