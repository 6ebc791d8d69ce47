"""What lists of providers cost Placement, to choose the cheapest lists for several requests."""

from collections.abc import Callable, Collection
import threading

import cachetools

# Milliseconds of Placement's CPU: for each provider that there is if amounts are compared, and for each that
# is listed (measured with Placement 16; only their proportion matters).
COMPARED = 0.031
LISTED = 0.030

# Paths whose list sizes are remembered.
SIZES = 1024


class ListCosts:
    """Estimates from the sizes that lists had before. Any thread may use it."""

    def __init__(self, providers: Callable[[], int]) -> None:
        """Estimate for a Placement with so many ``providers``."""
        self._providers = providers
        self._lock = threading.Lock()
        self._sizes: cachetools.LRUCache[str, int] = cachetools.LRUCache(SIZES)

    def learn(self, path: str, size: int) -> None:
        """Remember how long a list was."""
        with self._lock:
            self._sizes[path] = size

    def are_less(self, paths: Collection[str], others: Collection[str]) -> bool:
        """Return whether the lists of ``paths`` cost less than those of ``others``."""
        return sum(map(self._cost, paths)) < sum(map(self._cost, others))

    def _cost(self, path: str) -> float:
        with self._lock:
            listed = self._sizes.get(path, self._providers())
        return LISTED * listed + (COMPARED * self._providers() if "resources=" in path else 0.0)
