"""The built-in weighers, in the order in which their scores are added (spec: filters-and-weighers 1.9)."""

from scheduler.weights.affinity import ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher
from scheduler.weights.base import HostWeigher
from scheduler.weights.compute import BuildFailureWeigher
from scheduler.weights.cpu import CPUWeigher
from scheduler.weights.cross_cell import CrossCellWeigher
from scheduler.weights.disk import DiskWeigher
from scheduler.weights.hypervisor_version import HypervisorVersionWeigher
from scheduler.weights.image_props import ImagePropertiesWeigher
from scheduler.weights.io_ops import IoOpsWeigher
from scheduler.weights.metrics import MetricsWeigher
from scheduler.weights.num_instances import NumInstancesWeigher
from scheduler.weights.pci import PCIWeigher
from scheduler.weights.ram import RAMWeigher

ALL: tuple[type[HostWeigher], ...] = (
    RAMWeigher,
    CPUWeigher,
    DiskWeigher,
    MetricsWeigher,
    IoOpsWeigher,
    PCIWeigher,
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
    BuildFailureWeigher,
    CrossCellWeigher,
    HypervisorVersionWeigher,
    NumInstancesWeigher,
    ImagePropertiesWeigher,
)
