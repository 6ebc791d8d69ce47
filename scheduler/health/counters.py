"""Counting in a worker, and the totals of all workers in the master.

A worker counts into a dict and sends, once a second, what was added since the last time. The master adds that
to its totals. So counting costs no system call, and no total goes backwards when a worker ends. Of a worker
that is killed, what it has counted since its last report is lost.
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
    """What a worker has counted since it was last taken. Any thread may count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counts = {}

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
                found = self._counts[key] = empty(metric)
            found[bucket] += 1.0
            found[-1] += value

    def take(self) -> Counts:
        """Return what was counted, and begin at zero."""
        with self._lock:
            counts, self._counts = self._counts, {}
        return counts

    def put_back(self, counts: Counts) -> None:
        """Add what was taken and could not be handed over."""
        with self._lock:
            add_to(self._counts, counts)


class Totals:
    """What all workers have counted since the daemon started. Any thread may use it."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        """Begin with 0 for each value of a label that is known."""
        self._lock = threading.Lock()
        self._metrics = {metric.name: metric for metric in metrics}
        self._counts: Counts = {}
        for metric in self._metrics.values():
            for labels in [(value,) for value in metric.values] if metric.labels else [()]:
                self._counts[metric.name, labels] = empty(metric)

    def merge(self, counts: Counts) -> None:
        """Add what a worker counted; what is no metric of ours, or of another form, is left out."""
        with self._lock:
            add_to(self._counts, {key: values for key, values in counts.items() if self._fits(key, values)})

    def copy(self) -> Counts:
        """Return the totals of now."""
        with self._lock:
            return {key: list(values) for key, values in self._counts.items()}

    def _fits(self, key: tuple[str, Labels], values: list[float]) -> bool:
        metric = self._metrics.get(key[0])
        return metric is not None and len(key[1]) == len(metric.labels) and len(values) == len(empty(metric))


def empty(metric: Metric) -> list[float]:
    """Return the values of a metric that counted nothing."""
    return [0.0] * (len(metric.buckets) + 2 if metric.buckets else 1)


def add_to(totals: Counts, counts: Counts) -> None:
    """Add counts to others."""
    for key, values in counts.items():
        found = totals.get(key)
        totals[key] = list(values) if found is None else [a + b for a, b in zip(found, values, strict=True)]
