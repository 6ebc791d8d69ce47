import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.objects.base import Malformed
from scheduler.pci.pools import PoolSet, from_flat, load_pools, parse_pools
from tests.support.wire_examples import envelope

NIC = {"vendor_id": "8086", "product_id": "154d"}


def stored(*pools, **more):
    objects = [envelope("PciDevicePool", pool, "1.1") for pool in pools]
    return json.dumps(envelope("PciDevicePoolList", {"objects": objects}, "1.1", **more))


def pool(**changes):
    return {**NIC, "numa_node": 0, "count": 1, "tags": {}, **changes}


def test_least_described_come_first_and_ties_keep_their_order():
    loaded = parse_pools(
        stored(pool(tags={"a": "1"}), pool(count=2), pool(count=3), pool(tags={}, numa_node=None))
    )
    assert loaded.counts == (2, 3, 1, 1)
    assert [p.kind.numa_node for p in loaded.pools] == [0, 0, None, 0]
    assert loaded.free_devices == 7
    assert loaded.free_by_node == ((0, 6),)


def test_hosts_that_differ_in_providers_have_equal_kinds():
    one, two = (
        parse_pools(stored(pool(tags={"rp_uuid": name}), pool(tags={"rp_uuid": "z"}))) for name in "ab"
    )
    assert one != two
    assert one.kinds == two.kinds
    assert one.providers == two.providers == (0, 1)
    assert one.pools[0].flat() == {**NIC, "numa_node": 0, "count": 1, "rp_uuid": "a"}


def test_equal_content_is_equal_and_hashes_alike():
    one, two = parse_pools(stored(pool())), parse_pools(stored({**pool(), "unknown": 1}))
    assert one == two
    assert hash(one) == hash(two)


def test_counts_change_and_empty_pools_leave():
    pools = from_flat([{**NIC, "count": 2}, {**NIC, "count": 1}, {**NIC, "count": 0}])
    assert pools.with_counts([1, None, 0]).counts == (1, 0)


@pytest.mark.parametrize("text", [None, "", "null", "[]", "{}", "0", '""', "{oops", '"\ud800"'])
def test_missing_and_empty_texts_mean_no_pools(text):
    assert parse_pools(text) == PoolSet()


@pytest.mark.parametrize(
    ("text", "flat"),
    [
        (
            json.dumps([{**NIC, "count": 2, "label": "x"}, {**NIC, "count": 7, "numa_node": 1}]),
            [{"numa_node": 1, "count": 7}, {"numa_node": None, "count": 2, "label": "x"}],
        ),
        (json.dumps({**NIC, "count": 2}), [{"numa_node": None, "count": 2}]),
        (stored({**NIC, "tags": {}, "count": 1}), [{"count": 1}]),
        (stored({**NIC, "numa_node": None, "count": 1}), [{"numa_node": None, "count": 1}]),
        (
            stored(pool(count="4", tags={"lane": 8, "empty": None})),
            [{"numa_node": 0, "count": 4, "lane": "8", "empty": None}],
        ),
    ],
    ids=["a list of maps", "a map", "no numa_node", "no tags", "numbers and texts"],
)
def test_older_forms_are_read(text, flat):
    assert [one.flat() for one in parse_pools(text).pools] == [{**NIC, **one} for one in flat]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("7", "neither a list of pools nor a pool"),
        ("true", "neither a list of pools nor a pool"),
        ("false", "neither a list of pools nor a pool"),
        ("[7]", "neither a list of pools nor a pool"),
        ('{"vendor_id": "1", "product_id": "2"}', "a pool without count"),
        ('{"vendor_id": null, "product_id": "2", "count": 1}', "vendor_id is null"),
        ('{"vendor_id": "1", "product_id": "2", "count": 1, "tag": []}', "'tag' is not a text"),
        (stored(**{"nova_object.version": "1.2"}), "PciDevicePoolList of unknown version '1.2'"),
        (stored(**{"nova_object.name": "Other"}), "there is no PciDevicePoolList where one belongs"),
        (stored(**{"nova_object.data": None}), "PciDevicePoolList without data"),
        (stored(**{"nova_object.data": {"objects": None}}), "the list of pools is not a list"),
        (stored(pool(tags=None)), "the tags of a pool are not a map"),
        (stored(NIC), "count is not a number: None"),
        (stored(pool(count=None)), "count is not a number: None"),
        (stored(pool(count=-1)), "count is -1"),
        (stored(pool(count=1e300)), "count is out of range"),
        (stored(pool(count="x" * 4000)), f"count is not a number: '{'x' * 39}"),
        (stored(pool(count=1.5)), "count is not a whole number: 1.5"),
        (stored(pool(numa_node="left")), "numa_node is not a number: 'left'"),
    ],
)
def test_malformed_texts_are_refused_with_a_reason(text, reason):
    with pytest.raises(Malformed) as error:
        parse_pools(text)
    assert str(error.value) == reason
    assert load_pools(text) == PoolSet(problem=f"PCI device pools cannot be read: {reason}")


KEYS = st.sampled_from(
    ("vendor_id", "product_id", "count", "tags", "nova_object.name", "nova_object.data", "x")
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)


@given(
    st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner), max_leaves=12
    )
)
def test_any_json_is_read_or_refused(value):
    assert isinstance(load_pools(json.dumps(value)), PoolSet)


@given(st.text())
def test_any_text_is_read_or_refused(text):
    assert isinstance(load_pools(text), PoolSet)
