from types import SimpleNamespace

import pytest

from scheduler.pci.requests import PciRequest, make_request, requests_from
from tests.unit.numa.shapes import Unset


@pytest.mark.parametrize("obj", [None, Unset(), SimpleNamespace(requests=[])])
def test_missing_and_empty_objects_mean_no_requests(obj):
    assert requests_from(obj) == ()


def test_unset_fields_read_as_null():
    (found,) = requests_from(Unset(requests=[Unset(count=1, spec=[{"physical_network": None}])]))
    assert found == PciRequest(1, ((("physical_network", None),),))
    assert found.is_port
    assert found.numa_policy == "legacy"


def test_request_of_a_flavor_alias_keeps_all_its_fields():
    wire = Unset(count=2, spec=[{"b": "2", "a": "1"}], alias_name="gpu", request_id="r", numa_policy="socket")
    (found,) = requests_from(Unset(requests=[wire]))
    assert found == PciRequest(2, ((("a", "1"), ("b", "2")),), "gpu", "r", "socket")
    assert not found.is_port
    assert hash(found) == hash(
        make_request(2, [{"a": "1", "b": "2"}], alias_name="gpu", request_id="r", numa_policy="socket")
    )


@pytest.mark.parametrize(
    ("specs", "words"),
    [
        (
            [{"vendor_id": "8086", "product_id": "154d", "physical_network": "physnet1"}],
            "vendor 8086 product 154d on physnet1",
        ),
        ([{"physical_network": None, "rp_uuids": "x"}], "on no physical network"),
        ([{"dev_type": "type-PF"}, {"trusted": "True"}], "type type-PF or trusted=True"),
        ([{}], "any device"),
        ([], "nothing at all"),
        ([{}] * 4, "any device or any device or any device or ..."),
    ],
)
def test_description_names_the_alternatives(specs, words):
    assert make_request(1, specs).describe() == words
