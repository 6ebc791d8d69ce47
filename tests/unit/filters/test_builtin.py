"""What is offered under nova's names (spec: filters-and-weighers 1.2, 2.0, 2.21)."""

import pytest

from scheduler.filters import builtin
from tests.unit.filters.asking import make_conf

MODULES = {
    "affinity_filter": [
        "DifferentHostFilter",
        "SameHostFilter",
        "SimpleCIDRAffinityFilter",
        "ServerGroupAntiAffinityFilter",
        "ServerGroupAffinityFilter",
    ],
    "aggregate_image_properties_isolation": ["AggregateImagePropertiesIsolation"],
    "aggregate_instance_extra_specs": ["AggregateInstanceExtraSpecsFilter"],
    "aggregate_multitenancy_isolation": ["AggregateMultiTenancyIsolation"],
    "all_hosts_filter": ["AllHostsFilter"],
    "compute_capabilities_filter": ["ComputeCapabilitiesFilter"],
    "compute_filter": ["ComputeFilter"],
    "image_props_filter": ["ImagePropertiesFilter"],
    "io_ops_filter": ["IoOpsFilter", "AggregateIoOpsFilter"],
    "isolated_hosts_filter": ["IsolatedHostsFilter"],
    "json_filter": ["JsonFilter"],
    "metrics_filter": ["MetricsFilter"],
    "num_instances_filter": ["NumInstancesFilter", "AggregateNumInstancesFilter"],
    "numa_topology_filter": ["NUMATopologyFilter"],
    "pci_passthrough_filter": ["PciPassthroughFilter"],
    "type_filter": ["AggregateTypeAffinityFilter"],
}
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


def test_novas_filters_are_all_there_under_novas_paths():
    names = {module: {rule.__name__ for rule in rules} for module, rules in builtin.MODULES.items()}
    assert names == {module: set(names) for module, names in MODULES.items()}
    paths = {f"nova.scheduler.filters.{module}.{name}" for module, names in MODULES.items() for name in names}
    assert {path for path, rule in builtin.BY_NOVA_PATH.items() if rule in builtin.ALL} == paths
    assert len(builtin.ALL) == 22


@pytest.mark.parametrize("rule", builtin.ALL, ids=lambda rule: rule.__name__)
def test_when_they_run(rule):
    assert rule.run_filter_once_per_request is (rule.__name__ not in EVERY_INSTANCE)
    assert rule.RUN_ON_REBUILD is (rule.__name__ in ON_REBUILD)


@pytest.mark.parametrize("rule", builtin.PAST, ids=lambda rule: rule.__name__)
def test_no_filter_of_the_past_runs_for_rebuilds(rule):
    assert rule.RUN_ON_REBUILD is False


def test_names_are_distinct_and_documented():
    rules = builtin.ALL + builtin.PAST
    assert len({rule.__name__ for rule in rules}) == len(rules)
    assert all(rule.__doc__ for rule in rules)


@pytest.mark.parametrize("rule", builtin.ALL + builtin.PAST, ids=lambda rule: rule.__name__)
def test_each_is_made_of_options_alone(rule):
    assert rule(make_conf()).name == rule.__name__
