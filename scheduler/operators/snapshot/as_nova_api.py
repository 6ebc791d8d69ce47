"""The NUMA topology and the PCI devices of a guest, made of flavor and image as nova-api makes them.

Requests that arrive have theirs (spec: numa-and-pci 1.3, 2). Those that a command makes of a flavor do not.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import takewhile
import json
import re
from typing import Any, NamedTuple

import os_resource_classes
import os_traits
from oslo_utils import uuidutils
from oslo_utils.strutils import bool_from_string, string_to_bytes

from scheduler import objects
from scheduler.errors import FlavorImageConflict, InvalidSetting
from scheduler.numa.guest import ANY, LARGE, SMALL
from scheduler.objects.image_props import parse_cpu_list
from scheduler.request.cpu_policy import (
    DEDICATED,
    MIXED,
    SHARED,
    effective_policy,
    effective_thread_policy,
    emulator_policy,
    pinned_cpus,
    realtime_cpus,
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
        raise InvalidSetting("Locked memory needs a page size")
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


def _parsed(read: Callable[[str], Any], text: Any, what: str) -> Any:
    """Return what a function reads of a text; it raises ValueError or returns None for other texts."""
    try:
        value = read(str(text))
    except ValueError as error:
        raise InvalidSetting(f"{text!r} is no {what}: {error}") from error
    if value is None:
        raise InvalidSetting(f"{text!r} is no {what}")
    return value


# -- pages -----------------------------------------------------------------------------------------------


def _page_size(wishes: FlavorAndImage) -> int | None:
    flavor, image = wishes.extra_specs.get("hw:mem_page_size"), wishes.image("hw_mem_page_size")
    if not flavor:
        if image:
            raise FlavorImageConflict("The image requests a page size, which its flavor must allow")
        return None
    size = int(_parsed(_pages, flavor, "page size"))
    if not image:
        return size
    if size not in (LARGE, ANY):
        raise FlavorImageConflict(f"The image requests a page size besides hw:mem_page_size={flavor}")
    return int(_parsed(_pages, image, "page size"))


def _pages(text: str) -> int | None:
    if text in _PAGES:
        return _PAGES[text]
    try:
        size = int(text)
    except ValueError:
        size = int(string_to_bytes(text, return_int=True)) // KIB
    return size if size >= 0 else None


# -- CPUs ------------------------------------------------------------------------------------------------


def _policies(wishes: FlavorAndImage) -> tuple[str | None, str | None]:
    """Return CPU policy and thread policy, also of a flavor that names an amount and a trait instead."""
    policy, threads = effective_policy(wishes), effective_thread_policy(wishes)
    amounts = _cpu_amounts(wishes)
    if amounts and policy:
        raise InvalidSetting("The flavor has both hw:cpu_policy and an amount of VCPU or PCPU")
    if len(amounts) > 1:
        raise InvalidSetting("The flavor requests both VCPU and PCPU")
    ((name, amount),) = amounts.items() or [(None, 0)]
    trait = next((value for key, value in wishes.extra_specs.items() if _HYPERTHREADING.fullmatch(key)), None)
    if trait and threads:
        raise InvalidSetting("The flavor has both hw:cpu_thread_policy and HW_CPU_HYPERTHREADING")
    threads = _THREAD_POLICIES.get(trait or "", threads)
    isolated = emulator_policy(wishes) == "isolate"
    if name == "VCPU":
        policy = SHARED
    elif name == "PCPU":
        policy = DEDICATED
        if amount != wishes.flavor.vcpus + isolated:
            raise InvalidSetting(f"The flavor requests {amount} PCPU, and has {wishes.flavor.vcpus}")
    if policy not in (DEDICATED, MIXED) and (threads or isolated):
        raise InvalidSetting("Thread policies need a CPU policy that pins CPUs")
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
    mask, realtime = wishes.extra_specs.get("hw:cpu_dedicated_mask"), realtime_cpus(wishes)
    if realtime and policy not in (DEDICATED, MIXED):
        raise InvalidSetting("Realtime CPUs need a CPU policy that pins CPUs")
    if policy != MIXED:
        if mask:
            raise InvalidSetting("hw:cpu_dedicated_mask needs hw:cpu_policy=mixed")
        return set(range(wishes.flavor.vcpus)) if policy == DEDICATED else set()
    if bool(mask) == bool(realtime):
        raise InvalidSetting("hw:cpu_policy=mixed needs one mask, of dedicated or of realtime CPUs")
    return pinned_cpus(wishes)


# -- cells -----------------------------------------------------------------------------------------------


def _cell_count(wishes: FlavorAndImage) -> int | None:
    flavor, image = wishes.extra_specs.get("hw:numa_nodes"), wishes.image("hw_numa_nodes")
    if flavor and image:
        raise FlavorImageConflict("Both flavor and image have a number of NUMA cells")
    given = flavor or image
    return _parsed(lambda text: amount_of(text) or None, given, "number of NUMA cells") if given else None


def _shares(wishes: FlavorAndImage, count: int) -> Iterable[tuple[set[int], int]]:
    cpus = _by_cell(wishes, "numa_cpus", partial(_parsed, parse_cpu_list, what="list of CPUs"))
    memory = _by_cell(wishes, "numa_mem", partial(_parsed, amount_of, what="amount of memory"))
    vcpus, memory_mb = wishes.flavor.vcpus, wishes.flavor.memory_mb
    if not cpus and not memory:
        if vcpus % count or memory_mb % count:
            raise InvalidSetting(f"{count} NUMA cells cannot share {vcpus} CPUs and {memory_mb} MiB equally")
        size = vcpus // count
        return [(set(range(at * size, (at + 1) * size)), memory_mb // count) for at in range(count)]
    if not len(cpus) == len(memory) == count:
        raise InvalidSetting(f"CPUs and memory must be given for each NUMA cell ({count})")
    if sorted(number for cell in cpus for number in cell) != list(range(vcpus)):
        raise InvalidSetting(f"The NUMA cells must share {vcpus} CPUs, each in one of them")
    if sum(memory) != memory_mb:
        raise InvalidSetting(f"The NUMA cells must share {memory_mb} MiB")
    return zip(cpus, memory, strict=True)


def _by_cell(wishes: FlavorAndImage, name: str, read: Callable[[Any], Any]) -> list[Any]:
    """Return a value of each cell, by the flavor (``hw:NAME.0`` and so on) or by the image."""
    texts = (wishes.extra_specs.get(f"hw:{name}.{number}") for number in range(MOST_CELLS))
    flavor = [read(text) for text in takewhile(lambda text: text is not None, texts)]
    image = wishes.image(f"hw_{name}")
    if flavor and image:
        raise FlavorImageConflict(f"Both flavor and image have {name} of NUMA cells")
    return flavor or image or []


# -- PCI devices ------------------------------------------------------------------------------------------

EXTRA_SPEC = "pci_passthrough:alias"

#: The key that pools have as ``true`` or ``false``, whatever word the alias has for it.
LIVE = "live_migratable"

#: Keys of an alias for pools or Placement, by their names in ``[pci] alias``.
_KEYS = {"device_type": "dev_type"} | {
    name: name for name in ("vendor_id", "product_id", LIVE, "resource_class", "traits")
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
    """
    found: dict[str, Alias] = {}
    kinds = [{"vendor_id", "product_id"}, *([{"resource_class"}] if in_placement else [])]
    for text in texts:
        entry = _parsed(json.loads, text, "JSON object of [pci]/alias")
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise InvalidSetting(f"[pci]/alias {text!r} has no name")
        policy = entry.get("numa_policy", "legacy")
        spec = {ours: _word(theirs, entry[theirs]) for theirs, ours in _KEYS.items() if theirs in entry}
        if not any(map(spec.keys().__ge__, kinds)):
            words = " or ".join(" and ".join(sorted(kind, reverse=True)) for kind in kinds)
            raise InvalidSetting(f"[pci]/alias {entry['name']} needs {words}")
        alias = found.setdefault(entry["name"], Alias([], policy))
        if in_placement and alias.specs:
            raise InvalidSetting(f"With pci_in_placement, [pci]/alias {entry['name']} must have one entry")
        same_type = all(one.get("dev_type") == spec.get("dev_type") is not None for one in alias.specs)
        if alias.numa_policy != policy or not same_type:
            raise InvalidSetting(
                f"Entries of [pci]/alias with name {entry['name']} differ in device_type or numa_policy"
            )
        alias.specs.append(spec)
    return found


def _word(key: str, value: Any) -> str:
    if key == LIVE:
        value = _parsed(partial(bool_from_string, strict=True), value, f"boolean for {LIVE}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def pci_requests(wishes: FlavorAndImage, aliases: Mapping[str, Alias]) -> objects.InstancePCIRequests:
    """Return the devices that the flavor requests, such as ``pci_passthrough:alias=gpu:2,nic:1``."""
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
    """Return the groups with ``[filter_scheduler] pci_in_placement``: one for each device of the flavor."""
    return [
        objects.RequestGroup(
            requester_id=f"{request.request_id}-{number}",
            resources={_resource_class(spec): 1},
            required_traits=set(map(_trait, filter(None, spec.get("traits", "").split(",")))),
        )
        for request in requests.requests
        if request.source != request.NEUTRON_PORT
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
