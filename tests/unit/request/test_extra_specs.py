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
    ("key", "value", "groups"),
    [
        ("resources:VCPU", "2", {"": Group({"VCPU": 2})}),
        ("resources:VCPU", " 2 ", {"": Group({"VCPU": 2})}),
        ("resources:VCPU", "0", {"": Group({"VCPU": 0})}),
        ("resources:CUSTOM_X", "1", {"": Group({"CUSTOM_X": 1})}),
        ("resources1:VGPU", "1", {"1": Group({"VGPU": 1})}),
        ("resources_GPU-a:VGPU", "1", {"_GPU-a": Group({"VGPU": 1})}),
        ("resources" + "s" * 64 + ":VGPU", "1", {"s" * 64: Group({"VGPU": 1})}),
        ("trait:HW_X", "required", {"": Group(required={"HW_X"})}),
        ("trait:HW_X", "forbidden", {"": Group(forbidden={"HW_X"})}),
        ("trait1:any:thing", "required", {"1": Group(required={"any:thing"})}),
    ],
)
def test_taken(key, value, groups):
    assert scan({key: value}).groups == groups


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


@pytest.mark.parametrize("policy", ["none", "isolate"])
def test_group_policy(policy):
    assert scan({"group_policy": policy}).group_policy == policy


def test_both_kinds_meet_in_one_group():
    request = scan({"resources7:VGPU": "1", "trait7:HW_X": "required", "trait7:HW_Y": "forbidden"})
    assert request.groups == {"7": Group({"VGPU": 1}, {"HW_X"}, {"HW_Y"})}


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
