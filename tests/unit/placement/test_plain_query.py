import pytest

from scheduler.placement.plain_query import PlainQuery, mismatch, plain_query
from scheduler.placement.providers import Inventory, ProviderState
from scheduler.request.query import Query


def query(*pairs):
    return Query(tuple(pairs), "", None)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (
            [("limit", "1000"), ("resources", "MEMORY_MB:512,VCPU:1")],
            PlainQuery({"MEMORY_MB": 512, "VCPU": 1}),
        ),
        (
            [("required", "A,!B"), ("resources", "MEMORY_MB:512"), ("root_required", "!C,D")],
            PlainQuery({"MEMORY_MB": 512}, required=frozenset("AD"), forbidden=frozenset("BC")),
        ),
        (
            [
                ("member_of", "!in:x,y"),
                ("member_of", "in:v"),
                ("member_of", "in:w,z"),
                ("resources", "MEMORY_MB:512"),
            ],
            PlainQuery(
                {"MEMORY_MB": 512},
                member_of=(frozenset("v"), frozenset("wz")),
                not_member_of=frozenset("xy"),
            ),
        ),
    ],
    ids=["resources", "traits", "aggregates"],
)
def test_queries_that_compute_nodes_alone_decide(pairs, expected):
    assert plain_query(query(*pairs)) == expected


@pytest.mark.parametrize(
    "pair",
    [
        ("resources", "VCPU:1"),
        ("resources", "MEMORY_MB:1,VGPU:1"),
        ("resources1", "VGPU:1"),
        ("in_tree", "a"),
        ("same_subtree", "_1"),
        ("group_policy", "none"),
    ],
    ids=lambda pair: f"{pair[0]}={pair[1]}",
)
def test_other_queries_go_to_placement(pair):
    pairs = dict([("resources", "MEMORY_MB:512"), pair])
    assert plain_query(query(*pairs.items())) is None


@pytest.mark.parametrize("amount", [2**31, 10**40])
def test_an_amount_that_no_provider_can_have_is_for_placement_to_refuse(amount):
    assert plain_query(query(("resources", f"MEMORY_MB:{amount}"))) is None


NODE = ProviderState(
    "a",
    1,
    {
        "MEMORY_MB": Inventory(total=4096, reserved=1024),
        "VCPU": Inventory(total=4, allocation_ratio=2.0, max_unit=4),
    },
    {"MEMORY_MB": 1024},
    frozenset({"AVX", "SSE"}),
    frozenset({"x", "y"}),
)
MEMORY = {"MEMORY_MB": 2048}
MISMATCHES = {
    "a missing trait": ({"required": "HDD AVX"}, "trait HDD is missing"),
    "a forbidden trait": ({"forbidden": "SSE"}, "it has the forbidden trait SSE"),
    "a missing aggregate": ({"member_of": ("x", "z")}, "its aggregates do not suit"),
    "a forbidden aggregate": ({"not_member_of": "y"}, "its aggregates do not suit"),
    "a class that it lacks": ({"amounts": {"DISK_GB": 1}}, "it has no inventory of DISK_GB"),
    "a unit limit": ({"amounts": {"VCPU": 5}}, "its unit limits do not admit 5 of VCPU"),
    "a full class": ({"amounts": {"MEMORY_MB": 2049}}, "1024 of 3072 MEMORY_MB are used"),
    "nothing": ({"required": "AVX", "forbidden": "HDD", "member_of": ("x", "y z"), "not_member_of": "z"}, ""),
}


@pytest.mark.parametrize(("conditions", "reason"), MISMATCHES.values(), ids=MISMATCHES)
def test_why_a_node_does_not_meet_a_query(conditions, reason):
    sets = {name: frozenset(conditions.get(name, "").split()) for name in ("required", "forbidden")}
    wanted = PlainQuery(
        conditions.get("amounts", MEMORY),
        **sets,
        member_of=tuple(frozenset(any_of.split()) for any_of in conditions.get("member_of", ())),
        not_member_of=frozenset(conditions.get("not_member_of", "").split()),
    )
    assert mismatch(wanted, NODE) == reason
