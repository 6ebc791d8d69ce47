"""Counting in workers, and the totals."""

import pytest

from scheduler.health import catalogue
from scheduler.health.catalogue import Metric
from scheduler.health.counters import Counters

SIZES = Metric("sizes", "histogram", "", ("kind",), buckets=(1.0, 10.0))
CALLS = Metric("calls", "counter", "", ("result",), ("good", "bad"))


@pytest.mark.parametrize(
    ("value", "counts"),
    [(0.5, [1, 0, 0]), (1.0, [1, 0, 0]), (1.5, [0, 1, 0]), (10.0, [0, 1, 0]), (11.0, [0, 0, 1])],
    ids=["below", "on the first bound", "between", "on the last bound", "above"],
)
def test_a_value_is_counted_in_the_first_bucket_whose_bound_is_not_below_it(value, counts):
    counters = Counters()
    counters.observe(SIZES, value, "big")
    assert counters.take() == {("sizes", ("big",)): [*counts, value]}


def test_what_was_taken_is_not_taken_again():
    counters = Counters()
    counters.add(CALLS, 2, "good")
    counters.add(CALLS, 1, "good")
    assert counters.take() == {("calls", ("good",)): [3]}
    assert counters.take() == {}


def test_what_was_put_back_is_added_to_what_was_counted_meanwhile():
    counters = Counters()
    counters.add(CALLS, 2, "good")
    taken = counters.take()
    counters.add(CALLS, 5, "good")
    counters.merge(taken)
    assert counters.take() == {("calls", ("good",)): [7]}


def test_totals_show_0_for_known_values_and_grow():
    totals = Counters([CALLS, SIZES])
    assert totals.copy() == {("calls", ("good",)): [0], ("calls", ("bad",)): [0]}
    for _ in range(2):
        totals.merge({("calls", ("good",)): [3], ("sizes", ("big",)): [1, 0, 0, 0.5]})
    assert totals.copy() == {
        ("calls", ("good",)): [6],
        ("calls", ("bad",)): [0],
        ("sizes", ("big",)): [2, 0, 0, 1.0],
    }


def test_every_metric_of_the_catalogue_is_complete():
    names = [metric.name for metric in catalogue.METRICS]
    assert len(names) > 30
    assert len(set(names)) == len(names)
    for metric in catalogue.METRICS:
        assert metric.name.startswith("berth_"), metric.name
        assert metric.help.endswith("."), metric.name
        assert (metric.kind == "histogram") == bool(metric.buckets), metric.name
        assert list(metric.buckets) == sorted(metric.buckets), metric.name
        assert not metric.values or len(metric.labels) == 1, metric.name
