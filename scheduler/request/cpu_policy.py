"""CPU pinning, translated to PCPU, VCPU and a hyperthreading trait (spec: placement-and-workflow 1.5)."""

from os_resource_classes import PCPU, VCPU

from scheduler import errors
from scheduler.objects.cpu_list import parse_cpu_list
from scheduler.request.groups import ResourceRequest
from scheduler.request.wishes import Wishes

SHARED, DEDICATED, MIXED = "shared", "dedicated", "mixed"
_POLICIES = frozenset({None, SHARED, DEDICATED, MIXED})

# What an image may not ask for, by the flavor's policy. Beside a dedicated flavor it may say what it likes.
_FORBIDDEN_TO_IMAGE = {SHARED: (MIXED, DEDICATED), MIXED: (DEDICATED,)}

_HYPERTHREADING = "HW_CPU_HYPERTHREADING"


def effective_policy(wishes: Wishes) -> str | None:
    """The CPU policy of flavor (``hw:cpu_policy``) and image (``hw_cpu_policy``) together, or None.

    :raises InvalidCPUAllocationPolicy: either is an unknown word.
    :raises ImageCPUPinningForbidden: the image asks for what the flavor rules out.
    """
    flavor = wishes.extra_specs.get("hw:cpu_policy") or None
    image = wishes.image("hw_cpu_policy") or None
    for policy in (flavor, image):
        if policy not in _POLICIES:
            raise errors.InvalidCPUAllocationPolicy(f"{policy!r} is not a CPU policy")
    if image in _FORBIDDEN_TO_IMAGE.get(flavor, ()):
        raise errors.ImageCPUPinningForbidden(
            f"The image asks for CPU policy {image}, which the flavor's policy {flavor} forbids"
        )
    return flavor or image


def effective_thread_policy(wishes: Wishes) -> str | None:
    """The thread policy of ``hw:cpu_thread_policy`` and ``hw_cpu_thread_policy`` together.

    :raises ImageCPUThreadPolicyForbidden: the image differs from a flavor that says more than ``prefer``.
    """
    flavor = wishes.extra_specs.get("hw:cpu_thread_policy") or None
    image = wishes.image("hw_cpu_thread_policy") or None
    if flavor in ("isolate", "require") and image not in (None, flavor):
        raise errors.ImageCPUThreadPolicyForbidden(
            f"The image asks for CPU thread policy {image}, but the flavor demands {flavor}"
        )
    return flavor or image


def translate(request: ResourceRequest, wishes: Wishes) -> None:
    """Ask for PCPU where CPUs are pinned, and for the thread policy's trait. Overwrites explicit amounts."""
    group = request.group()
    policy = effective_policy(wishes)
    vcpus = wishes.flavor.vcpus
    if policy == DEDICATED:
        group.resources[PCPU] = vcpus + _emulator_cpus(wishes)
        request.pinned = True
    elif policy == MIXED:
        pinned = count_pinned(wishes)
        group.resources[PCPU] = pinned + _emulator_cpus(wishes)
        group.resources[VCPU] = vcpus - pinned
    threads = effective_thread_policy(wishes)
    if threads == "isolate":
        group.forbidden.add(_HYPERTHREADING)
    elif threads == "require":
        group.required.add(_HYPERTHREADING)


def count_pinned(wishes: Wishes) -> int:
    """How many CPUs are pinned under policy ``mixed``: those of the dedicated, else of the realtime mask."""
    mask = wishes.extra_specs.get("hw:cpu_dedicated_mask") or _realtime_mask(wishes)
    return len(parse_mask(mask, wishes.flavor.vcpus)) if mask else 0


def parse_mask(text: str, vcpus: int) -> set[int]:
    """The CPUs of a list; one that begins with ``^`` is taken out of all ``vcpus``.

    :raises InvalidField: an item is neither a number nor an ascending range.
    """
    if text.lstrip().startswith("^"):
        text = f"0-{vcpus - 1},{text}"
    return parse_cpu_list(text)


def _realtime_mask(wishes: Wishes) -> str | None:
    if not wishes.flag("hw:cpu_realtime"):
        return None
    return wishes.image("hw_cpu_realtime_mask") or wishes.extra_specs.get("hw:cpu_realtime_mask")


def _emulator_cpus(wishes: Wishes) -> int:
    return int(wishes.extra_specs.get("hw:emulator_threads_policy") == "isolate")
