"""Calls that were not served, as their callers had left: one line of the log for many of them."""

from collections import Counter
from contextlib import suppress
import threading

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: Seconds in which calls are counted for one line.
INTERVAL = 2.0


class DroppedCalls:
    """Counts them for the log. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._timer: threading.Timer | None = None

    def note(self, reason: str) -> None:
        """Count a call."""
        with self._lock:
            self._counts[reason] += 1
            if self._timer is None:
                timer = threading.Timer(INTERVAL, self.log)
                timer.daemon = True
                with suppress(RuntimeError):  # no thread is left: the next call tries again
                    timer.start()
                    self._timer = timer

    def log(self) -> None:
        """Log what was counted since the last line."""
        with self._lock:
            counts, self._counts, self._timer = self._counts, Counter(), None
        for reason, number in counts.items():
            LOG.warning("Dropped calls without serving them: %d (%s)", number, reason)
