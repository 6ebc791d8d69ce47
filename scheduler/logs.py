"""Log lines about something that is away: one when it goes, one when it is back, few in between.

Log lines that would otherwise repeat with every request.
"""

import threading
import time

#: Seconds after which an outage that goes on is mentioned again.
REMIND = 300.0


class OutageLog:
    """Whether one thing is away, as the log is told of it. Any thread may report."""

    def __init__(self, log, missed: str, back: str, clock=time.monotonic) -> None:
        """``missed`` is logged as an error, followed by its cause; ``back`` when it is over."""
        self._log = log
        self._missed = missed
        self._back = back
        self._clock = clock
        self._lock = threading.Lock()
        self._cause: type | None = None
        self._due = 0.0

    def report(self, error: Exception) -> None:
        """It is away. The same kind of error is not logged again for a while."""
        with self._lock:
            now = self._clock()
            if type(error) is self._cause and now < self._due:
                return
            self._cause = type(error)
            self._due = now + REMIND
        self._log.error("%s: %s", self._missed, brief(error))

    def over(self) -> None:
        """It is there; cheap if it was before."""
        if self._cause is None:
            return
        with self._lock:
            cause, self._cause = self._cause, None
        if cause:
            self._log.info("%s", self._back)


def brief(error: Exception) -> str:
    """The first line of an error's text; those of databases go on with the statement and its values."""
    return str(error).partition("\n")[0] or type(error).__name__


class RateLimitedLogger:
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
