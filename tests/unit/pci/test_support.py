import pytest

from scheduler.pci.pools import PoolSet, from_flat
from scheduler.pci.requests import make_request
from scheduler.pci.support import served

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


@pytest.mark.parametrize("name", ["a", "b"])
def test_claimed_candidate_is_served_by_the_provider_it_was_accepted_for(name):
    mapping = {"r-0": [name]}
    left, reason = served(POOLS, (REQUEST,), mapping)
    assert not reason
    assert served(POOLS.with_counts(left), (REQUEST,), mapping)[1]
