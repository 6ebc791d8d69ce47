"""NUMATopologyFilter (spec: filters-and-weighers 2.19); the fit itself is tested with scheduler.numa."""

import pytest

from scheduler import objects
from scheduler.filters import numa_topology_filter
from scheduler.filters.numa_topology_filter import NUMATopologyFilter, fitter_of
from scheduler.numa.fit import Fitter
from scheduler.numa.guest import guest_topology_from
from scheduler.numa.search import SearchBudget
from scheduler.numa.topology import HostTopology, limits_from
from scheduler.numa.usage import InstanceDemand, consume_instance
from scheduler.pci.pools import from_flat
from tests.builders import make_host, make_view
from tests.unit.filters.asking import candidate, make_conf, make_request, verdicts, why
from tests.unit.numa.shapes import host as topology
from tests.unit.numa.shapes import host_cell

PLAIN = topology(host_cell(0))
DEDICATED = {"hw:cpu_policy": "dedicated"}
REQUIRE = {"hw:cpu_thread_policy": "require"}


def guest(vcpus=2):
    cell = objects.InstanceNUMACell(
        id=0, cpuset=set(), pcpuset=set(range(vcpus)), memory=512, cpu_policy="dedicated"
    )
    return objects.InstanceNUMATopology(cells=[cell])


def host(name="h", numa=PLAIN, candidates=2):
    return make_host(name).numa(numa).candidate(*(candidate() for _ in range(candidates)))


def judge(hosts, request, **overrides):
    rule, view = NUMATopologyFilter(make_conf(**overrides)), make_view(hosts)
    return verdicts(rule, view, request), view


@pytest.mark.parametrize(
    ("wants", "numa", "policies", "passes"),
    [
        (True, PLAIN, (DEDICATED | REQUIRE, {}), False),
        (False, PLAIN, (DEDICATED | REQUIRE, {}), False),
        (True, topology(host_cell(0, threads=2)), (DEDICATED | REQUIRE, {}), True),
        (True, PLAIN, (DEDICATED, {"hw_cpu_thread_policy": "require"}), False),
        (True, PLAIN, (DEDICATED | {"hw:cpu_thread_policy": "prefer"}, {}), True),
        (True, PLAIN, (REQUIRE, {}), True),
        (False, None, (DEDICATED | REQUIRE, {}), True),
        (False, PLAIN, ({"hw:cpu_policy": "mixed"} | REQUIRE, {}), True),
        (True, PLAIN, (None, None), True),
    ],
)
def test_thread_siblings_that_are_required(wants, numa, policies, passes):
    request = make_request(*policies, numa_topology=guest() if wants else None)
    assert judge([host(numa=numa)], request)[0] == [passes]


def test_an_unreadable_topology_refuses_numa_guests_only():
    broken = host(numa=HostTopology(problem="unreadable"))
    assert judge([broken], make_request(numa_topology=guest()))[0] == [False]
    assert judge([broken], make_request(DEDICATED | REQUIRE))[0] == [True]


def test_fits_for_real_and_leaves_the_request_alone():
    request = make_request(numa_topology=guest(4))
    hosts = [host("fits"), host("small", topology(host_cell(0, cpus=2))), host("none", None)]
    verdict, _ = judge(hosts, request)
    assert verdict == [True, False, False]
    assert request.spec.numa_topology.cells[0].cpu_pinning_raw is None
    assert request.progress.guest is request.guest


def asked(monkeypatch):
    """Counts how often the fit is asked."""
    calls, fit = [], numa_topology_filter.usable_candidates

    def counted(*args):
        calls.append(args)
        return fit(*args)

    monkeypatch.setattr(numa_topology_filter, "usable_candidates", counted)
    return calls


def test_hosts_that_are_alike_cost_one_question(monkeypatch):
    calls = asked(monkeypatch)
    other = topology(host_cell(0, cpus=8))
    hosts = [host(f"h{number}", PLAIN if number % 2 else other) for number in range(10)]
    assert judge(hosts, make_request(numa_topology=guest()))[0] == [True] * 10
    assert len(calls) == 2


def test_all_hosts_of_a_request_share_one_search_budget(monkeypatch):
    calls = asked(monkeypatch)
    judge([host("a"), host("b", topology(host_cell(0, cpus=8)))], make_request(numa_topology=guest()))
    budgets = [call[7] for call in calls]
    assert budgets[0] is budgets[1]
    assert isinstance(budgets[0], SearchBudget)


def nic(**fields):
    given = {"count": 1, "spec": [{"vendor_id": "8086"}], "alias_name": "nic", "request_id": "r", **fields}
    return objects.InstancePCIRequests(requests=[objects.InstancePCIRequest(**given)])


def with_nics(name):
    """A host of two cells, of which only the first has CPUs to spare; a device on each."""
    flat = {"vendor_id": "8086", "product_id": "1", "count": 1}
    pools = from_flat([{**flat, "numa_node": node, "rp_uuid": f"{name}-{node}"} for node in (0, 1)])
    busy = topology(host_cell(0), host_cell(1, cpus=1))
    bound = (candidate(r0=[f"{name}-1"]), candidate(r0=[f"{name}-0"]))
    return make_host(name).numa(busy).pci(pools).candidate(*bound)


def test_candidates_bound_to_devices_are_judged_one_by_one(monkeypatch):
    calls = asked(monkeypatch)
    request = make_request(numa_topology=guest(), pci_requests=nic(numa_policy="required"))
    hosts = [with_nics("a"), with_nics("b")]
    verdict, view = judge(hosts, request)
    assert verdict == [True, True]
    assert [c.mappings for c in view.candidates(0)] == [{"r0": ["a-0"]}]
    assert [c.mappings for c in view.candidates(1)] == [{"r0": ["b-0"]}]
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("numa", "specs", "reason"),
    [
        (PLAIN, DEDICATED | REQUIRE, "hyperthreads required, host has none"),
        (None, {}, "instance needs NUMA, host reports none"),
        (topology(host_cell(0, cpus=1)), {}, "no allocation candidate fits the host's NUMA cells: "),
    ],
)
def test_reasons(numa, specs, reason):
    request = make_request(specs, numa_topology=guest())
    assert why(NUMATopologyFilter, host(numa=numa), request).startswith(reason)


def test_what_the_filter_fitted_is_not_fitted_again_when_it_is_taken():
    conf, view = make_conf(), make_view([host(candidates=1)])
    rule, request = NUMATopologyFilter(conf), make_request(numa_topology=guest())
    assert all(verdicts(rule, view, request))
    made, limits = rule.fitter.made, limits_from(view.limits(0)["numa_topology"])
    wanted = request.guest
    demand = InstanceDemand(wanted, limits, (), {})
    taken = consume_instance(fitter_of([rule], conf), PLAIN, view.coded("pci_stats")[0], demand)
    assert taken.host != PLAIN
    assert rule.fitter.made == made


def test_without_the_filter_the_fitter_heeds_the_option_as_well():
    conf = make_conf(compute__packing_host_numa_cells_allocation_strategy=True)
    fuller = topology(host_cell(0), host_cell(1, pinned=frozenset({100})))
    wanted = guest_topology_from(guest())
    chosen = [each.fit(fuller, wanted).fitted.cell_ids for each in (fitter_of([], conf), Fitter())]
    assert chosen == [{1}, {0}]
