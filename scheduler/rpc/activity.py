"""How busy the threads of a server are: a daemon whose threads begin and finish nothing ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import threading
import time


class Activity:
    """How busy the threads of a server are. Any thread may use it."""

    def __init__(self, threads: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with ``threads`` idle threads."""
        self._threads = threads
        self._clock = clock
        self._lock = threading.Lock()
        self._moved_at = clock()
        self.in_flight = 0

    @contextmanager
    def message(self) -> Iterator[None]:
        """Count a message while it is handled."""
        self._move(1)
        try:
            yield
        finally:
            self._move(-1)

    def stalled(self, unanswered: int = 0) -> float:
        """Return the seconds without progress; 0 if there is nothing to do.

        There is if no thread is free, or if calls wait although one is: then the threads are dead.

        Args:
            unanswered: The number of calls that threads handle, or are to handle.
        """
        if self.in_flight < self._threads and unanswered <= self.in_flight:
            return 0.0
        return self._clock() - self._moved_at

    def touch(self) -> None:
        """Note progress within a message: an event of a claim, or a look at another process it waits for."""
        self._move(0)

    def _move(self, step: int) -> None:
        with self._lock:
            self.in_flight += step
            self._moved_at = self._clock()
