from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
import pytest

from scheduler.health import catalogue
from scheduler.health.counters import Counters, StateCollector
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


def value(counters, name, **labels):
    return counters.registry.get_sample_value(name, labels)


def test_counts_are_added_for_each_combination_of_labels():
    counters = Counters()
    for amount, name in [(2, "A"), (3, "B"), (4, "A")]:
        counters.add(catalogue.FILTERED, amount, name)
    counters.add(catalogue.REFUSED)
    assert value(counters, "berth_hosts_filtered_total", filter="A") == 6
    assert value(counters, "berth_hosts_filtered_total", filter="B") == 3
    assert value(counters, "berth_messages_refused_total") == 1


def test_a_value_is_in_all_buckets_above_it():
    counters = Counters()
    for tries in (1, 2, 100):
        counters.observe(catalogue.CLAIM_TRIES, tries)
    buckets = {
        le: value(counters, "berth_claim_tries_bucket", le=le) for le in ("1.0", "2.0", "10.0", "+Inf")
    }
    assert buckets == {"1.0": 1, "2.0": 2, "10.0": 2, "+Inf": 3}
    assert value(counters, "berth_claim_tries_sum") == 103


def test_known_values_of_labels_are_0_from_the_beginning_on():
    counters = Counters()
    for metric in catalogue.METRICS:
        if metric.kind == "counter":
            for one in metric.values:
                assert value(counters, metric.series, **{metric.labels[0]: one}) == 0


# -- the text of /metrics, read by prometheus-client's own parser


@pytest.fixture
def text():
    registry = Counters().registry
    registry.register(StateCollector(lambda: (True, STATE), "1.2.3"))
    return generate_latest(registry).decode()


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


def test_no_series_has_a_time_of_its_creation(samples):
    assert not [name for name, _ in samples if name.endswith("_created")]
