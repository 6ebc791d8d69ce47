"""The text of /metrics, read by prometheus-client's own parser."""

from prometheus_client.parser import text_string_to_metric_families
import pytest

from scheduler.health import catalogue, exposition
from scheduler.health.counters import Counters
from scheduler.health.state import CellState, ServiceState

STATE = ServiceState(
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
    },
)


@pytest.fixture
def text():
    registry = Counters().registry
    exposition.register(registry, exposition.StateCollector(lambda: (True, STATE), "1.2.3"))
    return exposition.text(registry).decode()


@pytest.fixture
def samples(text):
    """{(name, labels as sorted pairs): value}."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_metric_is_described_whether_it_has_samples_or_not(text):
    for metric in catalogue.METRICS:
        assert f"# TYPE {metric.series} {metric.kind}\n" in text, metric.name
        assert f"# HELP {metric.series} {metric.help}\n" in text, metric.name


def test_the_state_is_shown(samples):
    expected = {
        ("berth_requests_in_flight", ()): 5,
        ("berth_calls_unanswered", ()): 6,
        ("berth_pending_placements", ()): 3,
        ("berth_pending_cleanups", ()): 2,
        ("berth_compute_nodes", ()): 7,
        ("berth_mirror_age_seconds", ()): 4,
        ("berth_cell_age_seconds", (("cell", 'a "cell"'),)): 1.5,
        ("berth_dependency_up", (("dependency", "broker"),)): 1,
        ("berth_dependency_up", (("dependency", "api_database"),)): 0,
        ("berth_dependency_up", (("dependency", "decision_stream"),)): 1,
        ("berth_schedulers", ()): 4,
        ("berth_serving", ()): 1,
        ("berth_build_info", (("version", "1.2.3"),)): 1,
    }
    assert {key: samples.get(key) for key in expected} == expected
    assert ("berth_dependency_up", (("dependency", "placement"),)) not in samples, "not used yet"
    assert not [key for key in samples if ("cell", "never") in key[1]], "never read"


def test_the_library_says_what_the_process_uses(samples):
    for name in ("process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"):
        assert samples[name, ()] > 0


def test_no_series_has_a_time_of_its_creation(samples):
    assert not [name for name, _ in samples if name.endswith("_created")]
