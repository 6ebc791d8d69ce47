from dataclasses import replace

from hypothesis import given
import pytest

from scheduler.numa.fit import Fitter, fit, usable_candidates
from scheduler.numa.guest import GuestTopology
from scheduler.numa.search import MAX_STEPS, MIN_STEPS, SearchBudget
from scheduler.numa.topology import HostTopology, Limits, NumaNetworks
from scheduler.pci.offer import make_offer
from scheduler.pci.pools import PoolSet, from_flat
from scheduler.pci.requests import make_request
from tests.unit.numa.shapes import far_apart, floating, guest, guests, host, host_cell, hosts, limits, pinned

NIC = {"vendor_id": "8086", "product_id": "154d"}


@given(hosts(), guests(), limits())
def test_equal_inputs_give_equal_outputs(topology, wanted, bounds):
    again = HostTopology(tuple(topology.cells))
    assert hash(again) == hash(topology)
    found = fit(topology, wanted, bounds)
    found_again = fit(again, GuestTopology(wanted.cells, wanted.isolated_emulator), bounds)
    assert found == found_again
    assert found.reason == found_again.reason
    assert bool(found) != bool(found.reason)


TWO = host(host_cell(0), host_cell(1))
UNREADABLE = HostTopology(problem="NUMA topology cannot be read: it is not JSON")
TIED = host(
    host_cell(0, network=NumaNetworks(frozenset({"a"}))), host_cell(1, network=NumaNetworks(frozenset({"b"})))
)


@pytest.mark.parametrize(
    ("topology", "wanted", "bounds", "reason"),
    [
        (None, guest(pinned()), None, "the host has no NUMA topology"),
        (UNREADABLE, guest(pinned()), None, "NUMA topology cannot be read: it is not JSON"),
        (TWO, None, None, "the guest has no NUMA topology"),
        (TWO, guest(pinned(0), pinned(1), pinned(2)), None, "3 NUMA cells wanted, the host has 2"),
        (
            TWO,
            guest(pinned(0, 8, 4096, pagesize=2048), pinned(1, 8, 4096, pagesize=2048)),
            None,
            (
                "no NUMA cell pair with 8 free dedicated CPUs and 4096 MiB of 2 MiB pages"
                " (cell 0: 2048 MiB in 2 MiB pages free; cell 1: 2048 MiB in 2 MiB pages free)"
            ),
        ),
        (
            host(host_cell(0, pinned=frozenset({0, 1, 2}))),
            guest(pinned(vcpus=2)),
            None,
            "no NUMA cell with 2 free dedicated CPUs and 512 MiB (cell 0: free dedicated CPUs: 1)",
        ),
        (
            TWO,
            guest(pinned(thread_policy="require", pagesize=-2)),
            None,
            (
                "no NUMA cell with 2 free dedicated CPUs on thread siblings and 512 MiB of large pages"
                " (cell 0: free dedicated CPUs: 4, but not on suitable cores; cell 1: free dedicated CPUs: 4, but not on"
                " suitable cores)"
            ),
        ),
        (
            TWO,
            guest(pinned(0), pinned(1, vcpus=5)),
            None,
            (
                "no NUMA cell for guest cell 1 with 5 free dedicated CPUs and 512 MiB"
                " (cell 0: 4 dedicated CPUs; cell 1: 4 dedicated CPUs)"
            ),
        ),
        (
            host(host_cell(0), host_cell(1, cpus=1)),
            guest(pinned(0, vcpus=3), pinned(1, vcpus=2)),
            None,
            "each of the 2 guest cells fits a NUMA cell of the host, but not all together",
        ),
        (
            host(host_cell(0, cpuset=frozenset({50, 51}), cpu_usage=7)),
            guest(floating()),
            Limits(4.0, 1.0),
            "no NUMA cell with 2 shared CPUs and 512 MiB (cell 0: 7 of 2 shared CPUs used, allocation ratio 4)",
        ),
        (
            host(host_cell(0, cpuset=frozenset({50, 51}), memory_usage=6000)),
            guest(floating()),
            Limits(4.0, 1.0),
            "no NUMA cell with 2 shared CPUs and 512 MiB (cell 0: 6000 of 6144 MiB used, allocation ratio 1)",
        ),
        (
            host(host_cell(0, pages=(), memory_usage=6000)),
            guest(pinned()),
            None,
            "no NUMA cell with 2 free dedicated CPUs and 512 MiB (cell 0: 144 of 6144 MiB free)",
        ),
        (
            host(host_cell(0, pages=())),
            guest(pinned(pagesize=1 << 20)),
            None,
            "no NUMA cell with 2 free dedicated CPUs and 512 MiB of 1 GiB pages (cell 0: no such pages free)",
        ),
        (
            TIED,
            guest(pinned()),
            Limits(1.0, 1.0, NumaNetworks(frozenset({"a", "b"}))),
            "no NUMA cells near all networks of the guest have room for it",
        ),
    ],
)
def test_reason_says_what_the_host_lacks(topology, wanted, bounds, reason):
    assert fit(topology, wanted, bounds).reason == reason


def test_reason_shows_only_the_first_cells_of_many():
    crowd = host(*(host_cell(number, cpus=1) for number in range(6)))
    assert fit(crowd, guest(pinned())).reason.endswith("cell 3: 1 dedicated CPUs; and 2 more)")


def test_reason_of_a_search_that_was_cut_short():
    reason = fit(*far_apart()).reason
    assert reason == "the search for 8 guest cells reached its limit of 6000 steps for one host"


def test_reason_for_missing_devices_names_them_and_the_cells():
    pools = from_flat([{**NIC, "numa_node": 1, "count": 1}])
    wanted = make_request(1, [{**NIC, "physical_network": "physnet1"}], alias_name="nic")
    assert fit(TWO, guest(pinned()), None, make_offer(pools, (wanted,))).reason == (
        "no pool matches vendor 8086 product 154d on physnet1 (PCI alias nic)"
    )
    far = make_request(1, [NIC], alias_name="nic", numa_policy="required")
    crowded = host(host_cell(0), host_cell(1, cpus=1))
    assert fit(crowded, guest(pinned()), None, make_offer(pools, (far,))).reason == (
        "only 0 of 1 devices free that match vendor 8086 product 154d (PCI alias nic) for NUMA policy required on NUMA cell 0"
    )


def test_unreadable_pools_refuse_only_guests_with_pci_requests():
    unreadable, request = PoolSet(problem="unreadable"), make_request(1, [NIC], alias_name="nic")
    assert Fitter().fit(TWO, guest(pinned()), None, unreadable, (request,)).reason == "unreadable"
    assert Fitter().fit(TWO, guest(pinned()), None, unreadable)


def test_hosts_in_equal_states_cost_one_fit():
    states = [host(host_cell(0, memory_usage=state), host_cell(1)) for state in range(5)]
    fitter, pools = Fitter(), from_flat([{**NIC, "numa_node": 0, "count": 2}])
    request = make_request(1, [NIC], alias_name="nic")
    for number in range(50):
        same = HostTopology(states[number % 5].cells)
        assert fitter.fit(same, guest(pinned()), None, pools, (request,))
    assert fitter.made == 5


def test_hosts_that_differ_in_provider_names_only_cost_one_fit():
    fitter, request = Fitter(), make_request(1, [NIC], alias_name="nic", request_id="r")
    for name in ("one", "two"):
        pools = from_flat([{**NIC, "numa_node": 0, "count": 1, "rp_uuid": name}])
        assert fitter.fit(TWO, guest(pinned()), None, pools, (request,), {"r-0": [name]})
    assert fitter.made == 1


def test_number_of_cached_fits_is_bounded():
    fitter = Fitter(max_cached=2)
    for number in range(3):
        fitter.fit(host(host_cell(0, memory_usage=number)), guest(pinned()))
    fitter.fit(host(host_cell(0, memory_usage=0)), guest(pinned()))
    assert fitter.made == 4


def test_all_hosts_of_a_request_share_one_budget():
    crowd, wanted, bounds = far_apart()
    budget, fitter = SearchBudget(3 * MAX_STEPS), Fitter()
    found = []
    for number in range(5):
        different = HostTopology((*crowd.cells[:-1], replace(crowd.cells[-1], memory_usage=number)))
        found.append(fitter.fit(different, wanted, bounds, budget=budget))
    assert not any(found)
    assert [each.failure.steps for each in found] == [MAX_STEPS] * 3 + [MIN_STEPS] * 2
    assert budget.left == 0
    assert found[2].reason == "the search for 8 guest cells reached its limit of 6000 steps for one host"
    assert found[3].reason == (
        "the search for 8 guest cells ended after 100 steps on this host:"
        " the request has used up the steps for all its hosts"
    )


def test_hosts_that_need_no_long_search_are_found_without_budget():
    assert Fitter().fit(TWO, guest(pinned(0), pinned(1)), budget=SearchBudget(0))
    crowd = host(*(host_cell(number) for number in range(16)))
    alike = guest(*(pinned(number) for number in range(8)))
    unlike = guest(*(pinned(number, memory=512 + 4 * number) for number in range(8)))
    assert Fitter().fit(crowd, alike, budget=SearchBudget(0))
    assert Fitter().fit(crowd, unlike, budget=SearchBudget(0))


def test_fits_that_the_budget_of_a_request_cut_short_are_not_cached():
    crowd, wanted, bounds = far_apart()
    fitter = Fitter()
    for number, (budget, made) in enumerate(
        [(SearchBudget(0), 1), (SearchBudget(), 2), (SearchBudget(), 2), (SearchBudget(0), 2)]
    ):
        fitter.fit(crowd, wanted, bounds, budget=budget)
        assert fitter.made == made, f"fit {number}"


def test_cached_fits_cost_no_steps():
    crowd, wanted, bounds = far_apart()
    fitter, budget = Fitter(), SearchBudget(MAX_STEPS + 1)
    for _ in range(3):
        fitter.fit(crowd, wanted, bounds, budget=budget)
    assert budget.left == 1


UNEVEN = host(host_cell(0), host_cell(1, cpus=1))
POOLS = from_flat([{**NIC, "count": 1, "numa_node": node, "rp_uuid": f"rp{node}"} for node in (0, 1)])
NEAR = make_request(1, [{"vendor_id": "8086"}], alias_name="nic", request_id="r", numa_policy="required")


def test_candidates_are_usable_whose_device_is_near():
    mappings = [{"r-0": ["rp1"]}, {"r-0": ["rp0"]}, {"": ["other"]}]
    assert usable_candidates(Fitter(), UNEVEN, guest(pinned()), None, POOLS, (NEAR,), mappings) == [1, 2]
    assert usable_candidates(Fitter(), UNEVEN, guest(pinned()), None, POOLS, (NEAR,), []) == []


def test_candidates_without_bound_devices_cost_one_fit():
    fitter, mappings = Fitter(), [{"": [name]} for name in "abc"]
    assert usable_candidates(fitter, UNEVEN, guest(pinned()), None, POOLS, (), mappings) == [0, 1, 2]
    assert fitter.made == 1


def test_candidates_share_the_budget_of_the_request():
    crowd, wanted, bounds = far_apart()
    budget = SearchBudget(MAX_STEPS + 1)
    assert usable_candidates(Fitter(), crowd, wanted, bounds, None, (), [{}, {}], budget) == []
    assert budget.left == 0
