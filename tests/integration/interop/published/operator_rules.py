"""Filters and weighers as operators publish them: written for nova, by nova's interfaces alone."""

from nova import availability_zones, context, objects
from nova.i18n import _
from nova.scheduler import filters, weights
from nova.scheduler.client import report
from nova.scheduler.filters import aggregate_instance_extra_specs
from nova.scheduler.weights import ram
from oslo_config import cfg
from oslo_log import log as logging

CONF = cfg.CONF
LOG = logging.getLogger(__name__)


def domains_of(host):
    """The failure domains of a host, by the metadata of its aggregates in nova's API database."""
    aggregates = objects.AggregateList.get_by_host(context.get_admin_context(), host)
    return {one.metadata["failure_domain"] for one in aggregates if "failure_domain" in one.metadata}


class FailureDomainFilter(filters.BaseHostFilter):
    """Spreads a server group over failure domains."""

    def host_passes(self, host_state, spec_obj):
        taken = set().union(*(domains_of(host) for host in spec_obj.instance_group.hosts))
        return not taken & domains_of(host_state.host)


class ZoneSpreadFilter(filters.BaseHostFilter):
    """Spreads a server group over availability zones."""

    def host_passes(self, host_state, spec_obj):
        admin = context.get_admin_context()
        zones = {
            availability_zones.get_host_availability_zone(admin, host)
            for host in spec_obj.instance_group.hosts
        }
        return availability_zones.get_host_availability_zone(admin, host_state.host) not in zones


class MappedHypervisorFilter(filters.BaseHostFilter):
    """Reads the compute node from the database of the host's cell."""

    def host_passes(self, host_state, spec_obj):
        admin = context.get_admin_context()
        mapping = objects.HostMapping.get_by_host(admin, host_state.host)
        with context.target_cell(admin, mapping.cell_mapping) as cell:
            node = objects.ComputeNode.get_by_host_and_nodename(cell, host_state.host, host_state.nodename)
        return node.vcpus >= 32


class LiveMigratableFilter(filters.BaseHostFilter):
    """Keeps requests for devices that cannot be migrated away from hosts of SmartNICs."""

    def host_passes(self, host_state, spec_obj):
        wanted = spec_obj.pci_requests.requests
        if all(request.is_live_migratable() for request in wanted):
            return True
        LOG.debug(_("%s has remote devices"), host_state.host)
        return not host_state.pci_stats.has_remote_managed_device_pools()


class StrictExtraSpecsFilter(aggregate_instance_extra_specs.AggregateInstanceExtraSpecsFilter):
    """nova's own filter, which also rejects hosts in no aggregate."""

    def host_passes(self, host_state, spec_obj):
        return bool(host_state.aggregates) and super().host_passes(host_state, spec_obj)


class LargestAggregateFilter(filters.BaseHostFilter):
    """Adds names to the list of the aggregate's hosts, as nova's object lets it."""

    def host_passes(self, host_state, spec_obj):
        return any(len([*each.hosts, "spare"]) > 2 for each in host_state.aggregates)


class IdleWeigher(weights.BaseHostWeigher):
    """Prefers hosts whose CPUs are idle."""

    def _weigh_object(self, host_state, weight_properties):
        values = {metric["name"]: metric["value"] for metric in host_state.metrics.to_list()}
        return values.get("cpu.idle.percent", 0.0)


class AcceleratorWeigher(weights.BaseHostWeigher):
    """Prefers hosts with more free accelerators in Placement."""

    def __init__(self):
        self.client = report.SchedulerReportClient()

    def _weigh_object(self, host_state, weight_properties):
        reply = self.client.get(f"/resource_providers/{host_state.uuid}/inventories").json()
        return float(reply["inventories"].get("FPGA", {}).get("total", 0))


class FewerStacksWeigher(ram.RAMWeigher):
    """nova's own weigher, turned round."""

    def _weigh_object(self, host_state, weight_properties):
        return 4000 - super()._weigh_object(host_state, weight_properties)
