from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.placement.allocations import Owner, allocations_body
from scheduler.claims.batch import Batch
from scheduler.claims.claimer import Claimer
from scheduler.placement.empty_consumers import EmptyConsumers
from scheduler.placement.claim_events import ClaimState
from scheduler.claims.parts import ClaimParts
from scheduler.claims.policy import Timing
from scheduler.claims.result import ClaimResult, Outcome
from scheduler.locks import KeyedLocks
from tests.unit.claims.builders import FAULTS, PROMPT, READS, candidate, make_request
from tests.unit.claims.fake_consumers import FakeConsumers

HOSTS = {"aaaa": 2, "bbbb": 2, "cccc": 0}
CLAIMED, REFUSED, GONE = Outcome.CLAIMED, Outcome.REFUSED, Outcome.GONE
UNAVAILABLE = Outcome.UNAVAILABLE


def make(**kwargs):
    api = FakeConsumers(dict(HOSTS), **kwargs)
    return Claimer(api, PROMPT), api


def claim(claimer, plan):
    """``plan``: the host of each instance."""
    requests = [make_request(f"instance {number}", host) for number, host in enumerate(plan)]
    results = claimer.claim_many(requests)
    return [results[request.uuid] for request in requests]


CASES = {
    "no instance": ([], [], [], []),
    "one alone": (["aaaa"], [], [CLAIMED], ["put"]),
    "all at once": (["aaaa", "bbbb", "aaaa", "bbbb"], [], [CLAIMED] * 4, ["post"]),
    "one too many": (["aaaa"] * 3, [], [CLAIMED, CLAIMED, REFUSED], ["post", "post"]),
    "full host": (["cccc", "aaaa", "bbbb"], [], [REFUSED, CLAIMED, CLAIMED], ["post", "post"]),
    "many refusals go one by one": (
        ["cccc"] * 4 + ["aaaa"], [], [REFUSED] * 4 + [CLAIMED], [*["post"] * 3, "put", "put"]
    ),
    "missing provider": (["dead", "aaaa", "dead", "bbbb"], [], [GONE, CLAIMED, GONE, CLAIMED], ["post", "post"]),
    "concurrent updates": (["aaaa", "bbbb"], ["concurrent"] * 3, [CLAIMED] * 2, ["post"] * 4),
    "too many of them": (["aaaa", "bbbb"], ["concurrent"] * 4, [CLAIMED] * 2, [*["post"] * 4, "put", "put"]),
    "answer lost": (["aaaa", "bbbb"], ["unanswered"], [CLAIMED] * 2, ["post", "read", "read", "read"]),
    "request lost": (
        ["aaaa", "bbbb"], ["lost"], [CLAIMED] * 2, ["post", *["read"] * 3, *["put", "read", "put"] * 2]
    ),
    "certainly not sent": (["aaaa", "bbbb"], ["unreachable"], [UNAVAILABLE] * 2, ["post"]),
}  # fmt: skip


@pytest.mark.parametrize(("plan", "faults", "outcomes", "calls"), CASES.values(), ids=CASES.keys())
def test_requests_to_placement_and_outcomes(plan, faults, outcomes, calls):
    claimer, api = make(write_faults=faults)
    results = claim(claimer, plan)
    assert [result.outcome for result in results] == outcomes
    assert api.calls == calls
    assert sum(len(held.allocations) for held in api.consumers.values()) == outcomes.count(CLAIMED)


def test_refusal_names_class_and_provider(caplog):
    claimer, _ = make()
    refused = claim(claimer, ["aaaa", "cccc"])[1]
    assert (refused.refused_class, refused.refused_provider) == ("VCPU", "cccc")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "Failed to save allocation for instance 1. Got HTTP 409" in caplog.text


STATES = {
    "all at once": (["aaaa", "bbbb"], [], [["GRANTED"]] * 2),
    "concurrent update": (["aaaa", "bbbb"], ["concurrent"], [["BACKING_OFF", "GRANTED"]] * 2),
    "one too many": (
        ["aaaa", "aaaa", "aaaa"], [], [["BATCH_WRITE", "GRANTED"], ["BATCH_WRITE", "GRANTED"], ["NEXT_HOST"]],
    ),
    "one of two refused": (["aaaa", "cccc"], [], [["CLAIMED_ALONE", "GRANTED"], ["NEXT_HOST"]]),
    "response lost": (["aaaa", "bbbb"], ["unanswered"], [["OUTCOME_UNKNOWN", "GRANTED"]] * 2),
    "request lost": (
        ["aaaa", "bbbb"], ["lost"],
        [["OUTCOME_UNKNOWN", "CLAIMED_ALONE", "VERIFYING", "REWRITING", "GRANTED"]] * 2,
    ),
    "denied": (["aaaa", "bbbb"], ["403"], [["GIVEN_UP"]] * 2),
    "unreachable": (["aaaa", "bbbb"], ["unreachable"], [["GIVEN_UP"]] * 2),
    "consumer conflict": (["aaaa", "bbbb"], ["conflict"], [["CLAIMED_ALONE", "GRANTED"]] * 2),
}  # fmt: skip


@pytest.mark.parametrize(("plan", "faults", "states"), STATES.values(), ids=STATES.keys())
def test_each_instance_has_the_events_of_its_claim(plan, faults, states):
    claimer, _ = make(write_faults=faults)
    results = claim(claimer, plan)
    assert [[event.next_step.name for event in result.events] for result in results] == states
    assert [result.events[0].attempt for result in results] == [1] * len(plan)


def test_a_lock_of_a_host_that_is_not_free_leaves_the_claims_to_single_ones(caplog):
    caplog.set_level("INFO")
    locks, api = KeyedLocks(), FakeConsumers(dict(HOSTS))
    alone = []

    def claim_alone(request, known):
        alone.append((request.uuid, known.events[-1].next_step))
        return ClaimResult(CLAIMED)

    requests = [make_request("i1", "aaaa"), make_request("i2", "bbbb")]
    policy = replace(PROMPT, lock_timeout=0.01)
    parts = ClaimParts(api, policy, Timing(), provider_locks=locks)
    batch = Batch(requests, parts, EmptyConsumers(9), claim_alone)
    with locks.hold(["bbbb"], 1):
        results = batch.claim_all()
    assert {uuid: result.outcome for uuid, result in results.items()} == {"i1": CLAIMED, "i2": CLAIMED}
    assert alone == [("i1", ClaimState.CLAIMED_ALONE), ("i2", ClaimState.CLAIMED_ALONE)]
    assert api.calls == []
    assert (
        "Claim for instance i1 on host aaaa, try 1: the locks of its hosts were not free in time"
        in caplog.text
    )


def test_instance_that_holds_allocations_of_another_request_is_refused_and_keeps_them():
    claimer, api = make()
    api.put_allocations(
        "instance 1", allocations_body(candidate("bbbb").allocations, Owner("project", "user"), None)
    )
    results = claim(claimer, ["aaaa", "aaaa", "bbbb"])
    assert results[1].outcome is Outcome.CONFLICT
    assert api.get_allocations("instance 1").allocations == candidate("bbbb").allocations


def test_instance_that_holds_its_candidate_by_another_request_is_adopted():
    claimer, api = make()
    api.put_allocations(
        "instance 1", allocations_body(candidate("bbbb").allocations, Owner("project", "user"), None)
    )
    results = claim(claimer, ["aaaa", "bbbb", "bbbb"])
    assert [(result.claimed, result.adopted) for result in results] == [
        (True, False),
        (True, True),
        (True, False),
    ]


def test_hopeless_batch_ends_the_request():
    claimer, api = make()
    api.capacity = {"aaaa": 99}
    api.write_faults = ["unreachable"]
    results = claim(claimer, ["aaaa"] * 45)
    assert api.calls == ["post"]
    assert {result.outcome for result in results} == {UNAVAILABLE}


def test_large_request_goes_in_pieces():
    claimer, api = make()
    api.capacity = {"aaaa": 99}
    assert all(result.claimed for result in claim(claimer, ["aaaa"] * 45))
    assert api.calls == ["post"] * 3


def test_allocations_of_an_abandoned_request_say_nothing_of_the_other_instances():
    claimer, api = make(write_faults=["lost"])
    api.give("instance 0", candidate("aaaa").allocations)
    assert all(result.claimed for result in claim(claimer, ["aaaa", "bbbb"]))
    assert (api.used("aaaa"), api.used("bbbb")) == (1, 1)


def test_after_the_first_unavailable_claim_no_other_is_sent():
    claimer, api = make(write_faults=["lost", "unreachable"])
    results = claim(claimer, ["aaaa", "bbbb", "aaaa"])
    assert {result.outcome for result in results} == {UNAVAILABLE}
    assert api.calls == ["post", *["read"] * 3, "put"]
    assert claimer.drain(5) == []


def test_instances_with_a_pending_cleanup_are_claimed_alone_until_placement_is_unavailable():
    claimer, api = make(write_faults=["unanswered", "unreachable"], read_faults=["silent"] * 3)
    claim(claimer, ["aaaa", "bbbb"])
    api.calls.clear()
    assert {result.outcome for result in claim(claimer, ["bbbb", "bbbb"])} == {UNAVAILABLE}
    assert api.calls == ["read", "put"]


def test_without_any_response_all_claims_fail_and_are_cleaned_up():
    claimer, api = make(write_faults=["unanswered"], read_faults=["silent"] * 3)
    results = claim(claimer, ["aaaa", "bbbb"])
    assert {result.outcome for result in results} == {UNAVAILABLE}
    assert claimer.drain(5) == []
    assert api.consumers == {}


@given(
    st.lists(st.sampled_from(["aaaa", "bbbb", "cccc", "dead"]), max_size=6),
    st.lists(FAULTS, max_size=8),
    st.lists(READS, max_size=12),
)
def test_under_random_faults_each_instance_holds_its_candidate_or_nothing(plan, write_faults, read_faults):
    claimer, api = make(write_faults=write_faults, read_faults=read_faults)
    results = claim(claimer, plan)
    api.settle()
    assert claimer.drain(5) == []
    for number, (host, result) in enumerate(zip(plan, results, strict=True)):
        held = api.get_allocations(f"instance {number}").allocations
        assert held == (candidate(host).allocations if result.claimed else {})
