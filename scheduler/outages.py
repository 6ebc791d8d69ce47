"""Log lines about something that is away: one when it goes, one when it is back, few in between."""

import threading
import time

#: Seconds after which an outage that goes on is mentioned again.
REMIND = 300.0


class Outage:
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
