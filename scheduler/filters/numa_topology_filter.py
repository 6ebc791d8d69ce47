"""Hosts on whose NUMA cells the instance fits (spec: filters-and-weighers 2.19, numa-and-pci 5.1)."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler import objects
from scheduler.filters import candidate_groups
from scheduler.filters.base import HostFilter
from scheduler.filters.utils import extra_specs, image_property
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.numa.candidates import lacks_threads, usable_candidates
from scheduler.numa.fit import Fitter
from scheduler.numa.guest import GuestTopology, guest_topology_from
from scheduler.numa.search import SearchBudget
from scheduler.numa.topology import limits_from
from scheduler.pci.requests import requests_from


class NUMATopologyFilter(HostFilter):
    """Keeps the allocation candidates with which the instance's NUMA topology fits, and hosts with any left.

    Hosts that pass get ``limits['numa_topology']``, an ``objects.NUMATopologyLimits``, shared among them.
    Where flavor or image ask for dedicated CPUs and for thread siblings, hosts without siblings are turned
    down, even if the instance has no topology. ``[compute] packing_host_numa_cells_allocation_strategy``
    (false) orders the cells.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self.fitter = _new_fitter(conf)

    def applies(self, request: Any) -> bool:
        cpus, threads = _policies(request)
        return guest_topology_from(request.numa_topology) is not None or (
            "dedicated" in cpus and "require" in threads
        )

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        policies = _policies(request)
        topologies = hosts.coded("numa_topology")
        kept = topologies.spread(lambda topology: not lacks_threads(topology, *policies))
        guest = guest_topology_from(request.numa_topology)
        if guest is None:
            return kept
        kept &= topologies.spread(lambda topology: topology is not None)
        return self._fit(hosts, np.flatnonzero(kept).tolist(), guest, request)

    def _fit(self, hosts: HostView, indices: Sequence[int], guest: GuestTopology, request: Any) -> np.ndarray:
        requests = requests_from(request.pci_requests)
        topologies, pools = hosts.coded("numa_topology"), hosts.coded("pci_stats")
        cpu, ram = hosts.numbers("cpu_allocation_ratio"), hosts.numbers("ram_allocation_ratio")
        devices = candidate_groups.pool_traits(hosts, requests)
        columns = (topologies.codes, cpu, ram, devices)
        alike = list(zip(*(column.tolist() for column in columns), strict=True))
        kept, budget = np.zeros(len(hosts), dtype=bool), SearchBudget()
        for group in candidate_groups.groups(hosts, indices, alike, requests):
            first = group[0]
            limits = _limits(request, cpu[first], ram[first])
            mappings = candidate_groups.mappings(hosts, first)
            accepted = usable_candidates(
                self.fitter,
                topologies[first],
                guest,
                limits_from(limits),
                pools[first],
                requests,
                mappings,
                budget,
            )
            kept[group] = bool(accepted)
            candidate_groups.keep(hosts, group, accepted.indices)
            for index in group if accepted else ():
                hosts.limits(index)["numa_topology"] = limits
        return kept

    def reason(self, host: HostState, request: Any) -> str:
        topology, pci = host.numa_topology, host.pci_stats
        if lacks_threads(topology and topology.known, *_policies(request)):
            return "hyperthreads required, host has none"
        if topology is None:
            return "instance needs NUMA, host reports none"
        limits = limits_from(_limits(request, host.cpu_allocation_ratio, host.ram_allocation_ratio))
        guest, requests = guest_topology_from(request.numa_topology), requests_from(request.pci_requests)
        detail = self.fitter.fit(topology.known, guest, limits, pci and pci.known, requests).reason
        return "no allocation candidate fits the host's NUMA cells" + (f": {detail}" if detail else "")


def fitter_of(rules: Iterable[HostFilter], conf: cfg.ConfigOpts) -> Fitter:
    """The fitter of the ``NUMATopologyFilter`` among ``rules``, one of its own without: for consumption.

    What the filter has fitted need not be fitted again where the instance goes.
    """
    fitters = (rule.fitter for rule in rules if isinstance(rule, NUMATopologyFilter))
    return next(fitters, None) or _new_fitter(conf)


def _new_fitter(conf: cfg.ConfigOpts) -> Fitter:
    return Fitter(packing=conf.compute.packing_host_numa_cells_allocation_strategy)


def _policies(request: Any) -> tuple[tuple[str | None, ...], tuple[str | None, ...]]:
    """The CPU policies and the CPU thread policies of flavor and image, as they are."""
    specs = extra_specs(request)
    cpu = (specs.get("hw:cpu_policy"), image_property(request, "hw_cpu_policy"))
    return cpu, (specs.get("hw:cpu_thread_policy"), image_property(request, "hw_cpu_thread_policy"))


def _limits(request: Any, cpu_ratio: float, ram_ratio: float) -> objects.NUMATopologyLimits:
    limits = objects.NUMATopologyLimits(cpu_allocation_ratio=cpu_ratio, ram_allocation_ratio=ram_ratio)
    if "network_metadata" in request and request.network_metadata is not None:
        limits.network_metadata = request.network_metadata
    return limits
