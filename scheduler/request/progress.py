"""What changes while the hosts of a request are chosen, and its wire form for operators' classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler import objects
from scheduler.numa.guest import GuestTopology


@dataclass(slots=True)
class Progress:
    """What changes while the hosts of a request are chosen, instance after instance.

    Attributes:
        instance_uuid: The instance that a host is being chosen for.
        guest: The NUMA topology as the last fit left it: page sizes and cells may be set.
        provider_uuids: By request group, the providers of the candidate chosen last; None if the request has
            no request groups.
        group_members: Instance uuids of the server group.
        group_hosts: Service hosts of the server group, those chosen for this request included.
    """

    instance_uuid: str
    guest: GuestTopology | None = None
    provider_uuids: Mapping[str, Sequence[str]] | None = None
    group_members: tuple[str, ...] = ()
    group_hosts: tuple[str, ...] = ()
    _written: tuple[Any, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._written = self._state()

    def _state(self) -> tuple[Any, ...]:
        """Return what the RequestSpec says once it is written; compared by identity."""
        return self.guest, self.provider_uuids, self.group_members, self.group_hosts

    def write_to(self, spec: Any) -> None:
        """Set the fields of the RequestSpec that differ from what is known here.

        nova changes the request itself while it chooses hosts; operators' classes read it there.
        """
        guest, provider_uuids, members, hosts = self._written
        spec.instance_uuid = self.instance_uuid
        if self.guest is not guest:
            spec.numa_topology = self.guest and wire_topology(self.guest, spec.numa_topology)
        if self.provider_uuids is not None and self.provider_uuids is not provider_uuids:
            for group in spec.requested_resources:
                group.provider_uuids = list(self.provider_uuids[group.requester_id])
        if self.group_members is not members:
            spec.instance_group.members = list(self.group_members)
        if self.group_hosts is not hosts:
            spec.instance_group.hosts = list(self.group_hosts)
        self._written = self._state()


def wire_topology(guest: GuestTopology, before: objects.InstanceNUMATopology) -> objects.InstanceNUMATopology:
    """Return the wire form of a topology; ``before`` is the one of the request as it was sent."""
    cells = [
        objects.InstanceNUMACell(
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
    return objects.InstanceNUMATopology(cells=cells, emulator_threads_policy=before.emulator_threads_policy)
