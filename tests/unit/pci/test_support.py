import pytest

from scheduler.pci.pools import PoolSet, from_flat
from scheduler.pci.requests import make_request
from scheduler.pci.support import served, usable_candidates

POOLS = from_flat({"vendor_id": "8086", "product_id": "154d", "count": 1, "rp_uuid": name} for name in "ab")
NIC = {"vendor_id": "8086", "product_id": "154d"}
REQUEST = make_request(1, [NIC], alias_name="nic", request_id="r")
ELSEWHERE = (
    "only 0 of 1 devices free that match vendor 8086 product 154d (PCI alias nic) in the providers that "
    "Placement chose"
)
OTHER = make_request(1, [{**NIC, "physical_network": "physnet1"}])


@pytest.mark.parametrize(
    ("pools", "requests", "mappings", "left", "reason"),
    [
        (POOLS, (), None, (1, 1), ""),
        (POOLS, (REQUEST, REQUEST), None, (), ""),
        (POOLS, (REQUEST,), {"r-0": ["b"]}, (1,), ""),
        (POOLS, (REQUEST, OTHER), None, (1,), "no pool matches vendor 8086 product 154d on physnet1"),
        (PoolSet(problem="unreadable"), (REQUEST,), None, (), "unreadable"),
        (
            POOLS,
            (REQUEST,),
            {"r-0": ["c"]},
            (1, 1),
            ELSEWHERE,
        ),
    ],
)
def test_devices_are_consumed_until_a_request_is_refused(pools, requests, mappings, left, reason):
    counts, why = served(pools, requests, mappings)
    assert (pools.with_counts(counts).counts, why) == (left, reason)


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
    taken = POOLS.with_counts(served(POOLS, (REQUEST,), mappings[0])[0])
    assert not usable_candidates(taken, (REQUEST,), mappings)
