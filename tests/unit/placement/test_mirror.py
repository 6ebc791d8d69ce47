import msgspec
import orjson
import pytest

from scheduler.placement.answer import SHARING
from scheduler.placement.mirror import (
    Mirror,
    PlainQuery,
    plain_query,
    read_snapshot,
    shares_mirrored_class,
)
from scheduler.request.query import Query

MEMORY = {"MEMORY_MB": 1024}


def query(*pairs):
    return Query(tuple(pairs), "", None)


def provider(root, traits=(), **resources):
    amounts = {name: {"capacity": capacity, "used": used} for name, (capacity, used) in resources.items()}
    return {
        "root_provider_uuid": root,
        "parent_provider_uuid": None,
        "resources": amounts,
        "traits": list(traits),
    }


def snapshot(**providers):
    body = {"allocation_requests": [], "provider_summaries": providers}
    return read_snapshot(orjson.dumps(body))


def two_nodes():
    return snapshot(
        a=provider("a", ["AVX"], VCPU=(8, 0), MEMORY_MB=(4096, 0)),
        b=provider("b", [], VCPU=(8, 6), MEMORY_MB=(4096, 3072)),
    )


@pytest.fixture
def mirror():
    mirror = Mirror()
    mirror.publish(two_nodes(), mirror.mark())
    return mirror


def found(mirror, amounts=MEMORY, **conditions):
    conditions = {name: frozenset(traits) for name, traits in conditions.items()}
    answer = mirror.find(PlainQuery(amounts, **conditions))
    return [answer.snapshot.uuids[row] for row in answer.rows]


def allocation(provider, **amounts):
    return {provider: {"resources": amounts}}


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


def test_a_body_of_another_shape_is_refused():
    with pytest.raises(msgspec.DecodeError):
        read_snapshot(b'{"provider_summaries": {"a": {}}}')


def test_classes_that_a_node_lacks_cannot_be_had(mirror):
    assert found(mirror, {"MEMORY_MB": 1, "DISK_GB": 1}) == []


def test_nodes_need_room_for_every_class(mirror):
    assert found(mirror, {"MEMORY_MB": 1024, "VCPU": 2}) == ["a", "b"]
    assert found(mirror, {"MEMORY_MB": 1025, "VCPU": 2}) == ["a"]
    assert found(mirror, {"MEMORY_MB": 1024, "VCPU": 3}) == ["a"]


def test_traits_are_required_or_forbidden(mirror):
    assert found(mirror, required=["AVX"]) == ["a"]
    assert found(mirror, forbidden=["AVX"]) == ["b"]
    assert found(mirror, required=["AVX"], forbidden=["AVX"]) == []


def test_a_candidate_takes_everything_from_the_node(mirror):
    candidate = mirror.find(PlainQuery(MEMORY)).candidate("a")
    assert (candidate.root, candidate.roots) == ("a", ("a",))
    assert candidate.allocations == allocation("a", MEMORY_MB=1024)
    assert candidate.mappings == {"": ["a"]}


def test_without_a_snapshot_placement_is_asked():
    mirror = Mirror()
    mirror.claimed(allocation("a", VCPU=1))
    assert mirror.find(PlainQuery(MEMORY)) is None


def test_a_withdrawn_snapshot_answers_nothing(mirror):
    mirror.withdraw()
    assert mirror.find(PlainQuery(MEMORY)) is None


def test_a_child_with_a_mirrored_class_sends_all_queries_to_placement():
    mirror = Mirror()
    child = provider("a", [], MEMORY_MB=(1024, 0))
    tree = snapshot(a=provider("a", [], MEMORY_MB=(4096, 0)), b=child)
    mirror.publish(tree, mirror.mark())
    assert mirror.find(PlainQuery(MEMORY)) is None


def test_a_child_with_other_classes_does_not_matter():
    mirror = Mirror()
    tree = snapshot(a=provider("a", [], MEMORY_MB=(4096, 0)), b=provider("a", [], VGPU=(2, 0)))
    mirror.publish(tree, mirror.mark())
    assert found(mirror) == ["a"]


def test_a_claim_counts_until_it_is_released(mirror):
    mirror.claimed(allocation("b", MEMORY_MB=1024))
    assert found(mirror) == ["a"]
    mirror.released(allocation("b", MEMORY_MB=1024))
    assert found(mirror) == ["a", "b"]


@pytest.mark.parametrize(
    ("late", "expected"), [(False, ["a", "b"]), (True, ["a"])], ids=["claim before", "claim after"]
)
def test_only_claims_after_the_question_are_added_to_its_answer(mirror, late, expected):
    if not late:
        mirror.claimed(allocation("b", MEMORY_MB=1024))
    marker = mirror.mark()
    if late:
        mirror.claimed(allocation("b", MEMORY_MB=1024))
    mirror.publish(two_nodes(), marker)
    assert found(mirror) == expected


def test_only_changes_since_the_last_question_are_kept_while_refreshes_fail(mirror):
    for _ in range(3):
        mirror.mark()
        mirror.claimed(allocation("b", MEMORY_MB=1))
    assert mirror.kept_changes == 1


def test_usage_that_placement_tells_replaces_what_was_known(mirror):
    mirror.set_used("a", {"MEMORY_MB": 4000, "VGPU": 1})
    mirror.set_used("unknown", {"MEMORY_MB": 0})
    assert found(mirror) == ["b"]


def test_an_amount_that_placement_refuses_is_not_offered_again_before_the_next_snapshot(mirror):
    mirror.refuse("a", "MEMORY_MB", 1024)
    assert found(mirror) == ["b"]
    assert found(mirror, {"MEMORY_MB": 512}) == ["a", "b"]
    mirror.publish(two_nodes(), mirror.mark())
    assert found(mirror) == ["a", "b"]


def test_a_missing_provider_is_not_offered_again_before_the_next_snapshot(mirror):
    mirror.forget_provider("a")
    assert found(mirror) == ["b"]


@pytest.mark.parametrize(
    ("traits", "classes", "expected"),
    [([SHARING], ["DISK_GB"], True), ([SHARING], ["IPV4_ADDRESS"], False), ([], ["DISK_GB"], False)],
    ids=["shares disk", "shares addresses", "does not share"],
)
def test_sharing_providers_with_a_mirrored_class(traits, classes, expected):
    assert shares_mirrored_class(traits, classes) is expected
