"""How often this process returned which call to the broker, so that it is delivered once more."""

import threading

from cachetools import LRUCache

#: How often a process returns one redelivered call to the broker.
MOST_POSTPONED = 5

#: Seconds before it does. If another scheduler may have claimed hosts for the call, they double each time, up
#: to the longest: together they are longer than one that was killed takes to start and to give these back.
POSTPONE_DELAY, LONGEST_POSTPONE_DELAY = 1.0, 8.0

#: Redelivered calls of which that is counted.
MOST_REMEMBERED = 10_000


class Postponements:
    """The calls that this process returned. Any thread may use it."""

    def __init__(self) -> None:
        """Begin with no call returned."""
        self._calls: LRUCache[str, int] = LRUCache(MOST_REMEMBERED)
        self._lock = threading.Lock()

    def may_postpone(self, message_id: str) -> bool:
        """Return whether a call may be returned once more; one without an identity may not."""
        return bool(message_id) and self._times(message_id) < MOST_POSTPONED

    def note(self, message_id: str) -> None:
        """Note that a call is returned."""
        with self._lock:
            self._calls[message_id] = self._calls.get(message_id, 0) + 1

    def growing_delay(self, message_id: str) -> float:
        """Return the seconds before a call is returned for which another scheduler may have claimed hosts."""
        return min(POSTPONE_DELAY * 2.0 ** self._times(message_id), LONGEST_POSTPONE_DELAY)

    def _times(self, message_id: str) -> int:
        with self._lock:
            return self._calls.get(message_id, 0)
