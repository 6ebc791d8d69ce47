"""The stages of a decision, its hosts one by one, and what filters say of one host."""

import msgspec
import pytest

from scheduler.decisions import document, rendering
from scheduler.decisions.document import Chosen, Out, Place, RequestedFlavor, decode, encode
from scheduler.decisions.trace import Trace
from scheduler.placement.answer import Candidates
from scheduler.placement.claim_events import ClaimEvent, ClaimState
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Written
from scheduler.request.scheduling_request import SchedulingRequest
from tests.builders import uuid_of
from tests.support.options import make_conf
from tests.unit.decisions.decisions import decide
from tests.unit.filters.asking import make_spec
from tests.unit.selection.requests import REFUSED, FakeClaims, host_with_candidate, session_of


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
def decision(conf):
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
    found = decide(conf, hosts, request, FakeClaims({uuid_of("best"): REFUSED})).decision
    found.candidates.hosts = 9
    return decode(encode(found))


def failed(conf, hosts, **options):
    """The document of a request that no host can take."""
    spec = make_spec(sizes={"memory_mb": 99999}, instance_uuid="i")
    return decide(conf, hosts, SchedulingRequest.of(spec, ["i"]), **options).decision


@pytest.mark.parametrize(
    ("flavor", "text"),
    [
        (RequestedFlavor("m1", 1, 2048, 20, 0, 0), "m1 (1 VCPU, 2048 MiB, 20 GiB root disk)"),
        (
            RequestedFlavor("m1", 1, 2048, 0, 5, 512),
            "m1 (1 VCPU, 2048 MiB, 0 GiB root disk, 5 GiB ephemeral disk, 512 MiB swap)",
        ),
        (RequestedFlavor("m1", extra_specs={"b": 2, "a": 1}), "m1 (a=1, b=2)"),
    ],
    ids=["usual", "all amounts", "without amounts"],
)
def test_a_flavor_has_its_amounts(flavor, text):
    assert rendering.flavor(flavor) == text


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        (["a"], "scheduled to a"),
        (list("abcde"), "scheduled to a, b, c and 2 more"),
    ],
)
def test_the_result_names_the_first_hosts(decision, hosts, text):
    chosen = [Chosen(str(number), Place(name, name), []) for number, name in enumerate(hosts)]
    assert rendering.result(msgspec.structs.replace(decision, chosen=chosen)) == text


def test_the_stages_tell_how_many_hosts_entered_and_left(decision):
    stages = list(rendering.funnel(decision))
    assert [(one.name, one.start, one.end) for one in stages] == [
        ("Placement", None, 9),
        ("Known in cells", 9, 8),
        ("Allowed by request", 8, 7),
        ("ComputeFilter", 7, 5),
        ("NumInstancesFilter", 5, 3),
        ("RamFilter", 3, 3),
    ]
    out = {one.name: list(one.out) for one in stages}
    assert out["Allowed by request"] == [Out("ignored by request", 1, ["ignored"])]
    assert out["NumInstancesFilter"] == [Out("7 to 9 instances, limit 6", 2, ["full6", "full9"])]
    assert out["RamFilter"] == []


def test_hosts_come_with_their_outcome_those_that_matter_first(decision):
    lines = list(rendering.hosts(decision))
    assert [(one.host, one.outcome, one.filter) for one in lines] == [
        ("good", "chosen", ""),
        ("other", "alternate", ""),
        ("best", "alternate", ""),
        ("full6", "rejected", "NumInstancesFilter"),
        ("full9", "rejected", "NumInstancesFilter"),
        ("down", "rejected", "ComputeFilter"),
        ("small", "rejected", "ComputeFilter"),
        ("ignored", "excluded by the request", ""),
    ]
    by_name = {one.host: one for one in lines}
    assert by_name["full6"].reason == "7 to 9 instances, limit 6"
    assert by_name["ignored"].reason == "ignored by request"
    assert (by_name["good"].cell, by_name["good"].zone) == ("cell1", "a")
    assert by_name["best"].zone == "default zone"
    assert by_name["best"].total > by_name["good"].total


def test_a_document_tells_the_same_once_it_was_written(conf):
    found = failed(conf, [host_with_candidate("h1"), host_with_candidate("h2").down()])
    read = decode(encode(found))
    assert list(rendering.funnel(read)) == list(rendering.funnel(found))
    assert list(rendering.hosts(read)) == list(rendering.hosts(found))


def test_a_host_that_refused_the_claim_is_one(conf):
    refused = Written(
        Outcome.REFUSED, cause="no room", events=(ClaimEvent(1, "h1", 409, "no room", ClaimState.NEXT_HOST),)
    )

    class Claimed(Trace):
        def finish(self, error, explain=None):
            self.claiming(session)
            return super().finish(error, explain)

    hosts = [host_with_candidate("h1"), host_with_candidate("full").num_instances(9)]
    request = SchedulingRequest.of(make_spec(instance_uuid="i", project_id="p", user_id="u"), ["i"])
    session = session_of(FakeClaims({uuid_of("h1"): refused}), request)
    found = decide(conf, hosts, request, session, make=Claimed).decision
    assert {one.host: (one.outcome, one.reason) for one in rendering.hosts(found)} == {
        "h1": ("claim refused", "no room"),
        "full": ("rejected", "9 instances, limit 6"),
    }


def test_refused_claims_are_a_stage_with_its_causes(decision):
    claims = {
        "i": [
            ClaimEvent(1, "best", 409, "no room", ClaimState.NEXT_HOST),
            ClaimEvent(1, "good", 204, "granted", ClaimState.GRANTED),
        ]
    }
    found = decode(encode(decision))
    found.claims = claims
    *_, last = rendering.funnel(decode(encode(found)))
    assert (last.kind, last.start, last.end) == ("claims", 2, 1)
    assert last.out == [Out("no room", 1, ["best"])]


def test_a_claim_that_was_released_as_its_host_is_over_capacity_is_not_granted(decision):
    found = decode(encode(decision))
    steps = [("best", ClaimState.GRANTED), ("best", ClaimState.OVER_CAPACITY), ("good", ClaimState.GRANTED)]
    found.claims = {"i": [ClaimEvent(1, host, None, "", step) for host, step in steps]}
    *_, last = rendering.funnel(found)
    assert (last.kind, last.start, last.end) == ("claims", 2, 1)


def of(decision, name):
    return next(one for one in rendering.hosts(decision) if one.host == name)


def test_a_host_is_explained_up_to_the_filter_that_rejected_it(decision):
    verdicts = list(rendering.verdicts(decision, of(decision, "full9")))
    assert [(one["filter"], one["verdict"], one["decisive"]) for one in verdicts] == [
        ("ComputeFilter", "passed", False),
        ("NumInstancesFilter", "rejected", True),
        ("RamFilter", "not run", False),
    ]
    assert verdicts[1]["reason"] == "7 to 9 instances, limit 6"


def test_a_host_that_the_request_excludes_was_shown_to_no_filter(decision):
    assert {one["verdict"] for one in rendering.verdicts(decision, of(decision, "ignored"))} == {"not run"}


def test_a_filter_that_has_nothing_to_say_does_not_apply():
    conf = make_conf(enabled_filters=["SameHostFilter"])
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    found = decide(conf, [host_with_candidate("h1")], request).decision
    assert [one["verdict"] for one in rendering.verdicts(found, of(found, "h1"))] == ["does not apply"]


def test_the_source_tells_a_shared_answer_from_one_for_the_request_alone():
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    sources = []
    for requests in (1, 3):
        trace = Trace(request)
        trace.answered(Candidates({"h": ()}, requests=requests))
        trace.finish(None)
        sources.append(trace.decision.candidates)
    assert [(one.source, one.requests) for one in sources] == [("placement", 1), ("coalesced", 3)]
    assert {one.origin for one in sources} == {"placement"}


def test_what_was_not_looked_at_is_said_of_the_candidates(conf):
    found = failed(conf, [])
    found.candidates = document.CandidateOrigin(source="placement", reason="nothing")
    found.why = document.Why(3, notes=["a note"])
    (stage,) = rendering.funnel(found)
    assert [one.text for one in stage.out] == ["nothing", "a note"]
