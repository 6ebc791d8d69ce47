"""The NUMA topology and the PCI devices of a guest, made of flavor and image as nova-api makes them.

Requests that arrive have theirs (spec: numa-and-pci 1.3, 2). Those that a command makes of a flavor do not.
"""

from collections.abc import Iterable, Iterator, Mapping
import json
import re
from typing import Any, NamedTuple

import os_resource_classes
import os_traits
from oslo_utils import strutils, uuidutils
from oslo_utils.strutils import string_to_bytes

from scheduler import errors, objects
from scheduler.errors import InvalidSetting
from scheduler.logs import count_text
from scheduler.numa.guest import ANY, LARGE, SMALL
from scheduler.objects import InvalidField
from scheduler.objects.image_props import parse_cpu_list
from scheduler.request.cpu_policy import (
    DEDICATED,
    MIXED,
    SHARED,
    effective_policy,
    effective_thread_policy,
    emulator_policy,
    parse_mask,
)
from scheduler.request.extra_specs import amount_of
from scheduler.request.features import pci_numa_policy
from scheduler.request.flavor_and_image import FlavorAndImage

KIB = 1024

#: The most cells of a guest.
MOST_CELLS = 128

_PAGES = {"small": SMALL, "large": LARGE, "any": ANY}
_CPU_AMOUNT = re.compile(r"resources(?:[1-9]\d*)?:(VCPU|PCPU)")
_HYPERTHREADING = re.compile(r"trait(?:[1-9]\d*)?:HW_CPU_HYPERTHREADING")
_THREAD_POLICIES = {"forbidden": "isolate", "required": "require"}


def guest_topology(wishes: FlavorAndImage) -> objects.InstanceNUMATopology | None:
    """Return the topology of a flavor and an image; None for a guest without one.

    Raises:
        InvalidRequest: They contradict themselves or each other; nova-api refuses them.
    """
    pagesize = _page_size(wishes)
    if wishes.agreed_flag("hw:locked_memory", "hw_locked_memory") and pagesize is None:
        raise errors.InvalidSetting("Locked memory needs a page size")
    policy, thread_policy = _policies(wishes)
    pinned = _pinned(wishes, policy)
    count = _cell_count(wishes)
    labels = [label for label in wishes.extra_specs.get("hw:pmem", "").split(",") if label.strip()]
    if count is None and not pagesize and policy not in (DEDICATED, MIXED) and not labels:
        return None
    cells = [
        objects.InstanceNUMACell(
            id=number,
            cpuset=cpus - pinned,
            pcpuset=cpus & pinned,
            memory=memory,
            pagesize=pagesize,
            cpu_policy=policy,
            cpu_thread_policy=thread_policy,
        )
        for number, (cpus, memory) in enumerate(_shares(wishes, count or 1))
    ]
    return objects.InstanceNUMATopology(cells=cells, emulator_threads_policy=emulator_policy(wishes))


# -- pages -----------------------------------------------------------------------------------------------


def _page_size(wishes: FlavorAndImage) -> int | None:
    flavor, image = wishes.extra_specs.get("hw:mem_page_size"), wishes.image("hw_mem_page_size")
    if not flavor:
        if image:
            raise errors.FlavorImageConflict("The image requests a page size, which its flavor must allow")
        return None
    size = _pages(flavor)
    if not image:
        return size
    if size not in (LARGE, ANY):
        raise errors.FlavorImageConflict(f"The image requests a page size besides hw:mem_page_size={flavor}")
    return _pages(image)


def _pages(text: str) -> int:
    if text in _PAGES:
        return _PAGES[text]
    try:
        size = int(text)
    except ValueError:
        size = _kib(text)
    if size < 0:
        raise errors.InvalidSetting(f"{text!r} is no page size")
    return size


def _kib(text: str) -> int:
    try:
        return int(string_to_bytes(text, return_int=True)) // KIB
    except ValueError as error:
        raise errors.InvalidSetting(f"{text!r} is no page size") from error


# -- CPUs ------------------------------------------------------------------------------------------------


def _policies(wishes: FlavorAndImage) -> tuple[str | None, str | None]:
    """Return CPU policy and thread policy, also of a flavor that names an amount and a trait instead."""
    policy, threads = effective_policy(wishes), effective_thread_policy(wishes)
    amounts = _cpu_amounts(wishes)
    if amounts and policy:
        raise errors.InvalidSetting("The flavor has both hw:cpu_policy and an amount of VCPU or PCPU")
    if len(amounts) > 1:
        raise errors.InvalidSetting("The flavor requests both VCPU and PCPU")
    ((name, amount),) = amounts.items() or [(None, 0)]
    trait = next((value for key, value in wishes.extra_specs.items() if _HYPERTHREADING.fullmatch(key)), None)
    if trait and threads:
        raise errors.InvalidSetting("The flavor has both hw:cpu_thread_policy and HW_CPU_HYPERTHREADING")
    threads = _THREAD_POLICIES.get(trait or "", threads)
    isolated = emulator_policy(wishes) == "isolate"
    if name == "VCPU":
        policy = SHARED
    elif name == "PCPU":
        policy = DEDICATED
        if amount != wishes.flavor.vcpus + isolated:
            raise errors.InvalidSetting(f"The flavor requests {amount} PCPU, and has {wishes.flavor.vcpus}")
    if policy not in (DEDICATED, MIXED) and (threads or isolated):
        raise errors.InvalidSetting("Thread policies need a CPU policy that pins CPUs")
    return policy, threads


def _cpu_amounts(wishes: FlavorAndImage) -> dict[str, int]:
    """Return the amounts of VCPU and PCPU in extra specs, without those that are 0 or malformed."""
    found: dict[str, int] = {}
    for key, value in wishes.extra_specs.items():
        match = _CPU_AMOUNT.fullmatch(key)
        amount = amount_of(value) if match else None
        if match and amount:
            found[match[1]] = found.get(match[1], 0) + amount
    return found


def _pinned(wishes: FlavorAndImage, policy: str | None) -> set[int]:
    vcpus = wishes.flavor.vcpus
    mask = wishes.extra_specs.get("hw:cpu_dedicated_mask")
    dedicated = parse_mask(mask, vcpus) if mask else set()
    realtime = _realtime(wishes)
    if realtime and policy not in (DEDICATED, MIXED):
        raise errors.InvalidSetting("Realtime CPUs need a CPU policy that pins CPUs")
    if policy != MIXED:
        if dedicated:
            raise errors.InvalidSetting("hw:cpu_dedicated_mask needs hw:cpu_policy=mixed")
        return set(range(vcpus)) if policy == DEDICATED else set()
    if bool(dedicated) == bool(realtime):
        raise errors.InvalidSetting("hw:cpu_policy=mixed needs one mask, of dedicated or of realtime CPUs")
    if len(dedicated) == vcpus:
        raise errors.InvalidSetting("hw:cpu_policy=mixed needs a CPU that is not pinned")
    return dedicated or realtime


def _realtime(wishes: FlavorAndImage) -> set[int]:
    if not wishes.flag("hw:cpu_realtime"):
        return set()
    vcpus = wishes.flavor.vcpus
    mask = wishes.image("hw_cpu_realtime_mask") or wishes.extra_specs.get("hw:cpu_realtime_mask")
    cpus = parse_mask(mask, vcpus) if mask else set(range(vcpus))
    if len(cpus) == vcpus and not emulator_policy(wishes):
        raise errors.InvalidSetting("Realtime CPUs leave none for emulator threads")
    return cpus


# -- cells -----------------------------------------------------------------------------------------------


def _cell_count(wishes: FlavorAndImage) -> int | None:
    flavor, image = wishes.extra_specs.get("hw:numa_nodes"), wishes.image("hw_numa_nodes")
    if flavor and image:
        raise errors.FlavorImageConflict("Both flavor and image have a number of NUMA cells")
    given = flavor or image
    if not given:
        return None
    count = amount_of(str(given))
    if not count:
        raise errors.InvalidSetting(f"{given!r} is no number of NUMA cells")
    return count


def _shares(wishes: FlavorAndImage, count: int) -> Iterator[tuple[set[int], int]]:
    """Yield the vCPUs and the MiB of each cell."""
    cpus = _by_cell(wishes, "numa_cpus", _cpu_set)
    memory = _by_cell(wishes, "numa_mem", _megabytes)
    if (cpus is None) != (memory is None):
        raise errors.InvalidSetting("NUMA cells need both their CPUs and their memory, or neither")
    flavor = wishes.flavor
    if cpus is None or memory is None:
        return _equal_shares(flavor.vcpus, flavor.memory_mb, count)
    if not len(cpus) == len(memory) == count:
        raise errors.InvalidSetting(f"CPUs and memory must be given for each NUMA cell ({count})")
    numbers = [number for cell in cpus for number in cell]
    if sorted(numbers) != list(range(flavor.vcpus)):
        raise errors.InvalidSetting(f"The NUMA cells must share {flavor.vcpus} CPUs, each in one of them")
    if sum(memory) != flavor.memory_mb:
        raise errors.InvalidSetting(f"The NUMA cells must share {flavor.memory_mb} MiB")
    return zip(cpus, memory, strict=True)


def _equal_shares(vcpus: int, memory_mb: int, count: int) -> Iterator[tuple[set[int], int]]:
    if vcpus % count or memory_mb % count:
        raise errors.InvalidSetting(
            f"{count_text(count, 'NUMA cell')} cannot share {count_text(vcpus, 'CPU')} and {memory_mb} MiB"
        )
    size = vcpus // count
    return ((set(range(at * size, (at + 1) * size)), memory_mb // count) for at in range(count))


def _by_cell(wishes: FlavorAndImage, name: str, read: Any) -> list[Any] | None:
    """Return a value of each cell, by the flavor (``hw:NAME.0`` and so on) or by the image."""
    flavor = []
    for number in range(MOST_CELLS):
        text = wishes.extra_specs.get(f"hw:{name}.{number}")
        if text is None:
            break
        flavor.append(read(text))
    image = wishes.image(f"hw_{name}")
    if flavor and image:
        raise errors.FlavorImageConflict(f"Both flavor and image have {name} of NUMA cells")
    return flavor or image or None


def _cpu_set(text: str) -> set[int]:
    try:
        return parse_cpu_list(text)
    except InvalidField as error:
        raise errors.InvalidSetting(f"CPUs of a NUMA cell: {error}") from error


def _megabytes(text: str) -> int:
    amount = amount_of(text)
    if amount is None:
        raise errors.InvalidSetting(f"{text!r} is no amount of memory of a NUMA cell")
    return amount


# -- PCI devices ------------------------------------------------------------------------------------------

EXTRA_SPEC = "pci_passthrough:alias"

#: The key that pools have as ``true`` or ``false``, whatever word the alias has for it.
LIVE = "live_migratable"

#: Keys of an alias for pools or Placement, by their names in ``[pci] alias``.
_KEYS = {
    "vendor_id": "vendor_id",
    "product_id": "product_id",
    "device_type": "dev_type",
    LIVE: LIVE,
    "resource_class": "resource_class",
    "traits": "traits",
}


class Alias(NamedTuple):
    """One alias.

    Attributes:
        specs: Alternatives; several entries of ``[pci] alias`` may have one name.
        numa_policy: The NUMA policy for its devices.
    """

    specs: list[dict[str, str]]
    numa_policy: str


def read_aliases(texts: Iterable[str], *, in_placement: bool = False) -> dict[str, Alias]:
    """Return the aliases of ``[pci] alias`` by their names.

    Args:
        in_placement: ``[filter_scheduler] pci_in_placement``, with which the alias must name one kind of
            device for Placement.

    Raises:
        InvalidSetting: An entry is not a JSON object with a name, differs from one of the same name, or does
            not identify its devices.
    """
    found: dict[str, Alias] = {}
    for text in texts:
        entry = _entry(text)
        policy = entry.get("numa_policy", "legacy")
        spec = {ours: _word(entry[theirs]) for theirs, ours in _KEYS.items() if theirs in entry}
        if LIVE in spec:
            spec[LIVE] = _flag(entry["name"], spec[LIVE])
        alias = found.setdefault(entry["name"], Alias([], policy))
        alike = alias.numa_policy == policy and all(
            one.get("dev_type") == spec.get("dev_type") is not None for one in alias.specs
        )
        if not alike:
            raise InvalidSetting(
                f"Entries of [pci]/alias with name {entry['name']} differ in device_type or numa_policy"
            )
        alias.specs.append(spec)
    for name, alias in found.items():
        _check(name, alias, in_placement=in_placement)
    return found


def _check(name: str, alias: Alias, *, in_placement: bool) -> None:
    if in_placement and len(alias.specs) > 1:
        raise InvalidSetting(
            f"[pci]/alias {name} has several entries; with pci_in_placement it must have one"
        )
    kinds = [{"vendor_id", "product_id"}, *([{"resource_class"}] if in_placement else [])]
    if not all(any(map(spec.keys().__ge__, kinds)) for spec in alias.specs):
        words = " or ".join(" and ".join(sorted(kind, reverse=True)) for kind in kinds)
        raise InvalidSetting(f"[pci]/alias {name} needs {words}")


def _entry(text: str) -> dict[str, Any]:
    try:
        entry = json.loads(text)
    except ValueError as error:
        raise InvalidSetting(f"[pci]/alias {text!r} is not JSON: {error}") from error
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise InvalidSetting(f"[pci]/alias {text!r} has no name")
    return entry


def _flag(name: str, word: str) -> str:
    try:
        return str(strutils.bool_from_string(word, strict=True)).lower()
    except ValueError as error:
        raise InvalidSetting(f"[pci]/alias {name}: live_migratable is no boolean: {error}") from error


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def pci_requests(wishes: FlavorAndImage, aliases: Mapping[str, Alias]) -> objects.InstancePCIRequests:
    """Return the devices that the flavor requests, such as ``pci_passthrough:alias=gpu:2,nic:1``.

    Raises:
        InvalidSetting: An alias does not exist, or has no number of devices.
    """
    policy = pci_numa_policy(wishes)
    wanted = wishes.extra_specs.get(EXTRA_SPEC, "")
    return objects.InstancePCIRequests(
        requests=[_request(one, policy, aliases) for one in wanted.split(",") if wanted]
    )


def _request(wanted: str, policy: str | None, aliases: Mapping[str, Alias]) -> objects.InstancePCIRequest:
    name, _, count = (part.strip() for part in wanted.partition(":"))
    alias = aliases.get(name)
    if alias is None:
        raise InvalidSetting(f"There is no PCI alias {name!r} in [pci]/alias")
    if not count.isdecimal():
        raise InvalidSetting(f"{wanted!r} of {EXTRA_SPEC} has no number of devices")
    return objects.InstancePCIRequest(
        count=int(count),
        spec=[dict(spec) for spec in alias.specs],
        alias_name=name,
        request_id=uuidutils.generate_uuid(),
        numa_policy=policy or alias.numa_policy,
    )


def request_groups(requests: objects.InstancePCIRequests) -> list[objects.RequestGroup]:
    """Return the request groups with ``[filter_scheduler] pci_in_placement``: a group a device."""
    return [
        objects.RequestGroup(
            requester_id=f"{request.request_id}-{number}",
            resources={_resource_class(spec): 1},
            required_traits=set(map(_trait, filter(None, spec.get("traits", "").split(",")))),
        )
        for request in requests.requests
        for spec in request.spec
        for number in range(request.count)
    ]


def _resource_class(spec: Mapping[str, str]) -> str:
    name = (spec.get("resource_class") or "").upper()
    if not name:
        return f"CUSTOM_PCI_{spec.get('vendor_id')}_{spec.get('product_id')}".upper()
    known = name in os_resource_classes.STANDARDS or name.startswith(os_resource_classes.CUSTOM_NAMESPACE)
    return name if known else str(os_resource_classes.normalize_name(name))


def _trait(name: str) -> str:
    trait = name.upper()  # a standard trait in other letters is none
    known = hasattr(os_traits, name) or trait.startswith(os_traits.CUSTOM_NAMESPACE)
    return trait if known else str(os_traits.normalize_name(trait))
