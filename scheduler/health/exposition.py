"""The text of ``/metrics``."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from scheduler.health import catalogue
from scheduler.health.state import ServiceState

CONTENT_TYPE = CONTENT_TYPE_LATEST

Sample = tuple[str, tuple[str, ...], float]
"""Name of a metric, the values of its labels, and its value."""


class StateCollector(Collector):
    """The gauges of the catalogue, as prometheus-client wants them."""

    def __init__(self, read: Callable[[], tuple[bool, ServiceState]], version: str) -> None:
        """Collect from a service.

        Args:
            read: Returns whether it takes requests, and its state.
        """
        self._read = read
        self._version = version

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield each gauge of the catalogue with its samples of now."""
        samples = list(self._samples())
        for metric in catalogue.METRICS:
            if metric.kind == "gauge":
                family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
                for name, labels, value in samples:
                    if name == metric.name:
                        family.add_metric(labels, value)
                yield family

    def _samples(self) -> Iterator[Sample]:
        serving, state = self._read()
        yield catalogue.BUILD.name, (self._version,), 1.0
        yield catalogue.SERVING.name, (), serving
        for name, value in state.gauges.items():
            yield name, (), value
        for cell in state.cells:
            if cell.age is not None:
                yield catalogue.CELL_AGE.name, (cell.name,), cell.age
        for name in catalogue.DEPENDENCIES:
            answers = getattr(state, name)
            if answers is not None:
                yield catalogue.DEPENDENCY_UP.name, (name,), answers


def text(registry: CollectorRegistry) -> bytes:
    """Return all metrics in Prometheus' text format."""
    return generate_latest(registry)


def register(registry: CollectorRegistry, state: StateCollector) -> None:
    """Add the gauges of a service to its counters, and what the library says of each process."""
    registry.register(state)
    ProcessCollector(registry=registry)
