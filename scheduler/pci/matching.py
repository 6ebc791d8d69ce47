"""Which kinds of pool may serve a request, without regard to free devices and NUMA cells.

The result depends only on the descriptions of the pools, so it is the same for all hosts with the same
hardware (spec: numa-and-pci 4.1, 4.2).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.pci.pools import PoolKind
from scheduler.pci.requests import NOT_COMPARED, PciRequest

_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})


@dataclass(frozen=True)
class Match:
    """Positions in a host's list of pools.

    Attributes:
        described: The pools whose description matches the request, in order. NUMA policies count all of them
            when they compare the devices nearby with the requested number.
        usable: Those of them whose devices may be given to the request.
    """

    described: tuple[int, ...]
    usable: frozenset[int]


def match(kinds: tuple[PoolKind, ...], request: PciRequest) -> Match:
    """Return which of the pools match a request."""
    described = tuple(i for i, kind in enumerate(kinds) if is_described(kind, request))
    return Match(described, frozenset(i for i in described if is_usable(kinds[i], request)))


def is_described(kind: PoolKind, request: PciRequest) -> bool:
    """Return whether the pool matches any of the request's alternatives."""
    return any(_meets(kind.folded, spec) for spec in request.alternatives)


def _meets(keys: Mapping[str, str | int | None], spec: Mapping[str, str | None]) -> bool:
    for key, wanted in spec.items():
        if key in NOT_COMPARED:
            continue
        if key == "count" or keys.get(key) != (wanted.lower() if isinstance(wanted, str) else wanted):
            return False
    return True


def is_usable(kind: PoolKind, request: PciRequest) -> bool:
    """Return whether devices of this kind may be given to a request.

    PF, vDPA and remote-managed devices are only for requests that name them.
    """
    specs = request.alternatives
    dev_type = kind.get("dev_type")
    if dev_type in ("type-PF", "vdpa") and not any(spec.get("dev_type") == dev_type for spec in specs):
        return False
    if _is_true(kind.get("remote_managed")) and not any(_is_true(s.get("remote_managed")) for s in specs):
        return False
    return _migratable_as_wanted(kind, request)


def _is_true(value: str | int | None) -> bool:
    return isinstance(value, str) and value.strip().lower() in _TRUE


def _migratable_as_wanted(kind: PoolKind, request: PciRequest) -> bool:
    wanted = {spec.get("live_migratable") for spec in request.alternatives}
    if wanted in ({"true"}, {"false"}):
        return kind.get("live_migratable") in wanted
    return True
