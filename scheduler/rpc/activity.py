"""How busy the threads of a server are: a server whose threads all wait for ever is restarted."""

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

    def stalled(self) -> float:
        """Return the seconds since a message was begun or finished, if no thread is free; otherwise 0."""
        if self.in_flight < self._threads:
            return 0.0
        return self._clock() - self._moved_at

    def touch(self) -> None:
        """Note that a message waits for another process: a thread that does so is not stuck."""
        self._move(0)

    def _move(self, step: int) -> None:
        with self._lock:
            self.in_flight += step
            self._moved_at = self._clock()
