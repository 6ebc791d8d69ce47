"""What Berth makes of cases of NUMA and PCI fitting, in the words of numa_pci_caller.py."""

import json
from types import SimpleNamespace

import numpy as np

from scheduler import objects
from scheduler.errors import NoValidHost
from scheduler.filters.chain import FilterChain, PreparedChain
from scheduler.filters.numa_topology_filter import NUMATopologyFilter
from scheduler.filters.pci_passthrough_filter import PciPassthroughFilter
from scheduler.numa import loading
from scheduler.numa.fit import Fitter
from scheduler.numa.guest import guest_topology_from
from scheduler.numa.topology import PinConflict, limits_from
from scheduler.numa.usage import consume
from scheduler.objects.base import WireObject
from scheduler.pci import pools as pci_pools
from scheduler.pci import support
from scheduler.pci.consumption import ChosenCells
from scheduler.pci.requests import requests_from
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Written
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.driver import FilterDriver
from scheduler.weights.amounts import PCIWeigher
from tests.builders import make_host, make_view
from tests.integration.interop.numa_pci_caller import shown_cells, shown_limits, shown_usage
from tests.unit.selection.requests import make_conf, make_spec

FILTERS = {"NUMATopologyFilter": NUMATopologyFilter, "PciPassthroughFilter": PciPassthroughFilter}
PACKING = "compute__packing_host_numa_cells_allocation_strategy"


def answer(case):
    return {"fit": fit, "support": supported, "boot": boot}[case["op"]](case)


def fit(case):
    host, guest = _topology(case["host"]), guest_topology_from(_wire(case["request"]["numa_topology"]))
    requests = requests_from(_wire(case["request"].get("pci_requests")))
    fitter, limits = Fitter(packing=case["options"]["pack_host_cells"]), limits_from(_wire(case["limits"]))
    result = fitter.fit(host, guest, limits, _pools(case["host"]), requests, case["provider_mapping"])
    assert bool(result.reason) is not bool(result)
    if not result:
        after = result.guest_after
        cells = [{"id": cell.id, "pagesize": cell.pagesize} for cell in after.cells] if after else None
        return {"fits": False, "request_after": cells}
    shown = {"fits": True, "cells": _shown_cells(result.fitted)}
    try:
        return {**shown, "usage_after": _shown_usage(consume(host, result.fitted))}
    except PinConflict:
        return {**shown, "usage_error": "CPUPinningInvalid"}


def supported(case):
    pools, topology = _pools(case["host"]), _topology(case["host"])
    requests = requests_from(_wire(case["request"]["pci_requests"]))
    chosen = ChosenCells(frozenset(case["numa_cells"] or ()), topology.sockets if topology else None)
    left, reason = support.served(pools, requests, case["provider_mapping"], chosen)
    return {"supported": not reason, "pools_after_apply": _shown_pools(pools.with_counts(left))}


def boot(case):
    """Each instance in turn, as for a request: the first of those that pass is taken."""
    conf = make_conf(**{PACKING: case["options"]["pack_host_cells"]})
    uuids = [f"i{number}" for number in range(case["count"])]
    request = SchedulingRequest.of(_request(case["request"]), uuids)
    chain = RecordingChain([FILTERS[name](conf) for name in case["filters"]], request)
    view = make_view([_host(number, host) for number, host in enumerate(case["hosts"])])
    driver = FilterDriver(conf, chain, (), Fitter(packing=case["options"]["pack_host_cells"]))
    try:
        driver.select(view, request, Granted())
        chain.close(view)
    except NoValidHost:
        pass
    return {"steps": chain.steps}


class Candidate(AllocationCandidate, frozen=True):
    """``number``: its place among the candidates of its host."""

    number: int


class Granted:
    """Claims that succeed."""

    def claim(self, candidates):
        return dict.fromkeys(candidates, Written(Outcome.DONE))

    def release(self, instance_uuid, claim):
        pass


class RecordingChain(FilterChain):
    """Notes who passes, and what the choice of the first of them has taken, for every instance."""

    def __init__(self, filters, request):
        super().__init__(filters)
        self.request = request
        self.steps = []

    def prepare(self, request):
        return _RecordingPreparedChain(super().prepare(request).rules, self)

    def note(self, hosts):
        """Note who has passed for the next instance."""
        passing = [int(row.host[1:]) for row in hosts.rows]
        self.steps.append({"passing": passing})
        if passing:
            self._note_first(hosts)

    def _note_first(self, hosts):
        left = [[one.number for one in hosts.candidates(index)] for index in range(len(hosts))]
        limits = shown_limits(hosts.limits(0).get("numa_topology"))
        self.steps[-1].update(candidates_left=left, limits=limits)

    def close(self, hosts):
        """Note the state of the host that was chosen last."""
        if not self.steps:
            return
        name = f"h{self.steps[-1]['passing'][0]}"
        index = next(index for index, row in enumerate(hosts.rows) if row.host == name)
        host = hosts.host(index)  # always as it is now; the columns of a view may be of before
        topology, pools = host.numa_topology, host.pci_stats
        guest = self.request.progress.guest
        self.steps[-1].update(
            cells=_shown_cells(guest),
            usage=_shown_usage(topology and topology.known),
            pools=_shown_pools(pools and pools.known),
            weight=int(PCIWeigher(None).amount(hosts.at(np.array([index])))[0]),
        )


class _RecordingPreparedChain(PreparedChain):
    def __init__(self, rules, record):
        super().__init__(rules)
        self.record = record

    def run(self, hosts, index=0, changed=None):
        self.record.close(hosts)
        filtered = super().run(hosts, index, changed)
        self.record.note(filtered.hosts)
        return filtered


def _host(number, host):
    candidates = (
        Candidate(f"h{number}", (f"h{number}",), {}, one["mappings"], at)
        for at, one in enumerate(host["candidates"])
    )
    return (
        make_host(f"h{number}")
        .numa(_topology(host))
        .pci(_pools(host))
        .ratios(cpu=host["cpu_allocation_ratio"], ram=host["ram_allocation_ratio"])
        .candidate(*candidates)
    )


def _topology(host):
    return loading.load_topology(_text(host["numa_topology"]))


def _pools(host):
    stored = host.get("pci_stats")
    return None if stored is None else pci_pools.load_pools(_text(stored))


def _text(primitive):
    return None if primitive is None else json.dumps(primitive)


def _wire(primitive):
    """A primitive as an object with attributes; absent members stay absent."""
    if isinstance(primitive, dict) and "nova_object.data" in primitive:
        return SimpleNamespace(
            **{name: _wire(value) for name, value in primitive["nova_object.data"].items()}
        )
    if isinstance(primitive, list):
        return [_wire(value) for value in primitive]
    return primitive


def _request(stored):
    names = ("numa_topology", "pci_requests", "network_metadata")
    members = {name: stored[name] and WireObject.obj_from_primitive(stored[name]) for name in names}
    if members["network_metadata"] is None:
        del members["network_metadata"]
    groups = stored["requested_groups"]
    if groups is not None:
        groups = [objects.RequestGroup(requester_id=group) for group in groups]
    flavor = objects.Flavor(memory_mb=1, vcpus=1, root_gb=0, ephemeral_gb=0, swap=0, **stored["flavor"])
    image = objects.ImageMeta(properties=objects.ImageMetaProps(**stored.get("image_properties", {})))
    return make_spec(flavor=flavor, image=image, requested_resources=groups, **members)


def _shown_cells(guest):
    return shown_cells(guest, pins="pins", reserved="reserved")


def _shown_usage(host):
    return shown_usage(host, pinned="pinned", pages="pages", size="size")


def _shown_pools(pools):
    return None if pools is None else [pool.flat() for pool in pools.pools]
