import pytest

from scheduler import objects


def group(**values):
    return objects.RequestGroup(**values)


@pytest.mark.parametrize(
    ("rclass", "amount", "resources"),
    [
        ("VCPU", 2, {"VCPU": 2}),
        ("VCPU", "2", {"VCPU": 2}),
        ("VCPU", 0, {"VCPU": 0}),
        ("CUSTOM_X", 1, {"CUSTOM_X": 1}),
        ("VCPU", -1, {}),
        ("VCPU", "x", {}),
        ("NONSENSE", 1, {}),
    ],
)
def test_add_resource(rclass, amount, resources):
    asked = group()
    asked.add_resource(rclass, amount)
    assert asked.resources == resources


def test_add_resource_overwrites():
    asked = group(resources={"VCPU": 1})
    asked.add_resource("VCPU", 3)
    assert asked.resources == {"VCPU": 3}


def test_add_trait():
    asked = group()
    asked.add_trait("A", "required")
    asked.add_trait("B", "forbidden")
    asked.add_trait("C", "wished")
    assert (asked.required_traits, asked.forbidden_traits) == ({"A"}, {"B"})


@pytest.mark.parametrize(
    ("values", "empty"),
    [
        ({}, True),
        ({"in_tree": "u"}, True),
        ({"resources": {"VCPU": 0}}, False),
        ({"required_traits": {"A"}}, False),
        ({"forbidden_traits": {"A"}}, False),
        ({"aggregates": [["a"]]}, False),
        ({"forbidden_aggregates": {"a"}}, False),
    ],
)
def test_is_empty(values, empty):
    assert group(**values).is_empty() is empty


def test_strip_zeros():
    asked = group(resources={"VCPU": 0, "MEMORY_MB": 5})
    asked.strip_zeros()
    assert asked.resources == {"MEMORY_MB": 5}


def test_query_of_an_empty_group():
    assert group().to_queryparams() == [("resources", "")]


def test_query_of_a_full_group():
    asked = group(
        requester_id="_P",
        resources={"VCPU": 1, "MEMORY_MB": 5},
        required_traits={"B", "A"},
        forbidden_traits={"D", "C"},
        aggregates=[["z", "y"], ["b", "a"]],
        in_tree="t",
        forbidden_aggregates={"f", "e"},
    )
    assert asked.to_queryparams() == [
        ("resources_P", "MEMORY_MB:5,VCPU:1"),
        ("required_P", "A,B,!C,!D"),
        ("member_of_P", "in:a,b"),
        ("member_of_P", "in:y,z"),
        ("in_tree_P", "t"),
        ("member_of_P", "!in:e,f"),
    ]


def test_from_port_request():
    asked = group().from_port_request(
        None, "port", {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}, "required": ["A"]}
    )
    assert asked.requester_id == "port"
    assert asked.resources == {"NET_BW_EGR_KILOBIT_PER_SEC": 1}
    assert asked.required_traits == {"A"}
    assert group().from_port_request(None, "port", {"resources": {}}).required_traits == set()


def test_from_extended_port_request():
    wanted = {
        "request_groups": [
            {"id": "g1", "resources": {"VCPU": 1}},
            {"id": "g2", "resources": {}, "required": ["A"]},
        ]
    }
    groups = objects.RequestGroup.from_extended_port_request(None, wanted)
    assert [g.requester_id for g in groups] == ["g1", "g2"]
    assert groups[1].required_traits == {"A"}


def test_request_level_params():
    params = objects.RequestLevelParams(root_required={"A"})
    params.extend_with(
        objects.RequestLevelParams(root_required={"B"}, root_forbidden={"C"}, same_subtree=[["_1"]])
    )
    assert (params.root_required, params.root_forbidden, params.same_subtree) == ({"A", "B"}, {"C"}, [["_1"]])
    assert objects.RequestLevelParams.from_port_request({"same_subtree": ["a", "b"]}).same_subtree == [
        ["a", "b"]
    ]
    assert objects.RequestLevelParams.from_port_request({}).same_subtree == []
