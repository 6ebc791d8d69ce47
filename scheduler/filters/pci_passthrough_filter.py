"""Hosts that have the PCI devices asked for (spec: filters-and-weighers 2.20, numa-and-pci 5.2)."""

from typing import Any

import numpy as np

from scheduler.filters import candidate_groups
from scheduler.filters.base import HostFilter
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.pci import support
from scheduler.pci.requests import requests_from


class PciPassthroughFilter(HostFilter):
    """Keeps the allocation candidates that the free devices can serve, and hosts with any left.

    NUMA cells of devices are the business of ``NUMATopologyFilter``.
    """

    def applies(self, request: Any) -> bool:
        return bool(requests_from(request.pci_requests))

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        requests = requests_from(request.pci_requests)
        pools = hosts.coded("pci_stats")
        reported = np.flatnonzero(pools.spread(lambda value: value is not None)).tolist()
        alike = candidate_groups.pool_traits(hosts, requests)
        kept = np.zeros(len(hosts), dtype=bool)
        for group in candidate_groups.groups(hosts, reported, alike, requests):
            mappings = candidate_groups.mappings(hosts, group[0])
            accepted = support.usable_candidates(pools[group[0]], requests, mappings)
            kept[group] = bool(accepted)
            candidate_groups.keep(hosts, group, accepted.indices)
        return kept

    def reason(self, host: HostState, request: Any) -> str:
        if host.pci_stats is None:
            return "no PCI devices reported"
        detail = support.unsupported_reason(host.pci_stats.known, requests_from(request.pci_requests))
        return "no allocation candidate satisfies the PCI requests" + (f": {detail}" if detail else "")
