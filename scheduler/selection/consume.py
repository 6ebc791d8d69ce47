"""What a chosen host has less of for the rest of the request (spec: host-state-and-cells 3.7, numa-and-pci
6.2).
"""

from typing import Any

from oslo_log import log as logging

from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter
from scheduler.numa.guest import GuestTopology, guest_topology_from
from scheduler.numa.topology import limits_from
from scheduler.numa.usage import Charged, charge
from scheduler.objects import InstanceNUMACell, InstanceNUMATopology
from scheduler.pci.requests import requests_from

LOG = logging.getLogger(__name__)


def consume(hosts: HostView, index: int, request: Any, fitter: Fitter) -> None:
    """Take one instance of the request off the host at ``index``, and let its server group know."""
    hosts.take(index, **amounts_of(request.flavor))
    if request.numa_topology or request.pci_requests is not None:
        try:
            _consume_topology(hosts, index, request, fitter)
        except Exception:
            # The claim stands, and the compute checks topologies itself: not worth failing the request.
            LOG.warning("Taking the instance off %s failed", hosts.row(index).host, exc_info=True)
    if request.instance_group:
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


def _consume_topology(hosts: HostView, index: int, request: Any, fitter: Fitter) -> None:
    guest = guest_topology_from(request.numa_topology)
    taken = charge(
        fitter,
        hosts.coded("numa_topology")[index],
        guest,
        limits_from(hosts.limits(index).get("numa_topology")),
        hosts.coded("pci_stats")[index],
        None if request.pci_requests is None else requests_from(request.pci_requests),
        request.get_request_group_mapping(),
    )
    if taken.problem:
        LOG.warning("Taking the instance off %s was incomplete: %s", hosts.row(index).host, taken.problem)
    _store(hosts, index, request, taken, guest)


def _store(hosts: HostView, index: int, request: Any, taken: Charged, guest: GuestTopology | None) -> None:
    hosts.replace(index, "numa_topology", taken.host)
    hosts.replace(index, "pci_stats", taken.pools)
    if taken.guest is not guest:
        # nova carries the fitted topology over to the further instances of the request.
        request.numa_topology = taken.guest and _wire_topology(taken.guest, request.numa_topology)


def _wire_topology(guest: GuestTopology, before: InstanceNUMATopology) -> InstanceNUMATopology:
    cells = [
        InstanceNUMACell(
            id=cell.id,
            cpuset=set(cell.cpuset),
            pcpuset=set(cell.pcpuset),
            cpuset_reserved=None if cell.reserved is None else set(cell.reserved),
            memory=cell.memory,
            pagesize=cell.pagesize,
            cpu_pinning_raw=None if cell.pins is None else {str(vcpu): cpu for vcpu, cpu in cell.pins},
            cpu_policy=cell.cpu_policy,
            cpu_thread_policy=cell.thread_policy,
        )
        for cell in guest.cells
    ]
    return InstanceNUMATopology(cells=cells, emulator_threads_policy=before.emulator_threads_policy)


def _join_group(hosts: HostView, index: int, request: Any) -> None:
    group = request.instance_group
    group.hosts = [*(group.hosts or ()), hosts.row(index).host]
    hosts.place(index, request.instance_uuid)
