"""What the process counts, in a registry of prometheus-client."""

from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from scheduler.health import catalogue
from scheduler.health.catalogue import MetricEntry

M = TypeVar("M", Counter, Histogram)


class Counters:
    """The counters and histograms of the catalogue. Any thread may use it.

    Attributes:
        registry: Has them; known values of labels are 0 from the beginning on.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # a time for each series doubles the page
        self.registry = CollectorRegistry()
        # by name and labels: the library takes longer to find a series than to add to it
        self._counters: dict[tuple[str, ...], Counter] = {}
        self._histograms: dict[tuple[str, ...], Histogram] = {}
        for metric in catalogue.METRICS:
            described = metric.name, metric.help, metric.labels
            if metric.kind == "counter":
                self._counters[metric.name,] = Counter(*described, registry=self.registry)
                for value in metric.values:
                    _series(self._counters, metric.name, value)
            elif metric.kind == "histogram":
                self._histograms[metric.name,] = Histogram(
                    *described, registry=self.registry, buckets=metric.buckets
                )
                for value in metric.values:
                    _series(self._histograms, metric.name, value)

    def add(self, metric: MetricEntry, amount: float = 1.0, *labels: str) -> None:
        """Add to a counter."""
        _series(self._counters, metric.name, *labels).inc(amount)

    def observe(self, metric: MetricEntry, value: float, *labels: str) -> None:
        """Add a value to a histogram."""
        _series(self._histograms, metric.name, *labels).observe(value)


def _series(known: dict[tuple[str, ...], M], *key: str) -> M:
    series = known.get(key)
    if series is None:
        series = known[key] = known[key[:1]].labels(*key[1:])
    return series
