import json

from hypothesis import given
from hypothesis import strategies as st
import msgspec
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
from tests.support.clock import Clock

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
    return read_snapshot(json.dumps(body).encode())


def two_nodes():
    return snapshot(
        a=provider("a", ["AVX"], VCPU=(8, 0), MEMORY_MB=(4096, 0)),
        b=provider("b", [], VCPU=(8, 6), MEMORY_MB=(4096, 3072)),
    )


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def mirror(clock):
    mirror = Mirror(clock)
    mirror.publish(two_nodes(), clock.now)
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
    mirror.publish(tree, 0.0)
    assert mirror.find(PlainQuery(MEMORY)) is None


def test_a_child_with_other_classes_does_not_matter():
    mirror = Mirror()
    tree = snapshot(a=provider("a", [], MEMORY_MB=(4096, 0)), b=provider("a", [], VGPU=(2, 0)))
    mirror.publish(tree, 0.0)
    assert found(mirror) == ["a"]


def test_a_claim_counts_until_it_is_released(mirror):
    mirror.claimed(allocation("b", MEMORY_MB=1024))
    assert found(mirror) == ["a"]
    mirror.released(allocation("b", MEMORY_MB=1024))
    assert found(mirror) == ["a", "b"]


LEARN = {
    "a claim": lambda mirror, at: mirror.claimed(allocation("b", MEMORY_MB=1024), mirror.clock() - at),
    "usage": lambda mirror, at: mirror.set_used("b", {"MEMORY_MB": 4096}, at),
}


@pytest.mark.parametrize("learn", LEARN.values(), ids=LEARN)
@pytest.mark.parametrize(("ago", "expected"), [(10.5, ["a", "b"]), (10.0, ["a"]), (2.0, ["a"])])
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_is_younger_than_the_question_is_added_to_its_answer(mirror, clock, learn, ago, expected, when):
    """Whether it is learnt before the answer comes, or after that."""
    asked_at, clock.now = clock.now + 90, clock.now + 100
    if when == "before":
        learn(mirror, clock.now - ago)
    mirror.publish(two_nodes(), asked_at)
    if when == "after":
        learn(mirror, clock.now - ago)
    assert found(mirror) == expected


def test_changes_are_kept_for_snapshots_that_may_still_come(mirror, clock):
    for _ in range(5):
        clock.now += 10
        mirror.claimed(allocation("b", MEMORY_MB=1))
        mirror.drop_changes(before=clock.now - 20)
    assert mirror.kept_changes == 3


class Cloud:
    """One node as Placement has it, and what a mirror knows of it."""

    def __init__(self):
        self.clock = Clock(0.0)
        self.used = 0
        self.mirror = Mirror(self.clock)
        self.told = []
        self.untold = []

    def snapshot(self):
        return snapshot(a=provider("a", [], MEMORY_MB=(1 << 40, self.used)))

    def known(self):
        return self.mirror.find(PlainQuery(MEMORY)).usage("a")["MEMORY_MB"].used

    def grant(self):
        self.used += 1
        self.untold.append(1)

    def tell(self):
        """The response to the first claim that Placement has granted comes."""
        if self.untold:
            self.mirror.claimed(allocation("a", MEMORY_MB=self.untold.pop(0)))
            self.told.append(self.clock.now)


@given(st.lists(st.sampled_from(["grant", "tell", "ask", "read", "publish"]), max_size=40))
def test_no_claim_is_forgotten_whenever_a_question_was_asked_and_its_answer_is_used(steps):
    """Questions are read by Placement after they are asked; answers are used in their order, or not at all."""
    cloud, asked = Cloud(), []
    cloud.mirror.publish(cloud.snapshot(), cloud.clock.now)
    for step in steps:
        cloud.clock.now += 1
        if step in {"grant", "tell"}:
            getattr(cloud, step)()
        elif step == "ask":
            asked.append([cloud.clock.now, None, 0])
        elif step == "read":
            for question in asked:
                question[1:] = question[1:] if question[1] else [cloud.snapshot(), cloud.used]
        elif asked and asked[0][1]:
            asked_at, answer, used = asked.pop(0)
            cloud.mirror.publish(answer, asked_at)
            since = sum(1 for moment in cloud.told if moment >= asked_at)
            assert cloud.known() == used + since
        assert cloud.known() >= cloud.used - len(cloud.untold)  # what was told is never forgotten


def test_usage_that_placement_tells_replaces_what_was_known(mirror, clock):
    mirror.set_used("a", {"MEMORY_MB": 4000, "VGPU": 1}, clock.now)
    mirror.set_used("unknown", {"MEMORY_MB": 0}, clock.now)
    assert found(mirror) == ["b"]


REFUSALS = {
    "an amount": lambda mirror: mirror.refuse("a", "MEMORY_MB", 1024),
    "a missing provider": lambda mirror: mirror.forget_provider("a"),
}


@pytest.mark.parametrize("refuse", REFUSALS.values(), ids=REFUSALS)
def test_what_placement_refused_is_not_offered_again_before_a_snapshot_that_is_younger(mirror, clock, refuse):
    refuse(mirror)
    assert found(mirror) == ["b"]
    mirror.publish(two_nodes(), clock.now - 0.5)
    assert found(mirror) == ["b"]
    mirror.publish(two_nodes(), clock.now + 0.5)
    assert found(mirror) == ["a", "b"]


def test_a_refused_amount_does_not_concern_others(mirror):
    mirror.refuse("a", "MEMORY_MB", 1024)
    assert found(mirror, {"MEMORY_MB": 512}) == ["a", "b"]


@pytest.mark.parametrize(
    ("traits", "classes", "expected"),
    [([SHARING], ["DISK_GB"], True), ([SHARING], ["IPV4_ADDRESS"], False), ([], ["DISK_GB"], False)],
    ids=["shares disk", "shares addresses", "does not share"],
)
def test_sharing_providers_with_a_mirrored_class(traits, classes, expected):
    assert shares_mirrored_class(traits, classes) is expected


def test_refusals_do_not_add_up_while_no_query_is_answered(mirror):
    for amount in range(3):
        mirror.refuse("a", "MEMORY_MB", amount)
    assert mirror.kept_changes == 3
    mirror.withdraw()
    assert mirror.kept_changes == 0


@pytest.mark.parametrize("capacity", [2**63, 10**40])
def test_a_capacity_beyond_all_bounds_is_one_that_suffices(mirror, clock, capacity):
    mirror.publish(
        snapshot(a=provider("a", MEMORY_MB=(capacity, 0)), b=provider("b", MEMORY_MB=(512, 0))), clock.now
    )
    assert found(mirror) == ["a"]
    mirror.claimed(allocation("a", **MEMORY))
    assert found(mirror) == ["a"]


@pytest.mark.parametrize("amount", [2**31, 10**40])
def test_an_amount_that_no_provider_can_have_is_for_placement_to_refuse(amount):
    assert plain_query(query(("resources", f"MEMORY_MB:{amount}"))) is None
