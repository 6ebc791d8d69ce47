"""What a guest wants of a host's PCI devices, as plain values.

spec: numa-and-pci 1.7, wire-and-config 3.9
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from scheduler.pci.wire import field

LEGACY, REQUIRED, SOCKET = "legacy", "required", "socket"

# What a request says for the compute or for placement; no pool is compared with it.
NOT_COMPARED = frozenset({"resource_class", "traits", "rp_uuids", "rp_uuid"})

_NAMES = {"vendor_id": "vendor", "product_id": "product", "dev_type": "type"}
_MAX_ALTERNATIVES = 3

Spec = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class PciRequest:
    """``count`` devices, each of a pool that matches one of ``specs`` (alternatives, sorted key-value pairs).

    ``alias_name`` None marks a network port's request. ``request_id`` is the prefix of the names of the
    placement groups that were made for this request.
    """

    count: int
    specs: tuple[Spec, ...]
    alias_name: str | None = None
    request_id: str | None = None
    numa_policy: str = LEGACY

    @property
    def is_port(self) -> bool:
        return self.alias_name is None

    @cached_property
    def alternatives(self) -> tuple[Mapping[str, str | None], ...]:
        return tuple(dict(spec) for spec in self.specs)

    def describe(self) -> str:
        """``vendor 8086 product 154d on physnet1``, with ``or`` between alternatives."""
        found = [_describe(spec) for spec in self.alternatives[:_MAX_ALTERNATIVES]]
        if len(self.specs) > _MAX_ALTERNATIVES:
            found.append("...")
        return " or ".join(found) or "nothing at all"


def _describe(spec: Mapping[str, str | None]) -> str:
    words = [f"{name} {spec[key]}" for key, name in _NAMES.items() if spec.get(key)]
    named = {*_NAMES, *NOT_COMPARED, "physical_network"}
    words += [f"{key}={value}" for key, value in spec.items() if key not in named]
    if "physical_network" in spec:
        words.append(f"on {spec['physical_network'] or 'no physical network'}")
    return " ".join(words) or "any device"


def make_request(count: int, specs: list[Mapping[str, str | None]], **members) -> PciRequest:
    """A request from specs written as maps."""
    return PciRequest(count, tuple(tuple(sorted(spec.items())) for spec in specs), **members)


def requests_from(obj: object | None) -> tuple[PciRequest, ...]:
    """The plain requests of an InstancePCIRequests object; none for None. Unset fields read as null."""
    return tuple(_request_from(request) for request in field(obj, "requests") or ())


def _request_from(obj: object) -> PciRequest:
    return make_request(
        int(field(obj, "count") or 0),
        list(field(obj, "spec") or ()),
        alias_name=field(obj, "alias_name"),
        request_id=field(obj, "request_id"),
        numa_policy=field(obj, "numa_policy") or LEGACY,
    )
