"""The PCI requests of a guest, as plain values (spec: numa-and-pci 1.7, wire-and-config 3.9)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scheduler.pci.wire import field

LEGACY, REQUIRED, SOCKET = "legacy", "required", "socket"

# Keys of a spec for the compute and for Placement, which are not compared with pools.
NOT_COMPARED = frozenset({"resource_class", "traits", "rp_uuids", "rp_uuid"})

_NAMES = {"vendor_id": "vendor", "product_id": "product", "dev_type": "type"}
_MAX_ALTERNATIVES = 3

Spec = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class PciRequest:
    """One PCI request.

    Attributes:
        specs: Alternatives as sorted pairs (key, value); each device is of a pool that matches one of them.
        alias_name: The PCI alias; None for the request of a network port.
        request_id: Prefix of the suffixes of the request groups that were made for this request.
        numa_policy: legacy, required, preferred or socket.
    """

    count: int
    specs: tuple[Spec, ...]
    alias_name: str | None = None
    request_id: str | None = None
    numa_policy: str = LEGACY

    @property
    def is_port(self) -> bool:
        """Whether this is the request of a network port."""
        return self.alias_name is None

    @cached_property
    def alternatives(self) -> tuple[Mapping[str, str | None], ...]:
        """``specs`` as maps."""
        return tuple(dict(spec) for spec in self.specs)

    def describe(self) -> str:
        """Return the request in words, such as ``vendor 8086 product 154d (PCI alias nic)``."""
        alternatives = [_describe(spec) for spec in self.alternatives[:_MAX_ALTERNATIVES]]
        if len(self.specs) > _MAX_ALTERNATIVES:
            alternatives.append("...")
        alias = f" (PCI alias {self.alias_name})" if self.alias_name else ""
        return (" or ".join(alternatives) or "nothing at all") + alias


def _describe(spec: Mapping[str, str | None]) -> str:
    words = [f"{name} {spec[key]}" for key, name in _NAMES.items() if spec.get(key)]
    named = {*_NAMES, *NOT_COMPARED, "physical_network"}
    words += [f"{key}={value}" for key, value in spec.items() if key not in named]
    if "physical_network" in spec:
        words.append(f"on {spec['physical_network'] or 'no physical network'}")
    return " ".join(words) or "any device"


def make_request(count: int, specs: Sequence[Mapping[str, str | None]], **members: Any) -> PciRequest:
    return PciRequest(count, tuple(tuple(sorted(spec.items())) for spec in specs), **members)


def requests_from(obj: object | None) -> tuple[PciRequest, ...]:
    """Return the plain requests of an InstancePCIRequests object or None; unset fields read as null."""
    return tuple(_request_from(request) for request in field(obj, "requests") or ())


def _request_from(obj: object) -> PciRequest:
    return make_request(
        int(field(obj, "count") or 0),
        list(field(obj, "spec") or ()),
        alias_name=field(obj, "alias_name"),
        request_id=field(obj, "request_id"),
        numa_policy=field(obj, "numa_policy") or LEGACY,
    )
