import pytest

from scheduler.numa.candidates import lacks_threads, usable_candidates
from scheduler.numa.fit import Fitter
from scheduler.numa.search import MAX_STEPS, SearchBudget
from scheduler.numa.topology import HostTopology
from scheduler.pci.pools import from_flat
from scheduler.pci.requests import make_request
from tests.unit.numa.shapes import far_apart, guest, host, host_cell, pinned

NIC = {"vendor_id": "8086", "product_id": "154d", "count": 1}
POOLS = from_flat([{**NIC, "numa_node": node, "rp_uuid": f"rp{node}"} for node in (0, 1)])
REQUEST = make_request(1, [{"vendor_id": "8086"}], alias_name="nic", request_id="r", numa_policy="required")
TWO = host(host_cell(0), host_cell(1, cpus=1))
MAPPINGS = [{"r-0": ["rp1"]}, {"r-0": ["rp0"]}, {"": ["other"]}]


def test_keeps_the_candidates_whose_device_is_near():
    fitter = Fitter()
    found = usable_candidates(fitter, TWO, guest(pinned()), None, POOLS, (REQUEST,), MAPPINGS)
    assert found.indices == (1, 2)
    assert not found.reason


def test_reason_is_that_of_the_first_candidate():
    found = usable_candidates(Fitter(), TWO, guest(pinned()), None, POOLS, (REQUEST,), MAPPINGS[:1])
    assert (
        found.reason
        == "only 0 of 1 devices free that match vendor 8086 (PCI alias nic) in the providers that Placement chose"
    )
    assert not usable_candidates(Fitter(), TWO, guest(pinned()), None, POOLS, (REQUEST,), [])


def test_candidates_without_bound_devices_cost_one_fit():
    fitter = Fitter()
    found = usable_candidates(fitter, TWO, guest(pinned()), None, POOLS, (), [{"": [name]} for name in "abc"])
    assert found.indices == (0, 1, 2)
    assert fitter.made == 1


def test_candidates_share_the_budget_of_the_request():
    crowd, wanted, bounds = far_apart()
    budget = SearchBudget(MAX_STEPS + 1)
    found = usable_candidates(Fitter(), crowd, wanted, bounds, None, (), [{}, {}], budget)
    assert not found
    assert found.reason == "the search for 8 guest cells reached its limit of 6000 steps for one host"
    assert budget.left == 0


@pytest.mark.parametrize(
    ("topology", "cpu", "threads", "lacks"),
    [
        (host(host_cell(0)), ("dedicated", None), (None, "require"), True),
        (host(host_cell(0)), ("mixed", None), (None, "require"), False),
        (host(host_cell(0)), ("dedicated", None), ("prefer", None), False),
        (host(host_cell(0), host_cell(1, threads=2)), ("dedicated",), ("require",), False),
        (None, ("dedicated",), ("require",), False),
        (HostTopology(problem="unreadable"), ("dedicated",), ("require",), False),
    ],
)
def test_hosts_without_thread_siblings_lack_them_if_they_are_required(topology, cpu, threads, lacks):
    assert lacks_threads(topology, cpu, threads) is lacks
