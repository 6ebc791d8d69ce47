"""The built-in filters by nova's modules; in this order ``all_filters`` offers those that nova ships."""

from collections.abc import Mapping
from itertools import chain

from scheduler.filters import affinity_filter as affinity
from scheduler.filters import aggregate_filters as aggregates
from scheduler.filters import amount_filters as amounts
from scheduler.filters import count_filters as counts
from scheduler.filters import named_hosts_filters as named
from scheduler.filters.base import HostFilter
from scheduler.filters.compute_capabilities_filter import ComputeCapabilitiesFilter
from scheduler.filters.compute_filter import ComputeFilter
from scheduler.filters.image_props_filter import ImagePropertiesFilter
from scheduler.filters.json_filter import JsonFilter
from scheduler.filters.numa_topology_filter import NUMATopologyFilter
from scheduler.filters.pci_passthrough_filter import PciPassthroughFilter

NOVA_PACKAGE = "nova.scheduler.filters"

ByModule = Mapping[str, tuple[type[HostFilter], ...]]
"""Module under ``nova.scheduler.filters`` -> its classes; a class that moved is under several."""

#: What nova ships (spec: filters-and-weighers 1.2).
MODULES: ByModule = {
    "affinity_filter": (
        affinity.DifferentHostFilter,
        affinity.SameHostFilter,
        affinity.ServerGroupAffinityFilter,
        affinity.ServerGroupAntiAffinityFilter,
        affinity.SimpleCIDRAffinityFilter,
    ),
    "aggregate_image_properties_isolation": (aggregates.AggregateImagePropertiesIsolation,),
    "aggregate_instance_extra_specs": (aggregates.AggregateInstanceExtraSpecsFilter,),
    "aggregate_multitenancy_isolation": (aggregates.AggregateMultiTenancyIsolation,),
    "all_hosts_filter": (named.AllHostsFilter,),
    "compute_capabilities_filter": (ComputeCapabilitiesFilter,),
    "compute_filter": (ComputeFilter,),
    "image_props_filter": (ImagePropertiesFilter,),
    "io_ops_filter": (counts.AggregateIoOpsFilter, counts.IoOpsFilter),
    "isolated_hosts_filter": (named.IsolatedHostsFilter,),
    "json_filter": (JsonFilter,),
    "metrics_filter": (counts.MetricsFilter,),
    "num_instances_filter": (counts.AggregateNumInstancesFilter, counts.NumInstancesFilter),
    "numa_topology_filter": (NUMATopologyFilter,),
    "pci_passthrough_filter": (PciPassthroughFilter,),
    "type_filter": (aggregates.AggregateTypeAffinityFilter,),
}

#: What only past releases of nova had (2.21): an old ``enabled_filters`` may name it.
PAST_MODULES: ByModule = {
    "affinity_filter": (affinity.GroupAffinityFilter, affinity.GroupAntiAffinityFilter),
    "availability_zone_filter": (aggregates.AvailabilityZoneFilter,),
    "core_filter": (amounts.AggregateCoreFilter, amounts.CoreFilter, amounts.ExactCoreFilter),
    "disk_filter": (amounts.AggregateDiskFilter, amounts.DiskFilter, amounts.ExactDiskFilter),
    "exact_core_filter": (amounts.ExactCoreFilter,),
    "exact_disk_filter": (amounts.ExactDiskFilter,),
    "exact_ram_filter": (amounts.ExactRamFilter,),
    "ram_filter": (amounts.AggregateRamFilter, amounts.ExactRamFilter, amounts.RamFilter),
    "retry_filter": (named.RetryFilter,),
}

#: What nova does not have; ``enabled_filters`` may name it.
ADDED: tuple[type[HostFilter], ...] = (affinity.FailureDomainFilter,)

SHIPPED: tuple[type[HostFilter], ...] = tuple(chain.from_iterable(MODULES.values()))
PAST: tuple[type[HostFilter], ...] = tuple(dict.fromkeys(chain.from_iterable(PAST_MODULES.values())))
ALL: tuple[type[HostFilter], ...] = (*SHIPPED, *PAST, *ADDED)

#: Each class by its dotted paths in nova.
BY_NOVA_PATH: Mapping[str, type[HostFilter]] = {
    f"{NOVA_PACKAGE}.{module}.{cls.__name__}": cls
    for modules in (MODULES, PAST_MODULES)
    for module, classes in modules.items()
    for cls in classes
}
