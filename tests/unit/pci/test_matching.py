import pytest

from scheduler.pci.matching import Match, is_described, is_usable, match
from scheduler.pci.pools import from_flat
from scheduler.pci.requests import make_request


def kind(**keys):
    return from_flat([{"vendor_id": "8086", "count": 1, **keys}]).kinds[0]


@pytest.mark.parametrize("spec", [{"count": "1"}, {"count": None}, {"numa_node": "0"}], ids=str)
def test_amounts_and_nodes_are_no_texts_to_compare(spec):
    assert not is_described(kind(numa_node=0), make_request(1, [spec]))


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
