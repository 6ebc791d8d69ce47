"""The built-in weighers, in the order in which their scores are added (spec: filters-and-weighers 1.9)."""

from collections.abc import Mapping
from itertools import chain

from scheduler.weights import added, affinity, amounts
from scheduler.weights.base import HostWeigher
from scheduler.weights.build_failure import BuildFailureWeigher
from scheduler.weights.image_props import ImagePropertiesWeigher
from scheduler.weights.metrics import MetricsWeigher

NOVA_PACKAGE = "nova.scheduler.weights"

#: What nova ships, by its module under ``nova.scheduler.weights``.
MODULES: Mapping[str, tuple[type[HostWeigher], ...]] = {
    "ram": (amounts.RAMWeigher,),
    "cpu": (amounts.CPUWeigher,),
    "disk": (amounts.DiskWeigher,),
    "metrics": (MetricsWeigher,),
    "io_ops": (amounts.IoOpsWeigher,),
    "pci": (amounts.PCIWeigher,),
    "affinity": (affinity.ServerGroupSoftAffinityWeigher, affinity.ServerGroupSoftAntiAffinityWeigher),
    "compute": (BuildFailureWeigher,),
    "cross_cell": (affinity.CrossCellWeigher,),
    "hypervisor_version": (amounts.HypervisorVersionWeigher,),
    "num_instances": (amounts.NumInstancesWeigher,),
    "image_props": (ImagePropertiesWeigher,),
}

#: What nova does not have.
ADDED: tuple[type[added.AddedWeigher], ...] = (
    added.FailureDomainWeigher,
    added.FreeShareWeigher,
    added.KeepRoomWeigher,
    added.SameHostWeigher,
    added.LeavingHostWeigher,
)

ALL: tuple[type[HostWeigher], ...] = tuple(chain.from_iterable(MODULES.values()))

#: Each class by its dotted path in nova.
BY_NOVA_PATH: Mapping[str, type[HostWeigher]] = {
    f"{NOVA_PACKAGE}.{module}.{cls.__name__}": cls for module, classes in MODULES.items() for cls in classes
}
