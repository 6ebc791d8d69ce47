"""Calls that were not served, as their callers had left: one line of the log for many of them."""

from collections import Counter
from contextlib import suppress
import threading
import time

from oslo_log import log as logging

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds in which calls are counted for one line.
INTERVAL = 2.0


class DroppedCalls:
    """Counts them for the log. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._is_due = False

    def note(self, reason: str) -> None:
        """Count a call."""
        with self._lock:
            self._counts[reason] += 1
            if not self._is_due:
                # not a Timer: the simulation has threads and sleeping, which are all that it would be
                with suppress(RuntimeError):  # no thread is left: the next call tries again
                    threading.Thread(target=self._log_later, name="dropped-calls", daemon=True).start()
                    self._is_due = True

    def log(self) -> None:
        """Log what was counted since the last line."""
        with self._lock:
            counts, self._counts, self._is_due = self._counts, Counter(), False
        for reason, number in counts.items():
            LOG.warning("Dropped calls without serving them: %d (%s)", number, reason)

    def _log_later(self) -> None:
        time.sleep(INTERVAL)
        self.log()
