from scheduler.weights.amounts import RAMWeigher
from tests.builders import make_host, make_view
from tests.unit.filters.asking import make_conf

KEY = "ram_weight_multiplier"


def multiplier(*hosts):
    return RAMWeigher(make_conf(**{KEY: 1.5})).multiplier(make_view(hosts))


def test_hosts_whose_aggregates_say_nothing_get_the_configured_number():
    found = multiplier(make_host("h1"), make_host("h2").aggregate("a", **{KEY: "3"}))
    assert found.tolist() == [1.5, 3.0]


def test_one_number_for_all_if_no_aggregate_says_anything():
    assert multiplier(make_host("h1"), make_host("h2").az("z")) == 1.5
