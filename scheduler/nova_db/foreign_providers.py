"""Root providers that Placement offers and that are no compute nodes of any cell."""

from collections.abc import Callable, Iterable
import threading
import time

from cachetools import TTLCache
from oslo_log import log as logging

from scheduler.logs import RateLimitedLogger

LOG = logging.getLogger(f"nova.{__name__}")

# Seconds for which such a provider is not looked for again. It may become a compute node later.
FOREIGN_TTL = 30.0
MAX_FOREIGN = 100_000

# Seconds after which a provider that is still offered is reported again.
REPORT_INTERVAL = 86400.0


class ForeignProviders:
    """The uuids of such providers, remembered for ``FOREIGN_TTL`` seconds. Any thread may use it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, max_providers: int = MAX_FOREIGN) -> None:
        self._lock = threading.Lock()
        self._uuids: TTLCache[str, None] = TTLCache(max_providers, FOREIGN_TTL, clock)
        self._reports = RateLimitedLogger(LOG, REPORT_INTERVAL, clock, max_providers)

    def __contains__(self, uuid: str) -> bool:
        with self._lock:
            return uuid in self._uuids

    def add(self, uuids: Iterable[str], *, certain: bool = True) -> None:
        """Remember providers.

        Args:
            certain: Whether they were searched in all cells; if so, those that are new are reported.
        """
        uuids = list(uuids)
        with self._lock:
            self._uuids.update(dict.fromkeys(uuids))
        new = [uuid for uuid in uuids if self._reports.admit(uuid) is not None] if certain else []
        if new:
            LOG.info(
                "Resource providers in Placement that are not compute nodes: %d, such as %s",
                len(new),
                new[0],
            )

    def clear(self) -> None:
        """Look for all of them again."""
        with self._lock:
            self._uuids.clear()
