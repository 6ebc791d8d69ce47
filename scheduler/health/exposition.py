"""The text of ``/metrics``."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from scheduler.health import catalogue
from scheduler.health.catalogue import Metric
from scheduler.health.counters import Labels, Totals
from scheduler.health.supervision import WorkerRecord, WorkerTable

CONTENT_TYPE = CONTENT_TYPE_LATEST

Samples = Iterable[tuple[Labels, float]]


class DaemonCollector(Collector):
    """The metrics of all workers and of the master, as prometheus-client wants them."""

    def __init__(self, totals: Totals, workers: WorkerTable, version: str, started: float) -> None:
        """Collect from the master.

        Args:
            started: When it started, in seconds since the epoch.
        """
        self._totals = totals
        self._workers = workers
        self._version = version
        self._started = started

    def collect(self) -> Iterator[Family]:
        """Yield each metric of the catalogue with its samples of now."""
        counts = self._totals.copy()
        gauges = self._gauges()
        for metric in catalogue.METRICS:
            if metric.kind == "gauge":
                yield _gauge(metric, gauges[metric])
                continue
            found = [(labels, values) for (name, labels), values in counts.items() if name == metric.name]
            yield _histogram(metric, found) if metric.buckets else _counter(metric, found)

    def _gauges(self) -> dict[Metric, Samples]:
        workers = self._workers
        phases = Counter(each.phase for each in workers.records)
        current = workers.current()
        return {
            catalogue.BUILD: [((self._version,), 1.0)],
            catalogue.STARTED: [((), self._started)],
            catalogue.WORKERS: [((phase,), phases[phase]) for phase in catalogue.PHASES],
            catalogue.REPORT_AGE: [((str(each.number),), workers.age(each)) for each in workers.records],
            catalogue.IN_FLIGHT: [((str(each.number),), each.state.in_flight) for each in current],
            catalogue.UNANSWERED: [((str(each.number),), each.state.unanswered) for each in current],
            catalogue.WAITING: [((str(each.number),), each.state.waiting) for each in current],
            catalogue.PENDING: [((str(each.number),), each.state.pending) for each in current],
            catalogue.CLEANUPS: [((str(each.number),), each.state.cleanups) for each in current],
            catalogue.COMPUTE_NODES: [((str(each.number),), each.state.compute_nodes) for each in current],
            catalogue.SCHEDULERS: [((str(each.number),), each.state.schedulers) for each in current],
            catalogue.WORKER_MEMORY: [
                ((str(each.number),), each.report.memory) for each in current if each.report
            ],
            catalogue.MIRROR_AGE: [
                ((str(each.number),), each.state.mirror_age + workers.age(each))
                for each in current
                if each.state.mirror_age is not None
            ],
            catalogue.CELL_AGE: [
                ((str(each.number), cell.name), cell.age + workers.age(each))
                for each in current
                for cell in each.state.cells
                if cell.age is not None
            ],
            catalogue.DEPENDENCY_UP: [sample for each in current for sample in _dependencies(each)],
        }


class Exposition:
    """Makes the text of ``/metrics``."""

    def __init__(self, collector: Collector) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(collector)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


def _dependencies(worker: WorkerRecord) -> Iterator[tuple[Labels, float]]:
    for name in catalogue.DEPENDENCIES:
        state = getattr(worker.state, name)
        if state is not None:
            yield (str(worker.number), name), float(state)


def _gauge(metric: Metric, samples: Samples) -> Family:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _counter(metric: Metric, found: Iterable[tuple[Labels, list[float]]]) -> Family:
    family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, values in found:
        family.add_metric(labels, values[0])
    return family


def _histogram(metric: Metric, found: Iterable[tuple[Labels, list[float]]]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    bounds = [floatToGoString(bound) for bound in (*metric.buckets, float("inf"))]
    for labels, (*counts, total) in found:
        family.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)
    return family
