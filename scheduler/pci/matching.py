"""Which kinds of pool may serve a request, leaving aside how many devices are free and where.

What is decided here depends on the descriptions alone, so it is the same for all hosts with the same
hardware. spec: numa-and-pci 4.1, 4.2 (1, 3-5, 7)
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.pci.pools import PoolKind
from scheduler.pci.requests import NOT_COMPARED, PciRequest

_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})


@dataclass(frozen=True)
class Match:
    """Positions in a host's pool list.

    ``described`` are the pools that look as asked, in order. ``usable`` are those that may be handed
    out to this request; only the former count when a NUMA policy asks whether there are enough nearby.
    """

    described: tuple[int, ...]
    usable: frozenset[int]


def match(kinds: tuple[PoolKind, ...], request: PciRequest) -> Match:
    described = tuple(i for i, kind in enumerate(kinds) if is_described(kind, request))
    return Match(described, frozenset(i for i in described if is_usable(kinds[i], request)))


def is_described(kind: PoolKind, request: PciRequest) -> bool:
    """Does the pool look as any of the request's alternatives wants it?"""
    return any(_meets(kind.folded, spec) for spec in request.alternatives)


def _meets(keys: Mapping[str, str | int | None], spec: Mapping[str, str | None]) -> bool:
    for key, wanted in spec.items():
        if key in NOT_COMPARED:
            continue
        if key == "count" or keys.get(key) != (wanted.lower() if isinstance(wanted, str) else wanted):
            return False
    return True


def is_usable(kind: PoolKind, request: PciRequest) -> bool:
    """May devices of this kind be given to who did not expressly ask for them?

    Whole cards, vDPA and remote-managed devices only go to requests that name them.
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
