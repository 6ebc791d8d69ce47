"""How often the mirror is refreshed: more often where much is refused of what was chosen by it."""

from collections.abc import Callable
import threading
from typing import NamedTuple

# Above this share of refused claims the interval is halved, down to MIN_INTERVAL seconds; below it, doubled.
REFUSED_OFTEN = 0.02
MIN_INTERVAL = 5.0

# Above this share of refused claims, of STORM_CLAIMS or more, queries go to Placement until the next refresh.
REFUSED_MOSTLY = 0.2
STORM_CLAIMS = 50


class ClaimCounts(NamedTuple):
    """The claims since the last refresh.

    Attributes:
        refused: Those that Placement refused.
        total: All of them.
    """

    refused: int
    total: int

    @property
    def is_storm(self) -> bool:
        """Whether most of so many are refused that the mirror misleads more than it helps."""
        return self.total >= STORM_CLAIMS and self.refused > REFUSED_MOSTLY * self.total


class RefreshPace:
    """Counts claims, and adapts the interval of the refreshes to them. Any thread may use it."""

    def __init__(self, configured: Callable[[], float]) -> None:
        """Begin with the configured interval.

        Args:
            configured: Returns the seconds between two refreshes while few claims are refused.
        """
        self._configured = configured
        self._lock = threading.Lock()
        self._shorter = 1.0
        self._granted = self._refused = 0

    def note_granted(self) -> None:
        """Count a claim that Placement granted."""
        with self._lock:
            self._granted += 1

    def note_refused(self) -> ClaimCounts:
        """Count a claim that Placement refused, and return the counts with it."""
        with self._lock:
            self._refused += 1
            return ClaimCounts(self._refused, self._granted + self._refused)

    @property
    def has_claims(self) -> bool:
        """Whether anything was claimed since the last refresh."""
        with self._lock:
            return bool(self._granted or self._refused)

    def interval(self) -> float:
        """Return the seconds from one refresh to the next."""
        configured = self._configured()
        return max(min(configured, MIN_INTERVAL), configured * self._shorter)

    def adapt(self) -> None:
        """Adapt the interval to the claims since the last refresh, and count anew; called at each refresh."""
        with self._lock:
            total = self._granted + self._refused
            if total:
                often = self._refused > REFUSED_OFTEN * total
                self._shorter = self._shorter / 2 if often else min(1.0, self._shorter * 2)
            self._granted = self._refused = 0
