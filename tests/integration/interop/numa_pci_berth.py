"""What Berth makes of cases of NUMA and PCI fitting, in the words of numa_pci_caller.py."""

import numpy as np

from scheduler import objects
from scheduler.errors import NoValidHost
from scheduler.filters.chain import FilterChain, PreparedChain
from scheduler.filters.numa_topology_filter import NUMATopologyFilter
from scheduler.filters.pci_passthrough_filter import PciPassthroughFilter
from scheduler.numa import loading
from scheduler.numa.fit import Fitter
from scheduler.objects.base import WireObject
from scheduler.pci import pools as pci_pools
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Written
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.driver import FilterDriver
from scheduler.weights.amounts import PCIWeigher
from tests.builders import make_host, make_view
from tests.golden import replay
from tests.unit.selection.requests import make_conf, make_spec

FILTERS = {"NUMATopologyFilter": NUMATopologyFilter, "PciPassthroughFilter": PciPassthroughFilter}
PACKING = "compute__packing_host_numa_cells_allocation_strategy"


def answer(case):
    if case["op"] == "fit":
        return replay.run_fit(case)[2]
    return replay.run_support(case) if case["op"] == "support" else boot(case)


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
        limits = _shown_limits(hosts.limits(0).get("numa_topology"))
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
            cells=replay.shown_cells(guest),
            usage=replay.shown_usage(topology and topology.known),
            pools=replay.shown_pools(pools and pools.known),
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
    pools = host["pci_stats"]
    candidates = (
        Candidate(f"h{number}", (f"h{number}",), {}, one["mappings"], at)
        for at, one in enumerate(host["candidates"])
    )
    return (
        make_host(f"h{number}")
        .numa(loading.load_topology(replay.text(host["numa_topology"])))
        .pci(None if pools is None else pci_pools.load_pools(replay.text(pools)))
        .ratios(cpu=host["cpu_allocation_ratio"], ram=host["ram_allocation_ratio"])
        .candidate(*candidates)
    )


def _request(stored):
    names = ("numa_topology", "pci_requests", "network_metadata")
    members = {name: stored[name] and WireObject.obj_from_primitive(stored[name]) for name in names}
    if members["network_metadata"] is None:
        del members["network_metadata"]
    groups = stored["requested_groups"]
    if groups is not None:
        groups = [objects.RequestGroup(requester_id=group) for group in groups]
    flavor = objects.Flavor(memory_mb=1, vcpus=1, root_gb=0, ephemeral_gb=0, swap=0, **stored["flavor"])
    return make_spec(flavor=flavor, requested_resources=groups, **members)


def _shown_limits(limits):
    if limits is None:
        return None
    shown = {name: getattr(limits, f"{name}_allocation_ratio") for name in ("cpu", "ram")}
    if "network_metadata" in limits:
        network = limits.network_metadata
        shown["physnets"] = sorted(network.physnets) if "physnets" in network else []
        shown["tunneled"] = "tunneled" in network and network.tunneled
    return shown
