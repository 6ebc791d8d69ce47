"""What the process counts, in a registry of prometheus-client."""

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from scheduler.health import catalogue
from scheduler.health.catalogue import MetricEntry


class Counters:
    """The counters and histograms of the catalogue. Any thread may use it.

    Attributes:
        registry: Has them; known values of labels are 0 from the beginning on.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # a time for each series doubles the page
        self.registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        for metric in catalogue.METRICS:
            made: Counter | Histogram
            if metric.kind == "counter":
                made = Counter(metric.name, metric.help, metric.labels, registry=self.registry)
                self._counters[metric.name] = made
            elif metric.kind == "histogram":
                made = Histogram(
                    metric.name, metric.help, metric.labels, registry=self.registry, buckets=metric.buckets
                )
                self._histograms[metric.name] = made
            for value in metric.values:
                made.labels(value)

    def add(self, metric: MetricEntry, amount: float = 1.0, *labels: str) -> None:
        """Add to a counter."""
        counter = self._counters[metric.name]
        (counter.labels(*labels) if labels else counter).inc(amount)

    def observe(self, metric: MetricEntry, value: float, *labels: str) -> None:
        """Add a value to a histogram."""
        histogram = self._histograms[metric.name]
        (histogram.labels(*labels) if labels else histogram).observe(value)
