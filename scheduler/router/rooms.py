"""How much room each partition has.

Schedulers tell every few seconds how much memory is free on their hosts. What this process has sent to a
partition since then is subtracted, or else all requests of these seconds would go to the same one.
"""

from collections.abc import Iterable
import threading

from scheduler.stream.records import Member


class Rooms:
    """The free share of each partition. Any thread may use it."""

    def __init__(self) -> None:
        """Begin without anything heard or sent."""
        self._lock = threading.Lock()
        self._told: dict[str, tuple[int, int]] = {}
        self._sent: dict[str, int] = {}

    def copy(self) -> "Rooms":
        """Return the same in a copy, in which requests can be noted that are not sent."""
        copied = Rooms()
        with self._lock:
            copied._told, copied._sent = dict(self._told), dict(self._sent)
        return copied

    def shares(self, members: Iterable[Member]) -> dict[str, float]:
        """Return the share of its memory that each partition has free, 0 to 1, by name.

        Args:
            members: The schedulers that are alive. Those of one partition know the same hosts; the one that
                knows of most of them counts.
        """
        told: dict[str, tuple[int, int]] = {}
        for member in members:
            known = told.get(member.partition, (0, 0))
            told[member.partition] = max(known, (member.total_mb, member.free_mb))
        with self._lock:
            for name, room in told.items():
                if room != self._told.get(name):
                    self._sent.pop(name, None)
            self._told = told
            return {
                name: max(0.0, free - self._sent.get(name, 0)) / total if total else 0.0
                for name, (total, free) in told.items()
            }

    def sent(self, partition: str, memory_mb: int) -> None:
        """Note that a request for so many MiB was sent to a partition."""
        with self._lock:
            self._sent[partition] = self._sent.get(partition, 0) + memory_mb
