"""The built-in filters."""

from scheduler.filters.affinity_filter import (
    DifferentHostFilter,
    GroupAffinityFilter,
    GroupAntiAffinityFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
    SimpleCIDRAffinityFilter,
)
from scheduler.filters.aggregate_image_properties_isolation import AggregateImagePropertiesIsolation
from scheduler.filters.aggregate_instance_extra_specs import AggregateInstanceExtraSpecsFilter
from scheduler.filters.aggregate_multitenancy_isolation import AggregateMultiTenancyIsolation
from scheduler.filters.all_hosts_filter import AllHostsFilter
from scheduler.filters.availability_zone_filter import AvailabilityZoneFilter
from scheduler.filters.base import HostFilter
from scheduler.filters.compute_capabilities_filter import ComputeCapabilitiesFilter
from scheduler.filters.compute_filter import ComputeFilter
from scheduler.filters.core_filter import AggregateCoreFilter, CoreFilter, ExactCoreFilter
from scheduler.filters.disk_filter import AggregateDiskFilter, DiskFilter, ExactDiskFilter
from scheduler.filters.image_props_filter import ImagePropertiesFilter
from scheduler.filters.io_ops_filter import AggregateIoOpsFilter, IoOpsFilter
from scheduler.filters.isolated_hosts_filter import IsolatedHostsFilter
from scheduler.filters.json_filter import JsonFilter
from scheduler.filters.metrics_filter import MetricsFilter
from scheduler.filters.num_instances_filter import AggregateNumInstancesFilter, NumInstancesFilter
from scheduler.filters.numa_topology_filter import NUMATopologyFilter
from scheduler.filters.pci_passthrough_filter import PciPassthroughFilter
from scheduler.filters.ram_filter import AggregateRamFilter, ExactRamFilter, RamFilter
from scheduler.filters.retry_filter import RetryFilter
from scheduler.filters.type_filter import AggregateTypeAffinityFilter

#: What nova ships, and what its ``all_filters`` means, in alphabetical order of their modules.
ALL: tuple[type[HostFilter], ...] = (
    DifferentHostFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
    SimpleCIDRAffinityFilter,
    AggregateImagePropertiesIsolation,
    AggregateInstanceExtraSpecsFilter,
    AggregateMultiTenancyIsolation,
    AllHostsFilter,
    ComputeCapabilitiesFilter,
    ComputeFilter,
    ImagePropertiesFilter,
    AggregateIoOpsFilter,
    IoOpsFilter,
    IsolatedHostsFilter,
    JsonFilter,
    MetricsFilter,
    AggregateNumInstancesFilter,
    NumInstancesFilter,
    NUMATopologyFilter,
    PciPassthroughFilter,
    AggregateTypeAffinityFilter,
)

#: What nova shipped once: found by an old ``enabled_filters``, not by ``all_filters``.
LEGACY: tuple[type[HostFilter], ...] = (
    AggregateCoreFilter,
    AggregateDiskFilter,
    AggregateRamFilter,
    AvailabilityZoneFilter,
    CoreFilter,
    DiskFilter,
    ExactCoreFilter,
    ExactDiskFilter,
    ExactRamFilter,
    GroupAffinityFilter,
    GroupAntiAffinityFilter,
    RamFilter,
    RetryFilter,
)
