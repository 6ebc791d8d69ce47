"""For which projects hosts have failed to build lately, as far as this process has sent the builds there.

A compute reports how many builds failed, not whose. So a failure counts for each project whose instance was
sent to the host in the ``BUILD_TIME`` before it was seen.
"""

from collections.abc import Callable
import threading
import time

from cachetools import LRUCache
import numpy as np

from scheduler.hosts.table import HostTable

# Seconds that a build takes at most, as far as failures are concerned.
BUILD_TIME = 900.0

# Pairs of a project and a compute node that are remembered.
MOST_PAIRS = 50_000


class RecentBuilds:
    """Builds that were sent to hosts, and those hosts' failures. Any thread may use it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without a build."""
        self._clock = clock
        self._lock = threading.Lock()
        self._sent: LRUCache[tuple[str, str], float] = LRUCache(MOST_PAIRS)
        self._failed: LRUCache[tuple[str, str], float] = LRUCache(MOST_PAIRS)
        self._last: HostTable | None = None

    def note(self, node: str, project: str | None) -> None:
        """Note that an instance of a project was sent to a compute node."""
        if project:
            with self._lock:
                self._sent[project, node] = self._clock()

    def follow(self, table: HostTable) -> None:
        """Note which projects had failed builds since the last table."""
        last, self._last = self._last, table
        if last is None or last is table or not table.numbers["failed_at"].any():
            return
        before = _failures(last)
        failed = {node: at for node, at in _failures(table).items() if at > before.get(node, 0.0)}
        if failed:
            since = self._clock() - BUILD_TIME
            with self._lock:
                for (project, node), sent_at in self._sent.items():
                    if node in failed and sent_at >= since:
                        self._failed[project, node] = failed[node]

    def failed_for(self, project: str | None, table: HostTable) -> np.ndarray:
        """Return when each host failed last for a project: seconds since the epoch, 0 if it did not."""
        failed_at = np.zeros(len(table))
        with self._lock:
            pairs = [(node, at) for (of, node), at in self._failed.items() if of == project]
        for node, at in pairs:
            if (row := table.row_of_uuid.get(node)) is not None:
                failed_at[row] = at
        return failed_at


def _failures(table: HostTable) -> dict[str, float]:
    """Return when builds failed last, by the uuid of each compute node that has failed builds."""
    failed_at = table.numbers["failed_at"]
    return {table.rows[row].uuid: float(failed_at[row]) for row in np.flatnonzero(failed_at).tolist()}
