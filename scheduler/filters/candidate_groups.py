"""Hosts whose allocation candidates stand and fall together, for the rules on NUMA cells and PCI devices.

Candidates of different hosts name different providers, so hosts are compared by which of their own pools each
candidate takes devices from. Hosts that are alike in that, and in the other values that the rule uses, get
one verdict.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from scheduler.hosts.view import HostView
from scheduler.pci.offer import bound_providers
from scheduler.pci.pools import PoolSet
from scheduler.pci.requests import PciRequest

Requests = tuple[PciRequest, ...]

Accept = Callable[[int, list[Any]], Sequence[int]]
"""Returns the numbers of the candidates that a host can have, of those with these mappings."""


def narrow(
    hosts: HostView,
    indices: Sequence[int],
    requests: Requests,
    accept: Accept,
    traits: Sequence[Hashable] | None = None,
) -> np.ndarray:
    """Leave hosts the candidates that a rule accepts, and return which have any left.

    A rejected host keeps all: an explanation asks the other filters about it, too.

    Args:
        indices: The hosts to judge.
        requests: PCI requests, for which candidates may name providers.
        accept: Called for one host of each group.
        traits: What the rule uses besides pools and candidates, for each host of the view; None: nothing.

    Returns:
        bool, shape (hosts,); false for hosts that are not judged.
    """
    kept = np.zeros(len(hosts), dtype=bool)
    for group in _groups(hosts, indices, requests, traits or [None] * len(hosts)):
        accepted = accept(group[0], [candidate.mappings for candidate in hosts.candidates(group[0])])
        kept[group] = bool(accepted)
        for index in group if accepted else ():
            candidates = hosts.candidates(index)
            if len(accepted) < len(candidates):
                hosts.narrow(index, [candidates[number] for number in accepted])
    return kept


def _groups(
    hosts: HostView, indices: Iterable[int], requests: Requests, traits: Sequence[Hashable]
) -> Iterable[list[int]]:
    pools, devices = hosts.coded("pci_stats"), _pool_traits(hosts, requests)
    alike: dict[Hashable, list[int]] = {}
    for index in indices:
        candidates = hosts.candidates(index)
        shape = _shape(pools[index], candidates, requests) if requests else len(candidates)
        alike.setdefault((traits[index], devices[index], shape), []).append(index)
    return alike.values()


def _shape(pools: PoolSet | None, candidates: Iterable[Any], requests: Requests) -> Hashable:
    """Return for each candidate and request the pools that it is bound to."""
    if pools is None:
        return len(tuple(candidates))
    return tuple(bound_providers(pools, request, c.mappings) for c in candidates for request in requests)


def _pool_traits(hosts: HostView, requests: Requests) -> list[Hashable]:
    """Return what of each host's PCI pools decides about requests that are bound to no provider."""

    def traits(pools: PoolSet | None) -> Hashable:
        if pools is None:
            return None
        return (pools.kinds, pools.counts, pools.providers) if requests else pools.free_by_node

    return hosts.coded("pci_stats").spread(traits, object).tolist()
