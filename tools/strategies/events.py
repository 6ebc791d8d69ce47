"""Simulated time: what happens is in one queue, in the order of its time."""

from collections.abc import Callable
import heapq
import itertools

from greenlet import getcurrent, greenlet


class Events:
    """The queue and the clock. One thread; requests are greenlets, which ``sleep`` where they would wait."""

    def __init__(self) -> None:
        self._now = 0.0
        self._order = itertools.count()
        self._queue: list[tuple[float, int, Callable[[], object]]] = []
        self._hub = getcurrent()

    def now(self) -> float:
        """Return the seconds since the start."""
        return self._now

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Run an action in so many seconds; what is due at the same time runs in the order of the calls."""
        heapq.heappush(self._queue, (self._now + seconds, next(self._order), action))

    def start(self, seconds: float, task: Callable[[], object]) -> None:
        """Begin a task that may sleep, in so many seconds."""
        self.after(seconds, lambda: greenlet(task, self._hub).switch())

    def sleep(self, seconds: float) -> None:
        """Let time pass for the task that calls."""
        self.after(seconds, getcurrent().switch)
        self._hub.switch()

    def run(self, until: float) -> None:
        """Run what is due up to a time."""
        while self._queue and self._queue[0][0] <= until:
            self._now, _, action = heapq.heappop(self._queue)
            action()
        self._now = until
