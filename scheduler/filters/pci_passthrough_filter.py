"""Hosts that have the requested PCI devices (spec: filters-and-weighers 2.20, numa-and-pci 5.2)."""

import numpy as np

from scheduler.filters import candidate_groups
from scheduler.filters.base import HostFilter, Judge
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.pci import support
from scheduler.request.scheduling_request import SchedulingRequest


class PciPassthroughFilter(HostFilter):
    """Keeps the allocation candidates that the free devices can serve, and hosts with any left.

    The NUMA cells of the devices are judged by ``NUMATopologyFilter``.
    """

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        requests = request.pci_requests
        if not requests:
            return None

        def passes(hosts: HostView) -> np.ndarray:
            pools = hosts.coded("pci_stats")
            reported = np.flatnonzero(pools.spread(lambda value: value is not None)).tolist()
            alike = candidate_groups.pool_traits(hosts, requests)
            kept = np.zeros(len(hosts), dtype=bool)
            for group in candidate_groups.groups(hosts, reported, alike.tolist(), requests):
                mappings = candidate_groups.mappings(hosts, group[0])
                accepted = support.usable_candidates(pools[group[0]], requests, mappings)
                kept[group] = bool(accepted)
                candidate_groups.keep(hosts, group, accepted)
            return kept

        def reason(host: HostState) -> str:
            pools = host.pci_stats
            if pools is None:
                return "no PCI devices reported"
            _, detail = support.served(pools.known, requests)
            return "no allocation candidate satisfies the PCI requests" + (f": {detail}" if detail else "")

        return Judge(passes, reason)
