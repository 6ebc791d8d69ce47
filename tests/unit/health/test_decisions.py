"""What decisions add to the counters."""

from types import SimpleNamespace

import pytest

from scheduler import errors
from scheduler.cmd.traffic import traffic_counter
from scheduler.decisions.document import CandidateOrigin, Cause, Error, FilterStep
from scheduler.decisions.trace import Trace
from scheduler.health import catalogue
from scheduler.health.counters import Counters
from scheduler.health.decisions import DecisionCounter
from scheduler.placement.claim_events import ClaimEvent, ClaimState
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rpc.calls import Call
from tests.support.counted import counted
from tests.unit.filters.asking import make_spec


def event(next_step, attempt=1):
    return ClaimEvent(attempt, "host", 204, "cause", next_step)


def noted(times=None, sent_at=5.0, context=None, **changes):
    spec = make_spec(instance_uuid="i1")
    trace = Trace(SchedulingRequest.of(spec, ["i1", "i2"], context, arrived_at=5.0))
    trace.sent_at = sent_at
    changes = {
        "times": times or {"total": 0.2},
        "candidates": CandidateOrigin(source="placement", hosts=12),
        **changes,
    }
    for name, value in changes.items():
        setattr(trace.record, name, value)
    return trace


@pytest.fixture
def count():
    """A function that counts decisions, and returns what that adds."""

    def count(*traces, error=None):
        counters = Counters()
        counter = DecisionCounter(counters)
        for each in traces:
            counter.count(each, error)
        return counted(counters)

    return count


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "placed"),
        (errors.NoValidHost("none"), "no_valid_host"),
        (errors.RequestFilterFailed("none"), "no_valid_host"),
        (errors.HostsUnknown(["cell1"]), "outage"),
        (errors.PlacementUnavailable("HTTP 403"), "outage"),
        (errors.InvalidRequest("bad"), "invalid"),
        (errors.ReturnedToBroker(), "returned"),
        (errors.NetworkError("away"), "error"),
        (ValueError("a rule of the operator"), "error"),
        (SystemExit(), "error"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_requests_and_instances_are_counted_by_outcome(count, error, outcome):
    counts = count(noted(), error=error)
    assert counts["berth_requests_total", (outcome,)] == 1
    assert counts["berth_instances_total", (outcome,)] == 2
    assert outcome in catalogue.OUTCOMES


@pytest.mark.parametrize("cause", [Cause("compute_down", "ComputeFilter", "-", "-"), None])
def test_failures_without_a_host_are_counted_by_cause(count, cause):
    failed = noted(error=Error("NoValidHost" if cause else "HostsUnknown", "-"))
    failed.decision.cause = cause
    counts = count(failed)
    causes = {key: value for key, value in counts.items() if key[0] == "berth_no_valid_host_total"}
    assert causes == ({("berth_no_valid_host_total", ("compute_down",)): 1} if cause else {})


def test_times_are_counted_by_stage_and_as_a_whole(count):
    counts = count(noted(times={"query": 0.5, "claims": 0.25, "unheard of": 1.0, "total": 2.0}))
    sums = {key: value for key, value in counts.items() if key[0].endswith("duration_seconds_sum")}
    assert sums == {
        ("berth_stage_duration_seconds_sum", ("query",)): 0.5,
        ("berth_stage_duration_seconds_sum", ("claims",)): 0.25,
        ("berth_request_duration_seconds_sum", ()): 2.0,
    }


def test_the_wait_for_a_thread_is_a_stage(count):
    each = noted(context=SimpleNamespace(call=Call(received=4.25)))
    assert count(each)["berth_stage_duration_seconds_sum", ("queue",)] == 0.75


def test_requests_that_share_a_query_are_told_from_those_with_their_own(count):
    asked = [
        noted(candidates=CandidateOrigin(source=name, hosts=3), sent_at=at)
        for name, at in (("coalesced", 5.0), ("placement", 6.0), ("coalesced", 5.0), ("coalesced", 5.0))
    ]
    counts = count(*asked)
    assert counts["berth_candidate_answers_total", ("own",)] == 2
    assert counts["berth_candidate_answers_total", ("shared",)] == 2
    assert counts["berth_candidates_sum", ("placement",)] == 12


@pytest.mark.parametrize("name", ["mirror", "table", "held"])
def test_other_answers_are_counted_by_their_source(count, name):
    counts = count(noted(candidates=CandidateOrigin(source=name, hosts=3)))
    assert counts["berth_candidate_answers_total", (name,)] == 1
    assert counts["berth_candidates_sum", (name,)] == 3


def test_a_query_that_failed_and_a_request_without_one(count):
    asked = CandidateOrigin(source="placement", failed=True)
    for failed in (noted(sent_at=0.0), noted(candidates=asked)):
        assert count(failed)["berth_candidate_answers_total", ("failed",)] == 1
    assert not [key for key in count(noted(candidates=CandidateOrigin())) if "candidate" in key[0]]


def test_hosts_are_counted_by_the_filter_that_turned_them_down(count):
    passed = (("A", 10, 8), ("B", 8, 8), ("C", 8, 5), ("A", 5, 4))
    steps = [FilterStep("i", *each, applies=True) for each in passed]
    counts = count(noted(filters=steps))
    filtered = {
        labels: value for (name, labels), value in counts.items() if name == "berth_hosts_filtered_total"
    }
    assert filtered == {("A",): 3, ("C",): 3}


def test_claims_are_counted_by_outcome_and_tries(count):
    events = (
        event(ClaimState.RESENDING),
        event(ClaimState.NEXT_HOST, 2),
        event(ClaimState.GRANTED, 1),
    )
    counts = count(noted(claims={"i1": events, "i2": (event(ClaimState.GIVEN_UP, 5),)}))
    claims = {labels: value for (name, labels), value in counts.items() if name == "berth_claims_total"}
    assert claims == {("granted",): 1, ("next_host",): 1, ("given_up",): 1}
    assert (counts["berth_claim_tries_count", ()], counts["berth_claim_tries_sum", ()]) == (3, 8)


def test_messages_that_are_not_answered_here_are_counted():
    counters = Counters()
    count = traffic_counter(counters)
    count("refused")
    count("undelivered")
    assert counted(counters) == {
        ("berth_messages_refused_total", ()): 1,
        ("berth_replies_undelivered_total", ()): 1,
    }


def test_only_known_stages_are_counted(count):
    stages = dict.fromkeys([*catalogue.STAGES, "unheard of", "total"], 0.1)
    counts = count(noted(times=stages))
    assert {labels[0] for name, labels in counts if name == "berth_stage_duration_seconds_count"} == set(
        catalogue.STAGES
    )
