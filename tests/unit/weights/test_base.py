from scheduler.weights.base import by_aggregate
from tests.builders import make_host, make_view


def test_hosts_whose_aggregates_say_nothing_get_the_configured_number():
    view = make_view([make_host("h1"), make_host("h2").aggregate("a", key="3")])
    assert by_aggregate(view, "key", 1.5).tolist() == [1.5, 3.0]


def test_one_number_for_all_if_no_aggregate_says_anything():
    view = make_view([make_host("h1"), make_host("h2").az("z")])
    assert by_aggregate(view, "key", 1.5) == 1.5
