"""How often this process returned which call to the broker, so that it is delivered once more."""

import math
import threading
from typing import NamedTuple

from cachetools import LRUCache

#: How often a process returns one redelivered call to the broker.
MOST_POSTPONED = 5

#: Seconds before it does. If another scheduler may have claimed hosts for the call, they double each time, up
#: to the longest: together they are longer than one that was killed takes to start and to give these back.
POSTPONE_DELAY, LONGEST_POSTPONE_DELAY = 1.0, 8.0

#: Redelivered calls of which that is counted.
MOST_REMEMBERED = 10_000


class _Postponed(NamedTuple):
    times: int
    first_received: float


_NEVER = _Postponed(0, math.inf)


class Postponements:
    """The calls that this process returned. Any thread may use it."""

    def __init__(self) -> None:
        """Begin with no call returned."""
        self._calls: LRUCache[str, _Postponed] = LRUCache(MOST_REMEMBERED)
        self._lock = threading.Lock()

    def may_postpone(self, message_id: str) -> bool:
        """Return whether a call may be returned once more; one without an identity may not."""
        return bool(message_id) and self._of(message_id).times < MOST_POSTPONED

    def first_received(self, message_id: str) -> float:
        """Return when the first scheduler received a call, as noted here; infinity if it was not returned."""
        return self._of(message_id).first_received

    def note(self, message_id: str, first_received: float) -> None:
        """Note that a call is returned.

        Args:
            message_id: The identity of the call.
            first_received: When the first scheduler received it; seconds of ``time.monotonic``.
        """
        with self._lock:
            times = self._calls.get(message_id, _NEVER).times + 1
            self._calls[message_id] = _Postponed(times, first_received)

    def growing_delay(self, message_id: str, forwarded: int) -> float:
        """Return the seconds before a call is returned for which another scheduler may have claimed hosts.

        Args:
            message_id: The identity of the call.
            forwarded: How often it was sent on after others may have returned it.
        """
        times = max(self._of(message_id).times, forwarded)
        return min(POSTPONE_DELAY * 2.0**times, LONGEST_POSTPONE_DELAY)

    def _of(self, message_id: str) -> _Postponed:
        with self._lock:
            return self._calls.get(message_id, _NEVER)
