from hypothesis import given
from hypothesis import strategies as st

from scheduler.request.groups import Group, ResourceRequest, traits_text


def test_traits_text():
    assert traits_text({"B", "A"}, {"D", "C"}) == "A,B,!C,!D"


def test_prune_drops_zeros_then_empty_groups():
    request = ResourceRequest(
        {"": Group({"VCPU": 0}), "1": Group({"VGPU": 0}, {"T"}), "2": Group({"VGPU": 1, "FPGA": 0})}
    )
    request.prune()
    assert request.groups == {"1": Group({}, {"T"}), "2": Group({"VGPU": 1})}


def test_a_tree_alone_makes_no_request():
    assert Group(in_tree="x").is_empty


def test_pairs_of_a_group():
    group = Group({"VGPU": 1, "FPGA": 2}, {"T"}, {"F"}, [{"b", "a"}, {"c"}], {"e", "d"}, "tree")
    assert sorted(group.pairs("_s")) == [
        ("in_tree_s", "tree"),
        ("member_of_s", "!in:d,e"),
        ("member_of_s", "in:a,b"),
        ("member_of_s", "in:c"),
        ("required_s", "T,!F"),
        ("resources_s", "FPGA:2,VGPU:1"),
    ]


def test_pairs_of_a_request():
    request = ResourceRequest(
        group_policy="none", root_required={"B", "A"}, root_forbidden={"C"}, same_subtree=[{"y", "x"}, {"z"}]
    )
    assert sorted(request.pairs()) == [
        ("group_policy", "none"),
        ("root_required", "A,B,!C"),
        ("same_subtree", "x,y"),
        ("same_subtree", "z"),
    ]


NAMES = st.text("ABC_", min_size=1, max_size=4)


@given(st.dictionaries(NAMES, st.integers(1, 99)), st.sets(NAMES), st.sets(NAMES))
def test_a_group_can_be_read_back(resources, required, forbidden):
    pairs = dict(Group(resources, required, forbidden).pairs("1"))
    items = [item.split(":") for item in pairs["resources1"].split(",") if item]
    assert {name: int(amount) for name, amount in items} == resources
    traits = [trait for trait in pairs.get("required1", "").split(",") if trait]
    assert {trait for trait in traits if trait[0] != "!"} == required
    assert {trait[1:] for trait in traits if trait[0] == "!"} == forbidden
