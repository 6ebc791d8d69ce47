"""Log lines that would otherwise repeat with every request."""

import threading
import time


class Occasionally:
    """Logs a warning of one kind at most once in ``interval`` seconds; what comes between is debug output."""

    def __init__(self, log, interval: float = 60.0, clock=time.monotonic) -> None:
        self._log = log
        self._interval = interval
        self._clock = clock
        self._lock = threading.Lock()
        self._due: dict[str, float] = {}
        self._held_back: dict[str, int] = {}

    def warning(self, kind: str, message: str, *arguments: object) -> None:
        """Log ``message``; kinds are few and fixed. The next line tells how many were held back."""
        held_back = self._count(kind)
        if held_back is None:
            self._log.debug(message, *arguments)
        elif held_back:
            self._log.warning(f"{message} (and {held_back} more like this)", *arguments)
        else:
            self._log.warning(message, *arguments)

    def _count(self, kind: str) -> int | None:
        now = self._clock()
        with self._lock:
            if now < self._due.get(kind, now):
                self._held_back[kind] = self._held_back.get(kind, 0) + 1
                return None
            self._due[kind] = now + self._interval
            return self._held_back.pop(kind, 0)
