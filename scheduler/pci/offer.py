"""A host's pools as the requests of one guest see them.

Everything that tells equal hosts apart for no reason (provider UUIDs, addresses) is gone from an
offer: two hosts with the same hardware and the same devices left give equal offers, and a verdict on
one is the verdict on the other. spec: numa-and-pci 3.14, 4.5
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from scheduler.pci.matching import Match, match
from scheduler.pci.pools import PoolKind, PoolSet
from scheduler.pci.requests import PciRequest

UNKNOWN = -2

# Placement group name (suffix) -> the providers that a candidate takes for it.
Mappings = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Demand:
    """One request against one host. ``bound`` are the numbers of the providers that placement chose.

    A provider occurs as often as it is to give a device; empty means that placement had no say, None that its
    choice makes no sense, so that nothing can be taken. ``what`` says in words what is wanted.
    """

    what: str
    count: int
    policy: str
    match: Match
    bound: tuple[int, ...] | None = ()


@dataclass(frozen=True)
class Offer:
    """The devices of a host: for each pool its node, how many are free, its provider's number (-1: none)."""

    nodes: tuple[int | None, ...] = ()
    counts: tuple[int, ...] = ()
    providers: tuple[int, ...] = ()
    demands: tuple[Demand, ...] = ()
    free_by_node: tuple[tuple[int, int], ...] = ()


def make_offer(pools: PoolSet, requests: tuple[PciRequest, ...], mappings: Mappings | None = None) -> Offer:
    """Put requests and pools side by side; without requests all that matters is what is free on each node."""
    if not requests:
        return Offer(free_by_node=pools.free_by_node)
    matches = _matches(pools.kinds, requests)
    demands = tuple(
        Demand(what, request.count, request.numa_policy, found, bound_providers(pools, request, mappings))
        for request, (what, found) in zip(requests, matches, strict=True)
    )
    nodes = tuple(kind.numa_node for kind in pools.kinds)
    return Offer(nodes, pools.counts, pools.providers, demands, pools.free_by_node)


@lru_cache(maxsize=1024)
def _matches(kinds: tuple[PoolKind, ...], requests: tuple[PciRequest, ...]) -> tuple[tuple[str, Match], ...]:
    return tuple((request.describe(), match(kinds, request)) for request in requests)


def bound_providers(pools: PoolSet, request: PciRequest, mappings: Mappings | None) -> tuple[int, ...] | None:
    """``providers_of`` as the numbers that the host's pools have; ``UNKNOWN`` for providers of no pool."""
    chosen = providers_of(request, mappings)
    if chosen is None:
        return None
    return tuple(pools.provider_index.get(provider, UNKNOWN) for provider in chosen)


def providers_of(request: PciRequest, mappings: Mappings | None) -> tuple[str, ...] | None:
    """The providers that placement chose for a request, one for each device; empty: it is not bound to any.

    None if a group of the request has no provider at all. Ports are never bound. Without mappings, what an
    earlier placement of the same guest left in the request holds. spec: numa-and-pci 4.5
    """
    if request.is_port:
        return ()
    if not mappings:
        stored = request.alternatives[0].get("rp_uuids") if request.alternatives else None
        return tuple(stored.split(",")) if stored else ()
    if not request.request_id:
        return ()
    groups = [mappings[name] for name in mappings if name.startswith(request.request_id)]
    if not all(groups):
        return None
    return tuple(providers[0] for providers in groups)
