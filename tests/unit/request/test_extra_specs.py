from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from scheduler.request import extra_specs
from scheduler.request.groups import Group, ResourceRequest


def scan(specs):
    request = ResourceRequest()
    extra_specs.scan(specs, request)
    return request


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("resources:vcpu", "2"),
        ("resources:NO_SUCH_CLASS", "2"),
        ("resources:", "2"),
        ("resources:VCPU", "2.5"),
        ("resources:VCPU", "-1"),
        ("resources:VCPU", ""),
        ("trait:HW_X", "Required"),
        ("trait:HW_X", ""),
        ("group_policy", "Isolate"),
    ],
)
def test_malformed_is_warned_of_and_left_out(key, value, caplog):
    request = scan({key: value})
    request.prune()
    assert request == ResourceRequest()
    assert key in caplog.text


def test_a_malformed_key_still_makes_its_group():
    assert scan({"resources1:BOGUS": "1", "trait2:X": "bogus"}).groups == {"1": Group(), "2": Group()}


@pytest.mark.parametrize(
    "key",
    [
        "resources" + "s" * 65 + ":VGPU",
        "resources!:VCPU",
        "resource:VCPU",
        " trait:HW_X",
        "traits",
        "hw:cpu_policy",
        "quota:vif_inbound_average",
    ],
)
def test_foreign_keys_are_silently_ignored(key, caplog):
    assert scan({key: "required"}) == ResourceRequest()
    assert not caplog.records


@given(st.dictionaries(st.text(max_size=80), st.text(max_size=20)))
def test_nothing_upsets_the_parser(specs):
    request = scan(specs)
    assert all(amount >= 0 for group in request.groups.values() for amount in group.resources.values())


SUFFIX = st.text("abcXYZ019_-", max_size=64)


@given(SUFFIX, st.sampled_from(["VCPU", "MEMORY_MB", "VGPU", "CUSTOM_A"]), st.integers(0, 10**9))
def test_every_sound_resource_is_found_again(suffix, name, amount):
    groups = scan({f"resources{suffix}:{name}": str(amount)}).groups
    assert groups == {suffix: Group({name: amount})}


@given(st.text(max_size=6))
@example("1_0")
@example("+3")
def test_amounts_are_those_of_int(text):
    try:
        expected = int(text)
    except ValueError:
        expected = -1
    assert extra_specs.amount_of(text) == (expected if expected >= 0 else None)
