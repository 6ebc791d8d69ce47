"""What is offered under nova's names (spec: filters-and-weighers 1.2, 2.0, 2.21)."""

import pytest

from scheduler import filters
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
PAST_MODULES = {
    "affinity_filter": ["GroupAffinityFilter", "GroupAntiAffinityFilter"],
    "availability_zone_filter": ["AvailabilityZoneFilter"],
    "core_filter": ["AggregateCoreFilter", "CoreFilter", "ExactCoreFilter"],
    "disk_filter": ["AggregateDiskFilter", "DiskFilter", "ExactDiskFilter"],
    "exact_core_filter": ["ExactCoreFilter"],
    "exact_disk_filter": ["ExactDiskFilter"],
    "exact_ram_filter": ["ExactRamFilter"],
    "ram_filter": ["AggregateRamFilter", "ExactRamFilter", "RamFilter"],
    "retry_filter": ["RetryFilter"],
}
NEW_FILTER = """
from scheduler.filters.base import HostFilter
from scheduler.filters.compute_filter import ComputeFilter


class Helper(HostFilter):
    pass


class NewFilter(Helper):
    nova_modules = ("new_filter",)
"""
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
    paths = {f"nova.scheduler.filters.{module}.{name}" for module, names in MODULES.items() for name in names}
    by_path = builtin.by_nova_path()
    assert {path for path, rule in by_path.items() if rule in builtin.shipped()} == paths
    assert all(path.endswith(f".{rule.__name__}") for path, rule in by_path.items())
    assert len(builtin.shipped()) == 22


def test_filters_of_past_releases_are_there_under_novas_paths():
    paths = {
        f"nova.scheduler.filters.{module}.{name}" for module, names in PAST_MODULES.items() for name in names
    }
    assert {path for path, rule in builtin.by_nova_path().items() if rule in builtin.past()} == paths


def test_a_filter_is_known_once_its_file_is_in_the_package(monkeypatch, tmp_path):
    (tmp_path / "new_filter.py").write_text(NEW_FILTER)
    monkeypatch.setattr(filters, "__path__", [str(tmp_path)])
    (cls,) = builtin.defined()
    assert cls.__name__ == "NewFilter"


@pytest.mark.parametrize("rule", builtin.shipped(), ids=lambda rule: rule.__name__)
def test_when_they_run(rule):
    assert rule.run_filter_once_per_request is (rule.__name__ not in EVERY_INSTANCE)
    assert rule.RUN_ON_REBUILD is (rule.__name__ in ON_REBUILD)


@pytest.mark.parametrize("rule", builtin.past(), ids=lambda rule: rule.__name__)
def test_no_filter_of_the_past_runs_for_rebuilds(rule):
    assert rule.RUN_ON_REBUILD is False


def test_names_are_distinct_and_documented():
    rules = builtin.shipped() + builtin.past()
    assert len({rule.__name__ for rule in rules}) == len(rules)
    assert all(rule.__doc__ for rule in rules)


@pytest.mark.parametrize("rule", builtin.shipped() + builtin.past(), ids=lambda rule: rule.__name__)
def test_each_is_made_of_options_alone(rule):
    assert rule(make_conf()).name == rule.__name__
