"""The text of ``/metrics``."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from scheduler.health import catalogue
from scheduler.health.catalogue import Metric
from scheduler.health.counters import Counters, Labels
from scheduler.health.supervision import WorkerRecord, WorkerTable

CONTENT_TYPE = CONTENT_TYPE_LATEST


class DaemonCollector(Collector):
    """The metrics of all workers and of the master, as prometheus-client wants them."""

    def __init__(self, totals: Counters, workers: WorkerTable, version: str, started: float) -> None:
        """Collect from the master.

        Args:
            started: When it started, in seconds since the epoch.
        """
        self._totals = totals
        self._workers = workers
        self._version = version
        self._started = started

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self)

    def collect(self) -> Iterator[Family]:
        """Yield each metric of the catalogue with its samples of now."""
        samples = defaultdict(list)
        for (name, labels), values in self._totals.copy().items():
            samples[name].append((labels, values))
        for name, labels, value in self._gauges():
            samples[name].append((labels, [value]))
        for metric in catalogue.METRICS:
            yield _family(metric, samples[metric.name])

    def _gauges(self) -> Iterator[tuple[str, Labels, float]]:
        workers = self._workers
        yield catalogue.BUILD.name, (self._version,), 1.0
        yield catalogue.STARTED.name, (), self._started
        phases = Counter(each.phase for each in workers.records)
        for phase in catalogue.PHASES:
            yield catalogue.WORKERS.name, (phase,), phases[phase]
        for each in workers.records:
            yield catalogue.REPORT_AGE.name, (str(each.number),), workers.age(each)
        for each in workers.current():
            for name, labels, value in _reported(each):
                # an age goes on growing between two reports
                age = workers.age(each) if name.endswith("_age_seconds") else 0.0
                yield name, (str(each.number), *labels), value + age


def _reported(worker: WorkerRecord) -> Iterator[tuple[str, Labels, float]]:
    """Yield the gauges of a worker's last report, with the labels that follow its number."""
    state = worker.state
    yield from ((name, (), value) for name, value in state.gauges.items())
    yield from (
        (catalogue.CELL_AGE.name, (cell.name,), cell.age) for cell in state.cells if cell.age is not None
    )
    for name in catalogue.DEPENDENCIES:
        answers = getattr(state, name)
        if answers is not None:
            yield catalogue.DEPENDENCY_UP.name, (name,), answers


def _family(metric: Metric, samples: Iterable[tuple[Labels, list[float]]]) -> Family:
    if metric.buckets:
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        bounds = [*map(str, metric.buckets), "+Inf"]
        for labels, (*counts, total) in samples:
            histogram.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, (value,) in samples:
        family.add_metric(labels, value)
    return family
