"""What workers count, and the totals of all workers in the master.

A worker reports, once per second, what it counted since its last report. The master adds that to its totals,
so no total goes down when a worker ends. Counting is an addition in memory. When a worker is killed, its
counts since its last report are lost.

The multiprocess mode of prometheus-client is not used:

* It maps a file into memory for each process. A full file system ends the process (SIGBUS), and counting a
  decision takes four times as long.
* The files of ended processes stay, each makes a scrape slower, and the library never removes them.
* It cannot remove a label, such as a cell that was deleted.
* The environment decides at the import of the library, for the whole process, whether it is used.
* Health checks and the search for workers that hang need the reports all the same.
"""

from bisect import bisect_left
from collections.abc import Iterable
import threading

from scheduler.health.catalogue import Metric

Labels = tuple[str, ...]
"""The values of a metric's labels, in their order."""

Counts = dict[tuple[str, Labels], list[float]]
"""(name, labels) -> [sum], or for a histogram [number in each bucket, the last without bound, sum]."""


class Counters:
    """Counts of one process, or the totals. Any thread may use it."""

    def __init__(self, metrics: Iterable[Metric] = ()) -> None:
        """Begin with 0 for each known label value of some metrics."""
        self._lock = threading.Lock()
        self._counts: Counts = {
            (metric.name, labels): _zeros(metric)
            for metric in metrics
            for labels in ([(value,) for value in metric.values] if metric.labels else [()])
        }

    def add(self, metric: Metric, amount: float = 1.0, *labels: str) -> None:
        """Add to a counter."""
        key = metric.name, labels
        with self._lock:
            found = self._counts.get(key)
            if found is None:
                self._counts[key] = [amount]
            else:
                found[0] += amount

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Add a value to a histogram."""
        key = metric.name, labels
        bucket = bisect_left(metric.buckets, value)
        with self._lock:
            found = self._counts.get(key)
            if found is None:
                found = self._counts[key] = _zeros(metric)
            found[bucket] += 1.0
            found[-1] += value

    def merge(self, counts: Counts) -> None:
        """Add what was taken from others, or could not be handed over."""
        with self._lock:
            for key, values in counts.items():
                found = self._counts.get(key)
                self._counts[key] = (
                    list(values) if found is None else [a + b for a, b in zip(found, values, strict=True)]
                )

    def take(self) -> Counts:
        """Return what was counted, and begin at zero."""
        with self._lock:
            counts, self._counts = self._counts, {}
        return counts

    def copy(self) -> Counts:
        """Return what was counted so far."""
        with self._lock:
            return {key: list(values) for key, values in self._counts.items()}


def _zeros(metric: Metric) -> list[float]:
    return [0.0] * (len(metric.buckets) + 2 if metric.buckets else 1)
