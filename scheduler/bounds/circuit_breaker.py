"""Circuit breakers: a party that does not answer is skipped, so that requests do not wait for it.

A breaker is *closed* while its dependency answers, *open* while the dependency is skipped, and *half open*
while one call, the probe, checks whether it has recovered. There is one breaker for each dependency: each
cell, the API database, Placement, Keystone, Neutron.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import math
import threading
import time

from oslo_log import log as logging

from scheduler.errors import BerthError
from scheduler.logs import OutageLog, brief

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds from the first failure to the first probe. They double with each probe, up to a limit.
FIRST_PROBE = 1.0
MAX_PROBE_INTERVAL = 30.0


class CircuitOpen(BerthError):
    """A party is left out; the text names it and says why."""


class CircuitBreaker:
    """Whether one party is worth calling. Any thread may use it.

    Attributes:
        party: The party, as log lines name it.
    """

    def __init__(
        self,
        party: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        failures: int = 1,
        max_probe_interval: float = MAX_PROBE_INTERVAL,
    ) -> None:
        """Close the breaker.

        Args:
            party: The party, as log lines name it.
            failures: How many failures in a row open the breaker.
            max_probe_interval: The longest time between two probes, in seconds.
        """
        self.party = party
        self._clock = clock
        self._failures = failures
        self._max_interval = max_probe_interval
        self._lock = threading.Lock()
        self._in_a_row = 0
        self._reason: str | None = None
        self._interval = FIRST_PROBE
        self._probe_at = 0.0
        self._answered_at = -math.inf
        self._outage = OutageLog(
            LOG, f"{party} is unavailable; skipping it until it answers", f"{party} is available again", clock
        )

    @property
    def open_reason(self) -> str | None:
        """Why the party is left out; None while it is called."""
        return self._reason

    def failed(self, reason: str, begun_at: float = math.inf) -> None:
        """Count a call that the party did not answer; enough of them in a row open the breaker.

        Args:
            begun_at: When the call began, in seconds of the clock. Its failure does not count if the party
                has answered since: calls of an outage may end long after it.
        """
        with self._lock:
            if begun_at < self._answered_at:
                return
            self._in_a_row += 1
            if self._reason is None and self._in_a_row < self._failures:
                return
            if self._reason is None:
                self._probe_at = self._clock() + self._interval
            self._reason = reason
        self._outage.report_failure(CircuitOpen(reason))

    def reset(self) -> None:
        """Close the breaker, after an answer."""
        with self._lock:
            self._in_a_row = 0
            self._reason = None
            self._answered_at = self._clock()
            self._interval = min(FIRST_PROBE, self._max_interval)
        self._outage.report_success()

    def probe_due(self) -> bool:
        """Return whether to probe now. If so, the next probe is due after twice the interval."""
        with self._lock:
            due = self._clock() >= self._probe_at
            if due:
                self._interval = min(self._interval * 2, self._max_interval)
                self._probe_at = self._clock() + self._interval
            return due

    def check(self) -> None:
        """Return if the party is to be called: the breaker is closed, or this call is the probe that is due.

        Raises:
            CircuitOpen: The party is left out.
        """
        reason = self._reason
        if reason is not None and not self.probe_due():
            raise CircuitOpen(f"{self.party} is left out: {reason}")

    @contextmanager
    def guard(self, *away: type[Exception]) -> Iterator[None]:
        """Guard one call of the party.

        Args:
            away: The errors of a party that is away. Any other outcome is an answer.

        Raises:
            CircuitOpen: The party is left out, and was not called.
        """
        self.check()
        begun_at = self._clock()
        try:
            yield
        except away as error:
            self.failed(brief(error), begun_at)
            raise
        except Exception:
            self.reset()
            raise
        self.reset()
