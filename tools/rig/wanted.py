"""What a request wants of a drawn cloud, and how it is sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
import uuid

from scheduler import objects
from tools.rig.fleet import DEVICE
from tools.rig.load import PROJECT, USER, BootRequest, Flavor

#: A project that has an aggregate, and the trait of an isolated aggregate, which no request requires.
TENANT = "7c1d4c5e8a9b4f6d8e0a1b2c3d4e5f60"
ISOLATING = "HW_NIC_SRIOV"


@dataclass(frozen=True)
class Wanted:
    """What a request wants; ``without`` removes one thing.

    Attributes:
        vgpus: In a numbered group.
        tree_vgpus: In the unnumbered group.
        tenant: Whether it is of the project that has an aggregate.
        ironic: Whether it wants a hypervisor that no host has.
        policy: That of its server group.
        destination: The one host that it may go to.
        cell: The UUID of the one cell that it may go to.
        different: Instances whose hosts it must not have.
    """

    vcpus: int = 1
    memory_mb: int = 1024
    root_gb: int = 5
    traits: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    zone: str | None = None
    vgpus: int = 0
    tree_vgpus: int = 0
    tenant: bool = False
    numa: bool = False
    devices: int = 0
    fast: bool = False
    ironic: bool = False
    count: int = 1
    ignored: tuple[str, ...] = ()
    forced: tuple[str, ...] = ()
    destination: tuple[str, str] | None = None
    cell: str | None = None
    different: tuple[str, ...] = ()
    policy: str = ""
    group_hosts: tuple[str, ...] = ()
    group_members: tuple[str, ...] = ()

    @property
    def amounts(self) -> dict[str, int]:
        return {"VCPU": self.vcpus, "MEMORY_MB": self.memory_mb, "DISK_GB": self.root_gb}

    def extra_specs(self) -> dict[str, str]:
        specs = {f"trait:{name}": "required" for name in self.traits}
        specs |= {f"trait:{name}": "forbidden" for name in self.forbidden}
        if self.vgpus:
            specs["resources1:VGPU"] = str(self.vgpus)
        if self.tree_vgpus:
            specs["resources:VGPU"] = str(self.tree_vgpus)
        if self.numa:
            specs["hw:numa_nodes"] = "1"
        if self.ironic:
            specs["capabilities:hypervisor_type"] = "s== ironic"
        if self.fast:
            specs["aggregate_instance_extra_specs:speed"] = "fast"
        return specs

    def spec(self, uuids: Sequence[str]) -> Any:
        """Return the RequestSpec."""
        flavor = Flavor(1, "f", self.vcpus, self.memory_mb, self.root_gb, tuple(self.extra_specs().items()))
        project = TENANT if self.tenant else PROJECT
        spec = BootRequest(list(uuids), flavor, self.zone, project=project).spec()
        spec.ignore_hosts = list(self.ignored) or None
        spec.force_hosts = list(self.forced) or None
        if self.destination:
            host, node = self.destination
            spec.requested_destination = objects.Destination(host=host, node=node)
        elif self.cell:
            cell = objects.CellMapping(uuid=self.cell)
            spec.requested_destination = objects.Destination(cell=cell, allow_cross_cell_move=False)
        spec.scheduler_hints = {"different_host": list(self.different)} if self.different else {}
        if self.policy:
            spec.instance_group = objects.InstanceGroup(
                id=1, uuid=str(uuid.uuid5(uuid.NAMESPACE_OID, uuids[0])), name="g", project_id=PROJECT,
                user_id=USER, policy=self.policy, policies=[self.policy], hosts=list(self.group_hosts),
                members=[*self.group_members, *uuids],
            )  # fmt: skip
        if self.devices:
            vendor, product = DEVICE
            request = objects.InstancePCIRequest(
                count=self.devices, spec=[{"vendor_id": vendor, "product_id": product}], alias_name="nic",
                is_new=False, request_id=str(uuid.uuid5(uuid.NAMESPACE_OID, "pci")), numa_policy="legacy",
            )  # fmt: skip
            spec.pci_requests = objects.InstancePCIRequests(instance_uuid=uuids[0], requests=[request])
        return spec
