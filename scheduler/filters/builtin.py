"""The built-in filters, and nova's names of their modules."""

from collections.abc import Mapping
from itertools import chain

from scheduler.filters.affinity_filter import (
    DifferentHostFilter,
    GroupAffinityFilter,
    GroupAntiAffinityFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
    SimpleCIDRAffinityFilter,
)
from scheduler.filters.aggregate_filters import (
    AggregateImagePropertiesIsolation,
    AggregateInstanceExtraSpecsFilter,
    AggregateMultiTenancyIsolation,
    AggregateTypeAffinityFilter,
    AvailabilityZoneFilter,
)
from scheduler.filters.amount_filters import (
    AggregateCoreFilter,
    AggregateDiskFilter,
    AggregateRamFilter,
    CoreFilter,
    DiskFilter,
    ExactCoreFilter,
    ExactDiskFilter,
    ExactRamFilter,
    RamFilter,
)
from scheduler.filters.base import HostFilter
from scheduler.filters.compute_capabilities_filter import ComputeCapabilitiesFilter
from scheduler.filters.compute_filter import ComputeFilter
from scheduler.filters.count_filters import (
    AggregateIoOpsFilter,
    AggregateNumInstancesFilter,
    IoOpsFilter,
    NumInstancesFilter,
)
from scheduler.filters.image_props_filter import ImagePropertiesFilter
from scheduler.filters.json_filter import JsonFilter
from scheduler.filters.metrics_filter import MetricsFilter
from scheduler.filters.named_hosts_filters import AllHostsFilter, IsolatedHostsFilter, RetryFilter
from scheduler.filters.numa_topology_filter import NUMATopologyFilter
from scheduler.filters.pci_passthrough_filter import PciPassthroughFilter

Modules = Mapping[str, tuple[type[HostFilter], ...]]

#: What nova ships, by its module under ``nova.scheduler.filters``; in this order ``all_filters`` means them.
MODULES: Modules = {
    "affinity_filter": (
        DifferentHostFilter,
        SameHostFilter,
        ServerGroupAffinityFilter,
        ServerGroupAntiAffinityFilter,
        SimpleCIDRAffinityFilter,
    ),
    "aggregate_image_properties_isolation": (AggregateImagePropertiesIsolation,),
    "aggregate_instance_extra_specs": (AggregateInstanceExtraSpecsFilter,),
    "aggregate_multitenancy_isolation": (AggregateMultiTenancyIsolation,),
    "all_hosts_filter": (AllHostsFilter,),
    "compute_capabilities_filter": (ComputeCapabilitiesFilter,),
    "compute_filter": (ComputeFilter,),
    "image_props_filter": (ImagePropertiesFilter,),
    "io_ops_filter": (AggregateIoOpsFilter, IoOpsFilter),
    "isolated_hosts_filter": (IsolatedHostsFilter,),
    "json_filter": (JsonFilter,),
    "metrics_filter": (MetricsFilter,),
    "num_instances_filter": (AggregateNumInstancesFilter, NumInstancesFilter),
    "numa_topology_filter": (NUMATopologyFilter,),
    "pci_passthrough_filter": (PciPassthroughFilter,),
    "type_filter": (AggregateTypeAffinityFilter,),
}

#: What past releases of nova shipped: an old ``enabled_filters`` may name it, ``all_filters`` leaves it out.
PAST_MODULES: Modules = {
    "affinity_filter": (GroupAffinityFilter, GroupAntiAffinityFilter),
    "availability_zone_filter": (AvailabilityZoneFilter,),
    "core_filter": (AggregateCoreFilter, CoreFilter, ExactCoreFilter),
    "disk_filter": (AggregateDiskFilter, DiskFilter, ExactDiskFilter),
    "exact_core_filter": (ExactCoreFilter,),
    "exact_disk_filter": (ExactDiskFilter,),
    "exact_ram_filter": (ExactRamFilter,),
    "ram_filter": (AggregateRamFilter, ExactRamFilter, RamFilter),
    "retry_filter": (RetryFilter,),
}

ALL: tuple[type[HostFilter], ...] = tuple(chain.from_iterable(MODULES.values()))
PAST: tuple[type[HostFilter], ...] = tuple(dict.fromkeys(chain.from_iterable(PAST_MODULES.values())))

#: Each class by its dotted path in nova.
BY_NOVA_PATH: Mapping[str, type[HostFilter]] = {
    f"nova.scheduler.filters.{module}.{cls.__name__}": cls
    for modules in (MODULES, PAST_MODULES)
    for module, classes in modules.items()
    for cls in classes
}
