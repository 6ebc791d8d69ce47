"""The built-in weighers, in the order in which their scores are added (spec: filters-and-weighers 1.9)."""

from collections.abc import Mapping
from itertools import chain

from scheduler.weights.added import (
    AddedWeigher,
    FailureDomainWeigher,
    FreeShareWeigher,
    KeepRoomWeigher,
    LeavingHostWeigher,
    SameHostWeigher,
)
from scheduler.weights.affinity import (
    CrossCellWeigher,
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
)
from scheduler.weights.amounts import (
    CPUWeigher,
    DiskWeigher,
    HypervisorVersionWeigher,
    IoOpsWeigher,
    NumInstancesWeigher,
    PCIWeigher,
    RAMWeigher,
)
from scheduler.weights.base import HostWeigher
from scheduler.weights.build_failure import BuildFailureWeigher
from scheduler.weights.image_props import ImagePropertiesWeigher
from scheduler.weights.metrics import MetricsWeigher

NOVA_PACKAGE = "nova.scheduler.weights"

#: What nova ships, by its module under ``nova.scheduler.weights``.
MODULES: Mapping[str, tuple[type[HostWeigher], ...]] = {
    "ram": (RAMWeigher,),
    "cpu": (CPUWeigher,),
    "disk": (DiskWeigher,),
    "metrics": (MetricsWeigher,),
    "io_ops": (IoOpsWeigher,),
    "pci": (PCIWeigher,),
    "affinity": (ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher),
    "compute": (BuildFailureWeigher,),
    "cross_cell": (CrossCellWeigher,),
    "hypervisor_version": (HypervisorVersionWeigher,),
    "num_instances": (NumInstancesWeigher,),
    "image_props": (ImagePropertiesWeigher,),
}

#: What nova does not have.
ADDED: tuple[type[AddedWeigher], ...] = (
    FailureDomainWeigher,
    FreeShareWeigher,
    KeepRoomWeigher,
    SameHostWeigher,
    LeavingHostWeigher,
)

ALL: tuple[type[HostWeigher], ...] = tuple(chain.from_iterable(MODULES.values()))

#: Each class by its dotted path in nova.
BY_NOVA_PATH: Mapping[str, type[HostWeigher]] = {
    f"{NOVA_PACKAGE}.{module}.{cls.__name__}": cls for module, classes in MODULES.items() for cls in classes
}
