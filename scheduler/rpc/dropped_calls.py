"""Calls that were not served, as their callers had left: one line of the log for many of them."""

from collections import Counter
from collections.abc import Callable
import math
import threading
import time

from oslo_log import log as logging

from scheduler.background import BackgroundLoop, MakeLoop

LOG = logging.getLogger(__name__)

#: Seconds between two lines, and between two rounds while there is none to write.
INTERVAL, IDLE = 2.0, 3600.0


class DroppedCalls:
    """Counts them for the log. Any thread may use it."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, make_loop: MakeLoop = BackgroundLoop
    ) -> None:
        """Begin with none."""
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._since = math.inf
        self._loop = make_loop("dropped-calls", self._round)

    def start(self) -> None:
        """Start the thread that logs.

        Raises:
            RuntimeError: The system has no thread left.
        """
        self._loop.start()

    def note(self, reason: str) -> None:
        """Count a call."""
        with self._lock:
            self._counts[reason] += 1
            self._since = min(self._since, self._clock())
        self._loop.wake()

    def log(self) -> None:
        """Log what was counted since the last line."""
        with self._lock:
            counts, self._counts, self._since = self._counts, Counter(), math.inf
        for reason, number in counts.items():
            LOG.warning("Dropped calls without serving them: %d (%s)", number, reason)

    def _round(self) -> float:
        left = self._since + INTERVAL - self._clock()
        if left <= 0:
            self.log()
        return min(IDLE, max(left, 0.0) or IDLE)
