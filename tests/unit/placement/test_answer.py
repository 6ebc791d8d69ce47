import json

from hypothesis import given
from hypothesis import strategies as st
import msgspec
import orjson
import pytest

from scheduler.placement.answer import AllocationCandidate, Candidates, Usage, merge, parse

SHARING = "MISC_SHARES_VIA_AGGREGATE"


def entry(*takes):
    """``takes``: (provider, class, amount)."""
    allocations = {}
    for provider, name, amount in takes:
        allocations.setdefault(provider, {"resources": {}})["resources"][name] = amount
    return {"allocations": allocations, "mappings": {"": list(allocations)}}


def summary(root, *traits, **resources):
    usages = {name: {"capacity": capacity, "used": used} for name, (capacity, used) in resources.items()}
    return {
        "resources": usages,
        "traits": list(traits),
        "parent_provider_uuid": None,
        "root_provider_uuid": root,
    }


def body(requests, summaries):
    return orjson.dumps({"allocation_requests": requests, "provider_summaries": summaries})


def answer(requests, summaries, limit=None):
    return parse(body(requests, summaries), limit, 1.0)


FLAT = {name: summary(name) for name in "abcdef"}


def test_groups_keep_the_order_of_the_answer():
    found = answer([entry((root, "VCPU", 1)) for root in "cabca"], FLAT)
    assert list(found.by_root) == ["c", "a", "b"]
    assert [len(group) for group in found.by_root.values()] == [2, 2, 1]
    assert found.sent_at == 1.0


def test_text_is_what_a_conductor_claims():
    (candidate,) = answer([entry(("a", "VCPU", 1))], FLAT).by_root["a"]
    assert orjson.loads(candidate.text()) == entry(("a", "VCPU", 1))
    assert candidate.version == "1.36"


@pytest.mark.parametrize(("limit", "truncated"), [(None, False), (3, False), (2, True)])
def test_truncated(limit, truncated):
    assert answer([entry(("a", "VCPU", 1)), entry(("b", "VCPU", 1))], FLAT, limit).truncated is truncated


ROOTS = {
    "child of the host": (
        [("child", "VGPU", 1)],
        {"child": summary("host")},
        "host",
    ),
    "host and child": (
        [("child", "VGPU", 1), ("host", "VCPU", 1)],
        {"child": summary("host"), "host": summary("host")},
        "host",
    ),
    "host and shared disk": (
        [("disk", "DISK_GB", 1), ("host", "VCPU", 1)],
        {"disk": summary("disk", "COMPUTE_NODE", SHARING), "host": summary("host")},
        "host",
    ),
    "disk shared by another host": (
        [("a host", "DISK_GB", 1), ("host", "VCPU", 1)],
        {"a host": summary("a host", SHARING), "host": summary("host")},
        "host",
    ),
    "both share, one gives more": (
        [("a host", "DISK_GB", 1), ("host", "VCPU", 1), ("host", "MEMORY_MB", 1)],
        {"a host": summary("a host", SHARING), "host": summary("host", SHARING)},
        "host",
    ),
    "only a sharing provider": (
        [("disk", "DISK_GB", 1)],
        {"disk": summary("disk", SHARING)},
        "disk",
    ),
}


@pytest.mark.parametrize(("takes", "summaries", "root"), ROOTS.values(), ids=ROOTS.keys())
def test_root(takes, summaries, root):
    ((found, (candidate,)),) = answer([entry(*takes)], summaries).by_root.items()
    assert found == candidate.root == root
    assert candidate.roots == tuple(sorted({one["root_provider_uuid"] for one in summaries.values()}))


def test_usage():
    found = answer([entry(("a", "VCPU", 2))], {"a": summary("a", VCPU=(4, 9), VGPU=(1, 1))})
    assert found.usage("a") == {"VCPU": Usage(4, 9), "VGPU": Usage(1, 1)}
    assert found.usage("nobody") == {}


def test_empty_answer_has_a_reason():
    found = answer([], {})
    assert (found.by_root, found.reason, found.failed) == ({}, "no provider satisfies the request", False)


def test_request_that_takes_nothing_is_skipped():
    assert answer([{"allocations": {}, "mappings": {}}], {}).by_root == {}


STRANGE = [
    b"",
    b"<html>",
    b"[]",
    b"{}",
    b'{"allocation_requests": {}, "provider_summaries": {}}',
    body([entry(("nobody", "VCPU", 1))], FLAT),
    body([entry(("nobody", "VCPU", 1), ("a", "VCPU", 1))], FLAT),
    body([entry(("a", "VCPU", 1))], {"a": summary(None)}),
    body([{"allocations": {"a": {"resources": {"VCPU": 1}}}}], FLAT),
]


@pytest.mark.parametrize("text", STRANGE)
def test_anything_else_is_a_decode_error(text):
    with pytest.raises(msgspec.DecodeError):
        parse(text, None)


def test_amounts_are_read_when_they_are_asked_for():
    (candidate,) = answer([entry(("a", "VCPU", "1"))], FLAT).by_root["a"]
    with pytest.raises(msgspec.ValidationError):
        assert candidate.allocations


JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda some: st.lists(some) | st.dictionaries(st.text(), some),
    max_leaves=10,
)


@given(JSON)
def test_no_json_does_more_than_a_decode_error(value):
    with pytest.raises(msgspec.DecodeError):
        parse(json.dumps(value).encode(), None)


takes = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from(["VCPU", "PCPU"]), st.integers(1, 3)),
    min_size=1,
    max_size=3,
)
answers = st.lists(takes, max_size=8).map(lambda requests: answer([entry(*one) for one in requests], FLAT))


@given(answers, answers)
def test_merged_answers(first, second):
    both = merge(first, second)
    for root in first.by_root.keys() | second.by_root.keys():
        assert both.by_root[root] == first.by_root.get(root, ()) + second.by_root.get(root, ())
    assert list(both.by_root)[: len(first.by_root)] == list(first.by_root)
    assert bool(both.reason) is (not both.by_root)


REASONS = {
    "both empty": (Candidates(reason="none"), Candidates(reason="none either"), "none either", False),
    "first failed": (Candidates(reason="503", failed=True), Candidates(reason="none"), "503", True),
    "second failed": (Candidates(reason="none"), Candidates(reason="503", failed=True), "503", True),
    "failed but not empty": (
        Candidates(reason="503", failed=True), answer([entry(("a", "VCPU", 1))], FLAT), "", False
    ),
}  # fmt: skip


@pytest.mark.parametrize(("first", "second", "reason", "failed"), REASONS.values(), ids=REASONS.keys())
def test_reason_of_merged_answers(first, second, reason, failed):
    both = merge(first, second)
    assert (both.reason, both.failed) == (reason, failed)


def test_a_candidate_is_read_as_a_dict_and_cannot_be_changed_that_way():
    candidate = AllocationCandidate.of("r", ("r",), {"r": {"resources": {"VCPU": 1}}}, {"": ["r"]})
    same, other = candidate.as_dict(), candidate.as_dict()
    other["mappings"][""].append("other")
    other["allocations"]["r"]["resources"]["VCPU"] = 2
    assert (
        candidate.as_dict()
        == same
        == {"allocations": {"r": {"resources": {"VCPU": 1}}}, "mappings": {"": ["r"]}}
    )
    assert candidate.having(same) is candidate
    changed = candidate.having(other)
    assert (changed.root, changed.roots, changed.as_dict()) == ("r", ("r",), other)
