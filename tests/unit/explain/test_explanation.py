"""Explanations: the stages of a decision, its hosts one by one, and one host in full."""

import pytest

from scheduler.explain.document import document
from scheduler.explain.explanation import (
    LOG_FILE,
    Names,
    explain,
    explain_document,
    explain_host,
    explain_host_of,
)
from scheduler.explain.unoffered import DISABLED
from scheduler.placement.answer import Candidates
from scheduler.placement.claim_events import ClaimEvent, ClaimState
from scheduler.request.scheduling_request import SchedulingRequest
from tests.builders import CELL, uuid_of
from tests.support.options import make_conf
from tests.unit.explain.decisions import decide
from tests.unit.filters.asking import make_spec
from tests.unit.selection.requests import REFUSED, FakeClaims, host_with_candidate

NAMES = Names({CELL: "cell1"}, "default zone")


@pytest.fixture(scope="module")
def conf():
    return make_conf(
        enabled_filters=["ComputeFilter", "NumInstancesFilter", "RamFilter"],
        available_filters=[
            "nova.scheduler.filters.all_filters",
            "nova.scheduler.filters.ram_filter.RamFilter",
        ],
        max_instances_per_host=6,
    )


@pytest.fixture(scope="module")
def record(conf):
    """A decision with a host for each outcome: of the two that pass, the better one refuses its claim."""
    hosts = [
        host_with_candidate("ignored"),
        host_with_candidate("down").down(),
        host_with_candidate("full6").num_instances(7),
        host_with_candidate("full9").num_instances(9),
        host_with_candidate("small").ram(10).num_instances(8).down(),
        host_with_candidate("good").ram(4096).az("a"),
        host_with_candidate("best").ram(8192),
        host_with_candidate("other").ram(2048),
    ]
    spec = make_spec(sizes={"memory_mb": 1500}, instance_uuid="i", ignore_hosts=["ignored"])
    request = SchedulingRequest.of(spec, ["i"], with_alternates=True)
    found, *_ = decide(conf, hosts, request, FakeClaims({uuid_of("best"): REFUSED}))
    found.candidates.name, found.candidates.offered = "placement", 9
    return found


def stages(explained):
    return [(one["name"], one["start"], one["end"]) for one in explained["funnel"]]


def test_the_stages_tell_how_many_hosts_entered_and_left(record):
    explained = explain(record, NAMES, 100)
    assert stages(explained) == [
        ("Placement", None, 9),
        ("Known in cells", 9, 8),
        ("Allowed by request", 8, 7),
        ("ComputeFilter", 7, 5),
        ("NumInstancesFilter", 5, 3),
        ("RamFilter", 3, 3),
    ]
    reasons = {one["name"]: one["reasons"] for one in explained["funnel"]}
    assert reasons["Allowed by request"] == [
        {"reason": "ignored by request", "count": 1, "hosts": ["ignored"]}
    ]
    assert reasons["NumInstancesFilter"] == [
        {"reason": "7 to 9 instances, limit 6", "count": 2, "hosts": ["full6", "full9"]}
    ]
    assert reasons["RamFilter"] == []


def test_hosts_come_with_their_outcome_those_that_matter_first(record):
    explained = explain(record, NAMES, 100)
    assert [(one["host"], one["outcome"], one["filter"]) for one in explained["hosts"]] == [
        ("good", "chosen", None),
        ("other", "alternate", None),
        ("best", "alternate", None),
        ("full9", "rejected", "NumInstancesFilter"),
        ("full6", "rejected", "NumInstancesFilter"),
        ("small", "rejected", "ComputeFilter"),
        ("down", "rejected", "ComputeFilter"),
        ("ignored", "excluded by the request", None),
    ]
    by_name = {one["host"]: one for one in explained["hosts"]}
    assert by_name["full6"]["reason"] == "7 instances, limit 6"
    assert by_name["ignored"]["reason"] == "ignored by request"
    assert (by_name["good"]["cell"], by_name["good"]["zone"]) == ("cell1", "a")
    assert by_name["best"]["zone"] == "default zone"
    assert by_name["best"]["total"] > by_name["good"]["total"]
    assert (explained["hosts_total"], explained["hosts_complete"]) == (8, True)


def test_disabled_hosts_that_placement_hides_are_counted_with_those_that_a_filter_names(conf):
    """Of four disabled hosts the computes of two have told Placement so."""
    disabled = [host_with_candidate(f"off{number}").disabled() for number in range(4)]
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    found, *_ = decide(conf, [host_with_candidate("good"), *disabled[:2]], request, others=disabled[2:])
    found.candidates.name = "placement"
    reasons = {one["name"]: one["reasons"] for one in explain(found, NAMES, 100)["funnel"]}
    assert reasons["Placement"] == [{"reason": DISABLED, "count": 2, "hosts": ["off2", "off3"]}]
    assert [(one["count"], one["hosts"]) for one in reasons["ComputeFilter"]] == [(2, ["off0", "off1"])]


def test_a_list_of_hosts_can_be_cut(record):
    explained = explain(record, NAMES, 1)
    assert [one["host"] for one in explained["hosts"]] == ["good"]
    assert explained["hosts_total"] == 8


def test_what_a_decision_log_has_tells_the_same_stages(record):
    logged = explain_document(document(record), LOG_FILE)
    assert logged["funnel"] == explain(record, NAMES, 100)["funnel"]
    assert not logged["hosts_complete"]
    assert {one["host"]: one["outcome"] for one in logged["hosts"]}["full9"] == "rejected"


def test_the_work_pauses_between_pieces(conf):
    hosts = [host_with_candidate(f"h{number}").num_instances(9) for number in range(250)]
    found, *_ = decide(conf, hosts, SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"]))
    pauses = []
    explain(found, NAMES, 1000, pause=lambda: pauses.append(1))
    assert len(pauses) == 3 + 2  # for reasons, and for the list of hosts


def test_hosts_that_are_dropped_meanwhile_are_explained_to_the_end(conf):
    hosts = [host_with_candidate("h1"), host_with_candidate("full").num_instances(9)]
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    found, *_ = decide(conf, hosts, request)
    found.claims = {"i": [ClaimEvent(1, "h1", 409, "no room", ClaimState.NEXT_HOST)]}
    found.selections = ()
    explained = explain(found, NAMES, 10, pause=found.drop_hosts)
    assert {one["host"]: one["outcome"] for one in explained["hosts"]} == {
        "h1": "claim refused",
        "full": "rejected",
    }


def test_refused_claims_are_a_stage_with_its_causes(record):
    decision = document(record)
    ends = {"attempt": 1, "status": 409, "ended": True}
    decision["claims"] = {
        "i": [
            ends | {"host": "best", "cause": "no room", "granted": False},
            ends | {"host": "good", "cause": "granted", "granted": True},
        ]
    }
    *_, last = explain_document(decision, LOG_FILE)["funnel"]
    assert (last["stage"], last["start"], last["end"]) == ("claims", 2, 1)
    assert last["reasons"] == [{"reason": "no room", "count": 1, "hosts": ["best"]}]


def test_a_host_is_explained_by_all_filters(record):
    answer = explain_host(record, "small", NAMES)
    (node,) = answer["nodes"]
    assert [(one["filter"], one["verdict"], one["decisive"]) for one in node["verdicts"]] == [
        ("ComputeFilter", "rejected", True),
        ("NumInstancesFilter", "rejected", False),
        ("RamFilter", "rejected", False),
    ]
    assert [bool(one["reason"]) for one in node["verdicts"]] == [True, True, True]
    assert (node["outcome"], node["filter"]) == ("rejected", "ComputeFilter")


def test_a_host_that_the_request_excludes_was_shown_to_no_filter(record):
    (node,) = explain_host(record, "ignored", NAMES)["nodes"]
    assert (node["outcome"], node["reason"]) == ("excluded by the request", "ignored by request")
    assert {one["verdict"] for one in node["verdicts"]} == {"not run"}


@pytest.mark.parametrize(
    ("name", "source", "words"),
    [
        ("absent", "placement", "No compute node"),
        ("h9", "placement", "Placement did not offer h9: its inventory or traits do not suit the query"),
        ("h8", "placement", f"Placement did not offer h8: {DISABLED}"),
        ("h9", "coalesced", "Placement did not offer"),
        ("h9", "mirror", "from the mirror"),
    ],
)
def test_a_host_that_was_no_candidate_is_said_to_be_none(conf, name, source, words):
    others = [host_with_candidate("h9"), host_with_candidate("h8").disabled()]
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    found, *_ = decide(conf, [host_with_candidate("h1")], request, others=others)
    found.candidates.name = source
    answer = explain_host(found, name, NAMES)
    assert answer["nodes"] == []
    assert words in answer["note"]


def test_of_a_record_without_data_of_hosts_the_named_ones_are_told(record):
    logged = explain_document(document(record), LOG_FILE)
    answer = explain_host_of(logged, "full6")
    assert [(one["outcome"], one["reason"]) for one in answer["nodes"]] == [
        ("rejected", "7 instances, limit 6")
    ]
    assert "no longer kept" in answer["note"]


def test_the_source_tells_a_shared_answer_from_one_for_the_request_alone(conf):
    from scheduler.explain.trace import Trace

    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    sources = []
    for requests in (1, 3):
        trace = Trace(request)
        trace.answered(Candidates({"h": ()}, requests=requests))
        sources.append(document(trace.finish(None))["candidates"])
    assert [(one["source"], one["requests"]) for one in sources] == [("placement", 1), ("coalesced", 3)]
