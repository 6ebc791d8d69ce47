"""Hosts that have the requested PCI devices (spec: filters-and-weighers 2.20, numa-and-pci 5.2)."""

from typing import Any

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

            def accept(index: int, mappings: list[Any]) -> list[int]:
                served = (support.served(pools[index], requests, mapping) for mapping in mappings)
                return [number for number, (_, reason) in enumerate(served) if not reason]

            return candidate_groups.narrow(hosts, reported, requests, accept)

        def reason(host: HostState) -> str:
            pools = host.pci_stats
            if pools is None:
                return "no PCI devices reported"
            _, detail = support.served(pools.known, requests)
            return "no allocation candidate satisfies the PCI requests" + (f": {detail}" if detail else "")

        return Judge(passes, reason)
