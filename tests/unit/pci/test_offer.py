import pytest

from scheduler.pci.offer import UNKNOWN, PciOffer, make_offer, providers_of
from scheduler.pci.pools import from_flat
from scheduler.pci.requests import make_request

NIC = {"vendor_id": "8086", "count": 2, "numa_node": 1}


def nic(spec=None, **members):
    return make_request(
        1, [spec or {"vendor_id": "8086"}], **{"alias_name": "nic", "request_id": "r", **members}
    )


@pytest.mark.parametrize(
    ("request_", "mappings", "providers"),
    [
        (nic(), None, ()),
        (nic(), {"": ["compute"]}, ()),
        (nic(), {"r-0": ["a", "b"], "r-1": ["a"], "s-0": ["c"]}, ("a", "a")),
        (nic(), {"r-0": []}, None),
        (nic({"rp_uuids": "a,b"}), None, ("a", "b")),
        (nic({"rp_uuids": "a,b"}), {}, ("a", "b")),
        (nic({"rp_uuids": "a"}), {"r-0": ["c"]}, ("c",)),
        (nic({"rp_uuids": "a"}, alias_name=None), {"r-0": ["c"]}, ()),
        (nic(request_id=None), {"r-0": ["c"]}, ()),
        (make_request(1, [], alias_name="nic"), None, ()),
    ],
)
def test_providers_of(request_, mappings, providers):
    assert providers_of(request_, mappings) == providers


def test_names_of_providers_do_not_matter():
    offers = {
        make_offer(from_flat([{**NIC, "rp_uuid": name}]), (nic(),), {"r-0": [name], "other": ["x"]})
        for name in "abc"
    }
    assert len(offers) == 1


def test_a_provider_that_the_host_does_not_report_is_unknown():
    assert make_offer(from_flat([NIC]), (nic(),), {"r-0": ["gone"]}).demands[0].bound == (UNKNOWN,)


def test_without_requests_only_free_devices_by_node_remain():
    assert make_offer(from_flat([NIC, NIC]), ()) == PciOffer(free_by_node=((1, 4),))
