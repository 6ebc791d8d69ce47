"""Hosts whose allocation candidates stand and fall together, for the rules on NUMA cells and PCI devices.

Candidates of different hosts name different providers, so hosts are compared by which of their own pools each
candidate takes devices from. Hosts that are alike in that, and in the other values that the rule uses, get
one verdict.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from scheduler.hosts.view import HostView
from scheduler.pci.offer import bound_providers
from scheduler.pci.pools import PoolSet
from scheduler.pci.requests import PciRequest

Requests = tuple[PciRequest, ...]


def groups(
    hosts: HostView, indices: Iterable[int], traits: Sequence[Hashable], requests: Requests
) -> Iterable[list[int]]:
    """Return ``indices`` of the view in groups of hosts with equal ``traits`` and like candidates.

    Args:
        traits: The other values that the rule uses, one for each host of the view.
        requests: PCI requests, for which candidates may name providers.
    """
    pools = hosts.coded("pci_stats")
    alike: dict[Hashable, list[int]] = {}
    for index in indices:
        candidates = hosts.candidates(index)
        shape = _shape(pools[index], candidates, requests) if requests else len(candidates)
        alike.setdefault((traits[index], shape), []).append(index)
    return alike.values()


def _shape(pools: PoolSet | None, candidates: Iterable[Any], requests: Requests) -> Hashable:
    """Return for each candidate and request the pools that it is bound to."""
    if pools is None:
        return len(tuple(candidates))
    return tuple(bound_providers(pools, request, c.mappings) for c in candidates for request in requests)


def pool_traits(hosts: HostView, requests: Requests) -> np.ndarray:
    """Return what of each host's PCI pools decides about requests that are bound to no provider.

    Returns:
        Hashable objects, shape (hosts,).
    """

    def traits(pools: PoolSet | None) -> Hashable:
        if pools is None:
            return None
        return (pools.kinds, pools.counts, pools.providers) if requests else pools.free_by_node

    return hosts.coded("pci_stats").spread(traits, object)


def mappings(hosts: HostView, index: int) -> list[Any]:
    """Return the mappings of a host's candidates, group suffix to provider uuids."""
    return [candidate.mappings for candidate in hosts.candidates(index)]


def keep(hosts: HostView, group: Iterable[int], accepted: Sequence[int]) -> None:
    """Leave each host of a group the accepted ones of its candidates.

    A rejected host keeps all: an explanation asks the other filters about it, too.
    """
    for index in group if accepted else ():
        candidates = hosts.candidates(index)
        if len(accepted) < len(candidates):
            hosts.narrow(index, [candidates[number] for number in accepted])
