"""The pools of a host and the PCI requests of one guest, as plain numbers.

An offer has no provider UUIDs and no device addresses: hosts with the same hardware and the same free devices
have equal offers, so a result for one of them holds for all (spec: numa-and-pci 3.14, 4.5).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from scheduler.pci.matching import Match, match
from scheduler.pci.pools import PoolKind, PoolSet
from scheduler.pci.requests import PciRequest

UNKNOWN = -2

# Request group suffix -> the UUIDs of its providers in an allocation candidate.
Mappings = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Demand:
    """One PCI request on one host.

    Attributes:
        what: The requested devices in words.
        match: The pools that match.
        bound: The numbers of the providers that Placement chose, one for each device. Empty if Placement
            chose none; None if it chose no provider for a request group, so that no device can be consumed.
    """

    what: str
    count: int
    policy: str
    match: Match
    bound: tuple[int, ...] | None = ()


@dataclass(frozen=True)
class PciOffer:
    """The devices of a host and the demands on them.

    Attributes:
        nodes: The NUMA node of each pool, None if unknown.
        providers: The number of the provider of each pool, -1 for none.
        demands: The requests, in order.
        free_by_node: (NUMA node, free devices), sorted.
    """

    nodes: tuple[int | None, ...] = ()
    counts: tuple[int, ...] = ()
    providers: tuple[int, ...] = ()
    demands: tuple[Demand, ...] = ()
    free_by_node: tuple[tuple[int, int], ...] = ()


def make_offer(
    pools: PoolSet, requests: tuple[PciRequest, ...], mappings: Mappings | None = None
) -> PciOffer:
    """Return the offer for requests and pools; without requests it has only the free devices of each node."""
    if not requests:
        return PciOffer(free_by_node=pools.free_by_node)
    matches = _matches(pools.kinds, requests)
    demands = tuple(
        Demand(what, request.count, request.numa_policy, found, bound_providers(pools, request, mappings))
        for request, (what, found) in zip(requests, matches, strict=True)
    )
    nodes = tuple(kind.numa_node for kind in pools.kinds)
    return PciOffer(nodes, pools.counts, pools.providers, demands, pools.free_by_node)


@lru_cache(maxsize=1024)
def _matches(kinds: tuple[PoolKind, ...], requests: tuple[PciRequest, ...]) -> tuple[tuple[str, Match], ...]:
    return tuple((request.describe(), match(kinds, request)) for request in requests)


def bound_providers(pools: PoolSet, request: PciRequest, mappings: Mappings | None) -> tuple[int, ...] | None:
    """Return ``providers_of`` a request as numbers; ``UNKNOWN`` for providers of no pool of the host."""
    chosen = providers_of(request, mappings)
    if chosen is None:
        return None
    return tuple(pools.provider_index.get(provider, UNKNOWN) for provider in chosen)


def providers_of(request: PciRequest, mappings: Mappings | None) -> tuple[str, ...] | None:
    """Return the providers that Placement chose for a request (spec: numa-and-pci 4.5).

    Without mappings, the providers that an earlier placement of the guest stored in the request are used.

    Returns:
        One provider UUID for each device; empty if the request is not bound to providers, as those of ports;
        None if a group of the request has no provider.
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
