"""Hosts on whose NUMA cells the instance fits (spec: filters-and-weighers 2.19, numa-and-pci 5.1)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler import objects
from scheduler.filters import candidate_groups
from scheduler.filters.base import HostFilter, Judge
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter, usable_candidates
from scheduler.numa.guest import DEDICATED, REQUIRE, GuestTopology
from scheduler.numa.search import SearchBudget
from scheduler.numa.topology import HostTopology, Limits, limits_from
from scheduler.request.reading import read
from scheduler.request.scheduling_request import SchedulingRequest

NO_THREADS = "hyperthreads required, host has none"


class NUMATopologyFilter(HostFilter):
    """Keeps the allocation candidates with which the instance's NUMA topology fits, and hosts with any left.

    Hosts that pass get ``limits['numa_topology']``, an ``objects.NUMATopologyLimits``, shared among them.
    Where flavor or image request dedicated CPUs and thread siblings, hosts without siblings are rejected,
    even if the instance has no topology. ``[compute] packing_host_numa_cells_allocation_strategy`` (false)
    orders the cells.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self.fitter = _new_fitter(conf)

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        """Return a judge of NUMA cells, or for a guest without a topology of thread siblings alone."""
        wants_threads = _wants_threads(request)
        if request.guest is not None:
            return _FitsCells(wants_threads, self.fitter, request, read(request.spec, "network_metadata"))
        if not wants_threads:
            return None
        return Judge(
            lambda hosts: ~hosts.coded("numa_topology").spread(_lacks_threads), lambda _host: NO_THREADS
        )


@dataclass(frozen=True)
class _FitsCells(Judge):
    """Judges for an instance with NUMA topology; each starts from what the fit for the one before left."""

    wants_threads: bool
    fitter: Fitter
    request: SchedulingRequest
    network_metadata: objects.NetworkMetadata | None

    def passes(self, hosts: HostView) -> np.ndarray:
        topologies = hosts.coded("numa_topology")
        kept = topologies.spread(lambda topology: not (self.wants_threads and _lacks_threads(topology)))
        guest = self.request.progress.guest
        if guest is None:  # the fit for an earlier instance left none
            return kept
        kept &= topologies.spread(lambda topology: topology is not None)
        return self._fit(hosts, np.flatnonzero(kept).tolist(), guest)

    def _fit(self, hosts: HostView, indices: Sequence[int], guest: GuestTopology) -> np.ndarray:
        topologies, pools = hosts.coded("numa_topology"), hosts.coded("pci_stats")
        requests = self.request.pci_requests or ()
        cpu, ram = (hosts.numbers(f"{name}_allocation_ratio").tolist() for name in ("cpu", "ram"))
        alike = list(zip(topologies.codes.tolist(), cpu, ram, strict=True))
        limits_of, budget = cache(self._limits), SearchBudget()

        def accept(index: int, mappings: list[Any]) -> list[int]:
            _, limits = limits_of(cpu[index], ram[index])
            return usable_candidates(
                self.fitter, topologies[index], guest, limits, pools[index], requests, mappings, budget
            )

        kept = candidate_groups.narrow(hosts, indices, requests, accept, alike)
        for index in np.flatnonzero(kept).tolist():
            hosts.limits(index)["numa_topology"], _ = limits_of(cpu[index], ram[index])
        return kept

    def reason(self, host: HostState) -> str:
        topology = host.numa_topology
        if topology is None:
            return "instance needs NUMA, host reports none"
        if self.wants_threads and _lacks_threads(topology.known):
            return NO_THREADS
        _, limits = self._limits(host.cpu_allocation_ratio, host.ram_allocation_ratio)
        pools = host.pci_stats.known if host.pci_stats else None
        # Without a topology no host is rejected for its cells: this one was rejected before it was dropped.
        guest = self.request.progress.guest or self.request.guest
        requests = self.request.pci_requests or ()
        detail = self.fitter.fit(topology.known, guest, limits, pools, requests).reason
        return "no allocation candidate fits the host's NUMA cells" + (f": {detail}" if detail else "")

    def _limits(self, cpu_ratio: float, ram_ratio: float) -> tuple[objects.NUMATopologyLimits, Limits | None]:
        """Return the limits of a host as an object, and as the plain value that a fit takes."""
        networks = {} if self.network_metadata is None else {"network_metadata": self.network_metadata}
        limits = objects.NUMATopologyLimits(
            cpu_allocation_ratio=cpu_ratio, ram_allocation_ratio=ram_ratio, **networks
        )
        return limits, limits_from(limits)


def fitter_of(rules: Iterable[HostFilter], conf: cfg.ConfigOpts) -> Fitter:
    """Return the fitter of the ``NUMATopologyFilter`` among ``rules``, a new one if it is not enabled.

    Consumption uses it: what the filter has fitted need not be fitted again for the chosen host.
    """
    fitters = (rule.fitter for rule in rules if isinstance(rule, NUMATopologyFilter))
    return next(fitters, None) or _new_fitter(conf)


def _lacks_threads(topology: HostTopology | None) -> bool:
    """Return whether no core of a host has thread siblings; not known of hosts without a topology."""
    return topology is not None and bool(topology.cells) and not topology.has_threads


def _wants_threads(request: SchedulingRequest) -> bool:
    """Return whether flavor and image, taken together, request dedicated CPUs on thread siblings."""
    specs, image = request.extra_specs, request.image_property
    return DEDICATED in (specs.get("hw:cpu_policy"), image("hw_cpu_policy")) and REQUIRE in (
        specs.get("hw:cpu_thread_policy"),
        image("hw_cpu_thread_policy"),
    )


def _new_fitter(conf: cfg.ConfigOpts) -> Fitter:
    return Fitter(packing=conf.compute.packing_host_numa_cells_allocation_strategy)
