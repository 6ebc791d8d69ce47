"""The text of /metrics, read by prometheus-client's own parser."""

from prometheus_client.parser import text_string_to_metric_families
import pytest

from scheduler.health import catalogue
from scheduler.health.counters import Counters
from scheduler.health.exposition import DaemonCollector
from scheduler.health.reports import CellState, Report, WorkerState
from scheduler.health.supervision import STALE, WorkerTable
from tests.support.clock import Clock

STATE = WorkerState(
    cells=(
        CellState('a "cell"', True, True, 1.5),
        CellState("never", True, False, None),
    ),
    broker=True,
    api_database=False,
    decision_stream=True,
    gauges={
        "berth_requests_in_flight": 5,
        "berth_calls_unanswered": 6,
        "berth_pending_placements": 3,
        "berth_pending_cleanups": 2,
        "berth_compute_nodes": 7,
        "berth_mirror_age_seconds": 4.0,
        "berth_schedulers": 4,
        "berth_worker_resident_memory_bytes": 1000,
    },
)


class World:
    def __init__(self):
        self.clock = Clock()
        self.totals = Counters([metric for metric in catalogue.METRICS if metric.kind != "gauge"])
        self.table = WorkerTable(2, lambda: 60.0, self.clock)
        self.table.reported([Report(0, 100, "serving", 0, STATE, {})])
        self.exposition = DaemonCollector(self.totals, self.table, "1.2.3", 17.0)

    def samples(self):
        """{(name, labels as sorted pairs): value}."""
        families = text_string_to_metric_families(self.exposition.text().decode())
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families
            for sample in family.samples
        }


@pytest.fixture
def world():
    return World()


def test_every_metric_is_described_whether_it_has_samples_or_not(world):
    text = world.exposition.text().decode()
    for metric in catalogue.METRICS:
        assert f"# TYPE {metric.series} {metric.kind}\n" in text, metric.name
        assert f"# HELP {metric.series} {metric.help}\n" in text, metric.name


def test_what_a_worker_reported_is_shown_with_its_number(world):
    world.clock.now += 2
    samples = world.samples()
    worker = (("worker", "0"),)
    expected = {
        ("berth_requests_in_flight", worker): 5,
        ("berth_calls_unanswered", worker): 6,
        ("berth_pending_placements", worker): 3,
        ("berth_pending_cleanups", worker): 2,
        ("berth_compute_nodes", worker): 7,
        ("berth_mirror_age_seconds", worker): 6,
        ("berth_worker_resident_memory_bytes", worker): 1000,
        ("berth_worker_report_age_seconds", worker): 2,
        ("berth_cell_age_seconds", (("cell", 'a "cell"'), *worker)): 3.5,
        ("berth_dependency_up", (("dependency", "broker"), *worker)): 1,
        ("berth_dependency_up", (("dependency", "api_database"), *worker)): 0,
        ("berth_dependency_up", (("dependency", "decision_stream"), *worker)): 1,
        ("berth_schedulers", worker): 4,
        ("berth_workers", (("phase", "serving"),)): 1,
        ("berth_workers", (("phase", "missing"),)): 1,
        ("berth_build_info", (("version", "1.2.3"),)): 1,
        ("berth_start_time_seconds", ()): 17,
    }
    assert {key: samples.get(key) for key in expected} == expected
    assert ("berth_dependency_up", (("dependency", "placement"), *worker)) not in samples, "not used yet"
    assert not [key for key in samples if ("cell", "never") in key[1]], "never read"


def test_what_is_old_is_not_shown_as_if_it_were_current(world):
    world.clock.now += STALE + 1
    names = {name for name, _labels in world.samples()}
    assert "berth_compute_nodes" not in names
    assert "berth_worker_report_age_seconds" in names


def test_histograms_are_cumulative(world):
    counters = Counters()
    for tries in (1, 1, 2, 20):
        counters.observe(catalogue.CLAIM_TRIES, tries)
    world.totals.merge(counters.take())
    samples = world.samples()
    buckets = {
        labels[0][1]: value for (name, labels), value in samples.items() if name == "berth_claim_tries_bucket"
    }
    assert buckets == {"1.0": 2, "2.0": 3, "3.0": 3, "5.0": 3, "10.0": 3, "+Inf": 4}
    assert samples["berth_claim_tries_sum", ()] == 24
    assert samples["berth_claim_tries_count", ()] == 4


def test_outcomes_are_shown_as_0_before_they_occur(world):
    samples = world.samples()
    for outcome in catalogue.OUTCOMES:
        assert samples["berth_requests_total", (("outcome", outcome),)] == 0, outcome
