"""The counters of the records of other senders: which are new, and how many are missing."""

from cachetools import LRUCache
from oslo_log import log as logging

from scheduler.logs import RateLimitedLogger
from scheduler.stream.records import Record

LOG = logging.getLogger(f"nova.{__name__}")

MOST_SENDERS = 1000
"""Senders whose counters are remembered."""

REPEATED = 5000
"""A counter that goes back by at most so much belongs to a record that was written twice."""

FARTHEST = 1_000_000
"""A counter that leaps further was not written by the sender that it names."""


class SenderCounters:
    """The last counter of each sender. One thread at a time may use it.

    Attributes:
        lost: How many records are missing.
    """

    def __init__(self, warnings: RateLimitedLogger) -> None:
        self.lost = 0
        self._warnings = warnings
        self._last: LRUCache[str, int] = LRUCache(MOST_SENDERS)

    def is_new(self, record: Record, *, is_replayed: bool) -> bool:
        """Return whether a record was not seen before, and count those that are missing before it.

        Args:
            is_replayed: Whether it may be of the time before the subscription: then any counter that goes
                back belongs to a record that was seen before.
        """
        last = self._last.get(record.sender)
        ahead = 1 if last is None else record.counter - last
        if ahead > FARTHEST or (ahead <= 0 and (is_replayed or ahead > -REPEATED)):
            return False
        self._last[record.sender] = record.counter
        if ahead > 1:
            self.lost += ahead - 1
            self._warnings.warning(
                "lost", "Records of another scheduler are missing in the decision stream: %d", ahead - 1
            )
        return True
