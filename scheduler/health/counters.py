"""What the process counts, and what metrics show of its state, in a registry of prometheus-client."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.health import catalogue
from scheduler.health.catalogue import MetricEntry
from scheduler.health.state import ServiceState

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


@dataclass(frozen=True)
class StateCollector(Collector):
    """The gauges of the catalogue, as prometheus-client wants them.

    Attributes:
        read: Returns whether the service takes requests, and its state.
    """

    read: Callable[[], tuple[bool, ServiceState]]
    version: str

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield each gauge of the catalogue with its samples of now."""
        families = {
            metric.name: GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
            for metric in catalogue.METRICS
            if metric.kind == "gauge"
        }
        serving, state = self.read()
        families[catalogue.BUILD.name].add_metric((self.version,), 1.0)
        families[catalogue.SERVING.name].add_metric((), serving)
        for name, value in state.gauges.items():
            families[name].add_metric((), value)
        for cell in state.cells:
            if cell.age is not None:
                families[catalogue.CELL_AGE.name].add_metric((cell.name,), cell.age)
        for name in catalogue.DEPENDENCIES:
            if (answers := getattr(state, name)) is not None:
                families[catalogue.DEPENDENCY_UP.name].add_metric((name,), answers)
        yield from families.values()
