import pytest

from scheduler.pci.matching import Match, is_described, is_usable, match
from scheduler.pci.pools import from_flat
from scheduler.pci.requests import make_request


def kind(**keys):
    return from_flat([{"vendor_id": "8086", "count": 1, **keys}]).kinds[0]


@pytest.mark.parametrize(
    ("keys", "specs", "described"),
    [
        ({}, [{"vendor_id": "8086"}], True),
        ({"tag": "Value"}, [{"tag": "vALUE"}], True),
        ({}, [{"vendor_id": "1"}, {"vendor_id": "8086"}], True),
        ({}, [{"vendor_id": "1"}], False),
        ({}, [{}], True),
        ({}, [], False),
        ({}, [{"physical_network": None}], True),
        ({"physical_network": "a"}, [{"physical_network": None}], False),
        ({}, [{"remote_managed": "False"}], False),
        ({"remote_managed": "true"}, [{"remote_managed": "1"}], False),
        ({}, [{"resource_class": "X", "traits": "Y", "rp_uuids": "Z", "rp_uuid": "U"}], True),
        ({"numa_node": 0}, [{"numa_node": "0"}], False),
        ({"numa_node": None}, [{"numa_node": None}], True),
        ({}, [{"count": "1"}], False),
        ({}, [{"count": None}], False),
    ],
)
def test_is_described(keys, specs, described):
    assert is_described(kind(**keys), make_request(1, specs)) is described


@pytest.mark.parametrize(
    ("keys", "specs", "usable"),
    [
        ({}, [{}], True),
        ({"dev_type": "type-VF"}, [{}], True),
        ({"dev_type": "type-PF"}, [{}], False),
        ({"dev_type": "type-PF"}, [{"dev_type": "type-PF"}], True),
        ({"dev_type": "type-PF"}, [{"dev_type": "TYPE-PF"}], False),
        ({"dev_type": "type-PF"}, [{}, {"dev_type": "type-PF"}], True),
        ({"dev_type": "vdpa"}, [{"dev_type": "type-PF"}], False),
        ({"dev_type": "vdpa"}, [{"dev_type": "vdpa"}], True),
        ({"remote_managed": "true"}, [{}], False),
        ({"remote_managed": "YES"}, [{"remote_managed": "True"}], True),
        ({"remote_managed": "false"}, [{}], True),
        ({"live_migratable": "true"}, [{"live_migratable": "true"}], True),
        ({"live_migratable": "True"}, [{"live_migratable": "true"}], False),
        ({}, [{"live_migratable": "false"}], False),
        ({}, [{"live_migratable": "false"}, {}], True),
        ({"live_migratable": "true"}, [{"live_migratable": "false"}], False),
    ],
)
def test_is_usable(keys, specs, usable):
    assert is_usable(kind(**keys), make_request(1, specs)) is usable


def test_match_counts_positions():
    kinds = (kind(dev_type="type-PF"), kind(vendor_id="1"), kind())
    assert match(kinds, make_request(1, [{"vendor_id": "8086"}])) == Match((0, 2), frozenset({2}))
