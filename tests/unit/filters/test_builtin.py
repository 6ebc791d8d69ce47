"""What is offered under nova's names (spec: filters-and-weighers 1.2, 2.0, 2.21)."""

import re

import pytest

from scheduler.filters import builtin
from tests.support.sources import ROOT
from tests.unit.filters.asking import make_conf

EVERY_INSTANCE = {
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
    "IoOpsFilter",
    "AggregateIoOpsFilter",
    "NumInstancesFilter",
    "AggregateNumInstancesFilter",
    "JsonFilter",
    "MetricsFilter",
    "NUMATopologyFilter",
    "PciPassthroughFilter",
}
ON_REBUILD = {"ImagePropertiesFilter", "IsolatedHostsFilter", "AggregateImagePropertiesIsolation"}


def test_novas_filters_are_there_under_the_paths_of_the_reference():
    page = next(ROOT.glob("doc/source/reference/filters*.md")).read_text()
    table = page.partition("| `all_filters`")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)
    documented = {module: sorted(re.findall(r"`(\w+)`", names)) for module, names in rows}
    assert documented == {
        module: [cls.__name__ for cls in classes] for module, classes in builtin.MODULES.items()
    }
    assert len(builtin.SHIPPED) == 22
    assert len(builtin.PAST) == 13


@pytest.mark.parametrize("rule", builtin.SHIPPED, ids=lambda rule: rule.__name__)
def test_when_they_run(rule):
    assert rule.run_filter_once_per_request is (rule.__name__ not in EVERY_INSTANCE)
    assert rule.RUN_ON_REBUILD is (rule.__name__ in ON_REBUILD)


@pytest.mark.parametrize("rule", builtin.PAST, ids=lambda rule: rule.__name__)
def test_no_filter_of_the_past_runs_for_rebuilds(rule):
    assert rule.RUN_ON_REBUILD is False


def test_names_are_distinct_and_documented():
    assert len({rule.__name__ for rule in builtin.ALL}) == len(builtin.ALL)
    assert all(rule.__doc__ for rule in builtin.ALL)


@pytest.mark.parametrize("rule", builtin.ALL, ids=lambda rule: rule.__name__)
def test_each_is_made_of_options_alone(rule):
    assert rule(make_conf()).name == rule.__name__
