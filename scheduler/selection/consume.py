"""What a chosen host has less of for the rest of the request (spec: host-state-and-cells 3.7, numa-and-pci
6.2).
"""

from typing import Any

from oslo_log import log as logging

from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter
from scheduler.numa.topology import limits_from
from scheduler.numa.usage import charge
from scheduler.request.scheduling_request import SchedulingRequest

LOG = logging.getLogger(__name__)


def consume(hosts: HostView, index: int, request: SchedulingRequest, fitter: Fitter) -> None:
    """Take one instance of the request off the host at ``index``, and let its server group know."""
    hosts.take(index, **amounts_of(request.flavor))
    if request.guest or request.pci_requests is not None:
        try:
            _consume_topology(hosts, index, request, fitter)
        except Exception:
            # The claim stands, and the compute checks topologies itself: not worth failing the request.
            LOG.warning("Taking the instance off %s failed", hosts.row(index).host, exc_info=True)
    if request.server_group:
        _join_group(hosts, index, request)


def amounts_of(flavor: Any) -> dict[str, int]:
    """What an instance of a flavor adds to a host, by column."""
    return {
        "free_ram_mb": -flavor.memory_mb,
        "free_disk_mb": -(flavor.root_gb + flavor.ephemeral_gb) * 1024,
        "vcpus_used": flavor.vcpus,
        "num_instances": 1,
        "num_io_ops": 1,
    }


def _consume_topology(hosts: HostView, index: int, request: SchedulingRequest, fitter: Fitter) -> None:
    guest = request.progress.guest
    taken = charge(
        fitter,
        hosts.coded("numa_topology")[index],
        guest,
        limits_from(hosts.limits(index).get("numa_topology")),
        hosts.coded("pci_stats")[index],
        request.pci_requests,
        request.progress.provider_uuids,
    )
    if taken.problem:
        LOG.warning("Taking the instance off %s was incomplete: %s", hosts.row(index).host, taken.problem)
    hosts.replace(index, "numa_topology", taken.host)
    hosts.replace(index, "pci_stats", taken.pools)
    # nova carries the fitted topology over to the further instances of the request.
    request.progress.guest = taken.guest


def _join_group(hosts: HostView, index: int, request: SchedulingRequest) -> None:
    progress = request.progress
    progress.group_hosts = (*progress.group_hosts, hosts.row(index).host)
    hosts.place(index, progress.instance_uuid)
