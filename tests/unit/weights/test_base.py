import pytest

from scheduler.weights.base import aggregate_multiplier, by_aggregate
from tests.builders import make_host, make_view

# spec: filters-and-weighers 1.9, multipliers per aggregate
CASES = [
    ([], 1.0, 1.0),
    (["1.9"], 1.0, 1.9),
    (["1.9", "1.8"], 1.0, 1.8),
    (["invalid"], 1.0, 1.0),
    (["bad", "2"], 1.5, 1.5),
    (["1,2"], 1.0, 1.0),
    ([" 2 "], 1.0, 2.0),
    (["-1"], 1.0, -1.0),
    (["1e3"], 1.0, 1000.0),
]


@pytest.mark.parametrize(("values", "configured", "expected"), CASES)
def test_multiplier_of_aggregates(values, configured, expected):
    host = make_host("h")
    for number, value in enumerate(values):
        host.aggregate(f"a{number}", key=value)
    aggregates = make_view([host]).coded("aggregates")[0]
    assert aggregate_multiplier(aggregates, "key", configured) == expected


def test_hosts_whose_aggregates_say_nothing_get_the_configured_number():
    view = make_view([make_host("h1"), make_host("h2").aggregate("a", key="3")])
    assert by_aggregate(view, "key", 1.5).tolist() == [1.5, 3.0]


def test_one_number_for_all_if_no_aggregate_says_anything():
    view = make_view([make_host("h1"), make_host("h2").az("z")])
    assert by_aggregate(view, "key", 1.5) == 1.5
