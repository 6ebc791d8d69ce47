from collections import Counter

from scheduler.request.decision_line import DecisionCounts, PlacedOn, amounts_of, placed_lines, refused_line

COUNTS = DecisionCounts("VCPU:1", 412, 37, Counter(i1=2, i2=1), [PlacedOn("h1", "c1"), PlacedOn("h2", "c2")])


def test_each_instance_has_a_line_with_its_own_tries():
    assert list(placed_lines(["i1", "i2"], COUNTS, 0.0234, {"c1": "cell1", "c2": None})) == [
        "Placed instance i1 on host h1 (cell1): 412 candidates -> 37 passed, 2 tries, 23 ms, VCPU:1",
        "Placed instance i2 on host h2 (c2): 412 candidates -> 37 passed, 1 try, 23 ms, VCPU:1",
    ]


def test_a_refused_request_is_one_line():
    assert refused_line(["i1", "i2"], DecisionCounts(), 1.0, "none fits ") == (
        "No host for instance i1 and 1 more: 0 candidates -> 0 passed, 0 tries, 1000 ms: none fits"
    )
    assert refused_line([], DecisionCounts(), 0.0, "x").startswith("No host for instance none: ")


def test_amounts_are_those_of_the_query_with_the_names_of_groups():
    params = [
        ("limit", "1000"),
        ("resources", "DISK_GB:20,VCPU:1"),
        ("resources_A", "VF:1"),
        ("required", "X"),
    ]
    assert amounts_of(params) == "DISK_GB:20 VCPU:1; A=VF:1"
