"""The PCI requests of a flavor, made of its aliases as nova-api makes them.

Requests that arrive have theirs (spec: numa-and-pci 1.7, placement-and-workflow 1.8). Those that a command
makes of a flavor do not.
"""

from collections.abc import Iterable, Mapping
import json
from typing import Any, NamedTuple

import os_resource_classes
import os_traits
from oslo_utils import strutils, uuidutils

from scheduler import objects
from scheduler.errors import InvalidSetting
from scheduler.request.features import pci_numa_policy
from scheduler.request.flavor_and_image import FlavorAndImage

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
