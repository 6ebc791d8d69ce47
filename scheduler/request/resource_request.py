"""RequestSpec → ResourceRequest: the steps up to the features (spec: placement-and-workflow 1.1).

Their order matters: later steps read what earlier ones added.
"""

from os_resource_classes import DISK_GB, MEMORY_MB, PCPU, VCPU

from scheduler import errors
from scheduler.request import cpu_policy, extra_specs, features
from scheduler.request.flavor_and_image import FlavorAndImage
from scheduler.request.groups import Group, ResourceRequest
from scheduler.request.reading import read

_MIB_PER_GIB = 1024


def make(spec, *, translate_pinning: bool = True) -> ResourceRequest:
    """Return what flavor, image and external groups of a RequestSpec request, before pruning and destination.

    Raises:
        FlavorImageConflict: Or a related error: flavor and image contradict each other.
        RequestGroupSuffixConflict: Two groups have one suffix.
        InvalidRequest: An external group is malformed.
    """
    wishes = FlavorAndImage(spec)
    request = ResourceRequest(
        root_required=frozenset(spec.root_required),
        root_forbidden=frozenset(spec.root_forbidden),
        same_subtree=tuple(map(frozenset, spec.same_subtree)),
    )
    extra_specs.scan(wishes.extra_specs, request)
    request.flavor_suffixes = request.count_suffixed()
    request.group().required.update(wishes.image("traits_required") or ())
    if translate_pinning:
        cpu_policy.translate(request, wishes)
    _add_external_groups(request, spec)
    _add_defaults(request, spec)
    features.translate(request.group(), wishes)
    return request


def _add_external_groups(request: ResourceRequest, spec) -> None:
    for wire_group in read(spec, "requested_resources", ()):
        suffix = wire_group.requester_id
        if not suffix:
            raise errors.InvalidRequest("A group of requested_resources has no requester_id")
        group = Group.of_wire(wire_group)
        if group.is_empty:
            raise errors.InvalidRequest(f"Group {suffix} of requested_resources is empty")
        if suffix in request.groups:
            raise errors.RequestGroupSuffixConflict(suffix)
        request.groups[suffix] = group


def _add_defaults(request: ResourceRequest, spec) -> None:
    flavor = spec.flavor
    resources = request.group().resources
    if not (request.mentions(VCPU) or request.mentions(PCPU)):
        resources[VCPU] = flavor.vcpus
    if not request.mentions(MEMORY_MB):
        resources[MEMORY_MB] = flavor.memory_mb
    disk = disk_gb(flavor, is_bfv=read(spec, "is_bfv", default=False))
    if disk > 0 and not request.mentions(DISK_GB):
        resources[DISK_GB] = disk


def disk_gb(flavor, *, is_bfv: bool) -> int:
    """Local disk of a flavor in GiB. Its swap, given in MiB, is rounded up; a volume is not local."""
    swap = -(-flavor.swap // _MIB_PER_GIB)
    root = 0 if is_bfv else flavor.root_gb
    return root + flavor.ephemeral_gb + swap
