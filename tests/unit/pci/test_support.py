import pytest

from scheduler.pci.pools import PoolSet, from_flat
from scheduler.pci.requests import make_request
from scheduler.pci.support import apply_requests, unsupported_reason, usable_candidates

POOLS = from_flat({"vendor_id": "8086", "product_id": "154d", "count": 1, "rp_uuid": name} for name in "ab")
NIC = {"vendor_id": "8086", "product_id": "154d"}
REQUEST = make_request(1, [NIC], alias_name="nic", request_id="r")
OTHER = make_request(1, [{**NIC, "physical_network": "physnet1"}])


def test_unsupported_reason_is_empty_if_all_requests_can_be_served():
    assert unsupported_reason(POOLS, ()) == ""
    assert unsupported_reason(POOLS, (REQUEST, REQUEST)) == ""
    assert unsupported_reason(POOLS, (OTHER,)) == "no pool matches vendor 8086 product 154d on physnet1"
    assert unsupported_reason(PoolSet(problem="unreadable"), (REQUEST,)) == "unreadable"
    elsewhere = "only 0 of 1 devices free that match vendor 8086 product 154d (PCI alias nic) in the providers that Placement chose"
    assert unsupported_reason(POOLS, (REQUEST,), {"r-0": ["c"]}) == elsewhere


def test_applied_requests_consume_devices_until_one_is_refused():
    done = apply_requests(POOLS, (REQUEST,), {"r-0": ["b"]})
    assert done.complete
    assert [pool.provider for pool in done.pools.pools] == ["a"]
    assert apply_requests(POOLS, ()).pools == POOLS
    half = apply_requests(POOLS, (REQUEST, OTHER))
    assert (half.complete, half.pools.counts) == (False, (1,))


@pytest.mark.parametrize(
    ("pools", "requests", "mappings", "usable"),
    [
        (POOLS, (REQUEST,), [{"r-0": ["c"]}, {"r-0": ["b"]}, {}], [1, 2]),
        (POOLS, (), [{}, None], [0, 1]),
        (PoolSet(), (REQUEST,), [{}], []),
        (PoolSet(problem="unreadable"), (REQUEST,), [{}], []),
        (PoolSet(problem="unreadable"), (), [{}], [0]),
        (POOLS, (REQUEST,), [], []),
    ],
)
def test_candidates_that_the_devices_can_serve_are_usable(pools, requests, mappings, usable):
    assert usable_candidates(pools, requests, mappings) == usable


@pytest.mark.parametrize("name", ["a", "b"])
def test_claimed_candidate_is_served_by_the_provider_it_was_accepted_for(name):
    mappings = [{"r-0": [name]}]
    assert usable_candidates(POOLS, (REQUEST,), mappings) == [0]
    taken = apply_requests(POOLS, (REQUEST,), mappings[0]).pools
    assert not usable_candidates(taken, (REQUEST,), mappings)
