import random

import pytest

from scheduler import conf as options
from scheduler.rules.drivers import load_rules
from scheduler.weights.amounts import RandomWeigher
from scheduler.weights.scores import PreparedWeighers
from tests.builders import make_host, make_view
from tests.support.options import make_conf
from tests.unit.filters.asking import make_request


def rules_of(driver):
    conf = make_conf()
    conf.set_override("driver", driver, "scheduler")
    return load_rules(conf)


@pytest.mark.parametrize("driver", ["filter_scheduler", "caching_scheduler", "of.our.own"], ids=str)
def test_most_drivers_use_the_enabled_rules(driver):
    chain, weighers = rules_of(driver)
    assert "ComputeCapabilitiesFilter" in [rule.name for rule in chain.filters]
    assert "RAMWeigher" in [weigher.name for weigher in weighers]


def test_the_chance_scheduler_leaves_out_only_hosts_that_are_down():
    chain, weighers = rules_of("chance_scheduler")
    view = make_view([make_host("up"), make_host("down").down(), make_host("disabled").disabled()])
    left = chain.prepare(make_request()).run(view).hosts
    assert [row.host for row in left.rows] == ["up"]
    assert [weigher.name for weigher in weighers] == ["RandomWeigher"]


def test_the_chance_scheduler_prefers_each_host_at_times():
    view = make_view([make_host(name).ram(ram) for name, ram in [("a", 1), ("b", 2), ("c", 4096)]])
    weigher = RandomWeigher(make_conf(), random.Random(1))
    best = [PreparedWeighers([weigher], make_request()).scores(view).totals().argmax() for _ in range(50)]
    assert set(best) == {0, 1, 2}


@pytest.mark.parametrize(
    ("driver", "remark"),
    [
        ("filter_scheduler", None),
        ("chance_scheduler", None),
        ("caching_scheduler", "filter_scheduler is used, which caches as well"),
        ("of.our.own", "of.our.own is not known; filter_scheduler is used"),
    ],
    ids=str,
)
def test_drivers_that_mean_another_one_are_logged_at_start(driver, remark):
    conf = make_conf()
    conf.set_override("driver", driver, "scheduler")
    said = [line for line in options.remarks(conf) if "[scheduler]/driver" in line]
    assert [remark in line for line in said] == ([True] if remark else [])
