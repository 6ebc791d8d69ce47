"""The versioned objects that travel between nova's services and the scheduler.

Field names, versions and defaults are nova's (spec: wire-and-config 2, 3). One module has the classes of one
subject; all of them are exported here: ``objects.RequestSpec``, ``objects.hydrate(primitive)``.
"""
# ruff: noqa: F401 - exported

from scheduler.objects.base import (
    IncompatibleObjectVersion,
    InvalidField,
    MissingField,
    UnsupportedObjectError,
    WireObject,
    hydrate,
    is_envelope,
)
from scheduler.objects.image_meta import Flavor, ImageMeta
from scheduler.objects.image_props import ImageMetaProps
from scheduler.objects.instance import Aggregate, AggregateList, Instance, InstanceGroup, InstanceList
from scheduler.objects.limits import (
    ComputeNode,
    ComputeNodeList,
    NUMATopologyLimits,
    SchedulerLimits,
    SchedulerRetries,
    Selection,
)
from scheduler.objects.network import (
    NetworkMetadata,
    NetworkRequest,
    NetworkRequestList,
    SecurityGroup,
    SecurityGroupList,
)
from scheduler.objects.numa import InstanceNUMACell, InstanceNUMATopology, VirtCPUTopology
from scheduler.objects.pci import InstancePCIRequest, InstancePCIRequests
from scheduler.objects.request_spec import (
    CellMapping,
    Destination,
    RequestGroup,
    RequestLevelParams,
    RequestSpec,
)
