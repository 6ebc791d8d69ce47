"""What a chosen host has less of for the rest of the request.

spec: host-state-and-cells 3.7, numa-and-pci 6.2
"""

from oslo_log import log as logging

from scheduler import objects
from scheduler.hosts.coordinates import ViewIndex
from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter
from scheduler.numa.topology import limits_from
from scheduler.numa.usage import InstanceDemand, consume_instance
from scheduler.placement.answer import AllocationCandidate
from scheduler.request.scheduling_request import SchedulingRequest

LOG = logging.getLogger(f"nova.{__name__}")


def consume(hosts: HostView, index: ViewIndex, request: SchedulingRequest, fitter: Fitter) -> None:
    """Charge the current instance of a request to a host, and add the host to the server group.

    Args:
        index: The chosen host.
        request: The request; its progress is brought up to date.
        fitter: Fits the NUMA topology, as the filter did.
    """
    hosts.consume(index, **consumed_amounts(request.flavor))
    demand = demand_of(request, hosts, index)
    if demand is not None:
        try:
            _consume_topology(hosts, index, request, fitter, demand)
        except Exception:
            # The claim stands, and the compute checks topologies itself: not worth failing the request.
            LOG.warning(
                "NUMA and PCI usage of instance %s could not be charged to host %s",
                request.progress.instance_uuid,
                hosts.row(index).host,
                exc_info=True,
            )
    if request.server_group:
        progress = request.progress
        progress.group_hosts = (*progress.group_hosts, hosts.row(index).host)
        hosts.place_instance(index, progress.instance_uuid)


def consumed_amounts(flavor: objects.Flavor) -> dict[str, int]:
    """Return what an instance of a flavor adds to a host, by column."""
    return {
        "free_ram_mb": -flavor.memory_mb,
        "free_disk_mb": -(flavor.root_gb + flavor.ephemeral_gb) * 1024,
        "vcpus_used": flavor.vcpus,
        "num_instances": 1,
        "num_io_ops": 1,
    }


def demand_of(
    request: SchedulingRequest,
    hosts: HostView,
    index: ViewIndex,
    candidate: AllocationCandidate | None = None,
) -> InstanceDemand | None:
    """Return what the current instance needs of a host's NUMA cells and PCI devices; None for nothing.

    Args:
        candidate: What it is to be served by; None: what ``note_providers`` noted last.
    """
    if not (request.progress.guest or request.pci_requests):
        return None
    limits = limits_from(hosts.limits(index).get("numa_topology"))
    mappings = request.progress.provider_uuids
    if mappings and candidate is not None:
        mappings = {group: tuple(candidate.mappings.get(group, ())) for group in mappings}
    return InstanceDemand(request.progress.guest, limits, request.pci_requests, mappings)


def _consume_topology(
    hosts: HostView, index: ViewIndex, request: SchedulingRequest, fitter: Fitter, demand: InstanceDemand
) -> None:
    progress = request.progress
    topology, pools = hosts.coded("numa_topology")[index], hosts.coded("pci_stats")[index]
    charged = consume_instance(fitter, topology, pools, demand)
    if charged.problem:
        LOG.warning(
            "NUMA and PCI usage of instance %s was not charged in full to host %s: %s",
            progress.instance_uuid,
            hosts.row(index).host,
            charged.problem,
        )
    hosts.consume_demand(index, demand, (charged.host, charged.pools))
    # nova carries the fitted topology over to the further instances of the request.
    progress.guest = charged.guest
