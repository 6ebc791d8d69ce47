"""The state of the master and its workers in shared memory."""

import math
import time
from typing import Any

from scheduler.daemon.calls_in_flight import CallsInFlight
from scheduler.health.monitor import Monitor


class Milestone:
    """A point in the start of workers. Each worker counts once, however often it is started again."""

    def __init__(self, context: Any, workers: int) -> None:
        """Create it before so many workers are forked; ``context`` is the multiprocessing context."""
        self._arrivals = context.Semaphore(0)
        self._arrived = context.RawArray("B", workers)

    @property
    def count(self) -> int:
        """The number of workers that have come so far."""
        return sum(self._arrived)

    def reach(self, worker_id: int) -> None:
        """Note that a worker has come so far."""
        # Also if it is there already: the process before it may have died between the two lines.
        self._arrived[worker_id] = 1
        self._arrivals.release()

    def wait_for_all(self, timeout: float | None = None) -> int:
        """Wait until all workers have come so far, ``timeout`` seconds at most.

        Returns:
            The number of those that have.
        """
        end = math.inf if timeout is None else time.monotonic() + timeout
        while self.count < len(self._arrived):
            left = None if timeout is None else max(0, end - time.monotonic())
            if not self._arrivals.acquire(timeout=left):
                break
        return self.count


class SharedState:
    """The state that the master and its workers share.

    Attributes:
        loaded: Reached by each worker that has read the API database.
        serving: Reached by each worker that takes requests.
        accepted: How many changes of the options the master has taken over.
        taken_over: How many of them this process has; not shared: a worker begins with those that the master
            had when it was forked.
        reloads: How often the master has read the options again.
        calls: The calls that workers run.
        monitor: Where workers report.
    """

    def __init__(self, context: Any, monitor: Monitor, workers: int) -> None:
        """Create it before so many workers are forked; ``context`` is the multiprocessing context."""
        self.monitor = monitor
        self.loaded = Milestone(context, workers)
        self.serving = Milestone(context, workers)
        self.calls = CallsInFlight(context, workers)
        # without locks, which a killed worker would keep
        self.accepted = context.RawValue("L", 0)
        self.taken_over = 0
        self.reloads = context.RawValue("L", 0)
