"""CPU pinning, translated to PCPU, VCPU and a hyperthreading trait (spec: placement-and-workflow 1.5)."""

from os_resource_classes import PCPU, VCPU

from scheduler import errors
from scheduler.objects import InvalidField
from scheduler.objects.image_props import parse_cpu_list
from scheduler.request.flavor_and_image import FlavorAndImage
from scheduler.request.groups import ResourceRequest

SHARED, DEDICATED, MIXED = "shared", "dedicated", "mixed"
_POLICIES = frozenset({None, SHARED, DEDICATED, MIXED})

# What an image may not request, by the flavor's policy. With a dedicated flavor it may request any.
_FORBIDDEN_TO_IMAGE = {SHARED: (MIXED, DEDICATED), MIXED: (DEDICATED,)}

_THREAD_POLICIES = frozenset({"prefer", "isolate", "require"})
_EMULATOR_POLICIES = frozenset({"share", "isolate"})

_HYPERTHREADING = "HW_CPU_HYPERTHREADING"


def effective_policy(wishes: FlavorAndImage) -> str | None:
    """Return the CPU policy of flavor (``hw:cpu_policy``) and image (``hw_cpu_policy``) together, or None.

    Raises:
        InvalidCPUAllocationPolicy: Either is an unknown word.
        ImageCPUPinningForbidden: The image requests what the flavor forbids.
    """
    flavor = wishes.extra_specs.get("hw:cpu_policy") or None
    image = wishes.image("hw_cpu_policy") or None
    for policy in (flavor, image):
        if policy not in _POLICIES:
            raise errors.InvalidCPUAllocationPolicy(f"{policy!r} is not a CPU policy")
    if image in _FORBIDDEN_TO_IMAGE.get(flavor or "", ()):
        raise errors.ImageCPUPinningForbidden(
            f"The image requests CPU policy {image}, which the flavor's policy {flavor} forbids"
        )
    return flavor or image


def effective_thread_policy(wishes: FlavorAndImage) -> str | None:
    """Return the thread policy of ``hw:cpu_thread_policy`` and ``hw_cpu_thread_policy`` together.

    Raises:
        InvalidSetting: The flavor has an unknown word.
        ImageCPUThreadPolicyForbidden: The image differs from a flavor that says more than ``prefer``.
    """
    flavor = wishes.choice("hw:cpu_thread_policy", _THREAD_POLICIES)
    image = wishes.image("hw_cpu_thread_policy") or None
    if flavor in ("isolate", "require") and image not in (None, flavor):
        raise errors.ImageCPUThreadPolicyForbidden(
            f"The image requests CPU thread policy {image}, but the flavor demands {flavor}"
        )
    return flavor or image


def emulator_policy(wishes: FlavorAndImage) -> str | None:
    """Return where emulator threads run: ``hw:emulator_threads_policy`` of the flavor.

    Raises:
        InvalidSetting: It is an unknown word.
    """
    return wishes.choice("hw:emulator_threads_policy", _EMULATOR_POLICIES)


def translate(request: ResourceRequest, wishes: FlavorAndImage) -> None:
    """Request PCPU where CPUs are pinned, and for the thread policy's trait. Overwrites explicit amounts."""
    group = request.group()
    policy = effective_policy(wishes)
    vcpus = wishes.flavor.vcpus
    emulator_cpus = int(emulator_policy(wishes) == "isolate")
    if policy == DEDICATED:
        group.resources[PCPU] = vcpus + emulator_cpus
        request.pinned = True
    elif policy == MIXED:
        pinned = len(pinned_cpus(wishes))
        group.resources[PCPU] = pinned + emulator_cpus
        group.resources[VCPU] = vcpus - pinned
    threads = effective_thread_policy(wishes)
    if threads == "isolate":
        group.forbidden.add(_HYPERTHREADING)
    elif threads == "require":
        group.required.add(_HYPERTHREADING)


def pinned_cpus(wishes: FlavorAndImage) -> set[int]:
    """Return the CPUs that are pinned under policy ``mixed``: those of the dedicated, else the realtime mask.

    Raises:
        InvalidSetting: One of the masks names no CPU, too many, or is no list of CPUs.
    """
    mask = wishes.extra_specs.get("hw:cpu_dedicated_mask")
    realtime = realtime_cpus(wishes)
    return _masked(mask, wishes, leaves_some=True) if mask else realtime


def realtime_cpus(wishes: FlavorAndImage) -> set[int]:
    """Return the realtime CPUs: those of the mask, or all.

    All of them only if the flavor says where emulator threads run instead.

    Raises:
        InvalidSetting: As ``pinned_cpus``.
    """
    if not wishes.flag("hw:cpu_realtime"):
        return set()
    mask = wishes.image("hw_cpu_realtime_mask") or wishes.extra_specs.get("hw:cpu_realtime_mask")
    mask = mask or f"0-{wishes.flavor.vcpus - 1}"
    return _masked(mask, wishes, leaves_some=not emulator_policy(wishes))


def parse_mask(text: str, vcpus: int) -> set[int]:
    """Return the CPUs of a list; one that begins with ``^`` is taken out of all ``vcpus``.

    Raises:
        InvalidSetting: It is no list of CPUs, or names none, or others than there are.
    """
    listed = f"0-{vcpus - 1},{text}" if text.lstrip().startswith("^") else text
    try:
        cpus = parse_cpu_list(listed)
    except InvalidField as error:
        raise errors.InvalidSetting(f"CPU mask {text!r} of the flavor or image: {error}") from error
    if not cpus or max(cpus) >= vcpus:
        raise errors.InvalidSetting(f"CPU mask {text!r} must name some of {vcpus} CPUs")
    return cpus


def _masked(text: str, wishes: FlavorAndImage, *, leaves_some: bool) -> set[int]:
    vcpus = wishes.flavor.vcpus
    cpus = parse_mask(text, vcpus)
    if leaves_some and len(cpus) == vcpus:
        raise errors.InvalidSetting(f"CPU mask {text!r} must leave some of {vcpus} CPUs out")
    return cpus
