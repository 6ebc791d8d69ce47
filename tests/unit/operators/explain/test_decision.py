"""What is shown of a decision: its pictures, and that nothing of the document is markup."""

import msgspec
import pytest

from scheduler import objects
from scheduler.decisions.document import (
    Best,
    CandidateOrigin,
    Cause,
    Constraint,
    Decision,
    Error,
    Failing,
    FilterStep,
    Hosts,
    Out,
    Reason,
    RequestedFlavor,
    Weights,
    Why,
    decode,
    encode,
)
from scheduler.decisions.trace import Trace
from scheduler.operators.explain import decision as shown_decision
from scheduler.operators.explain.decision import requested_lines
from scheduler.placement.claim_events import ClaimEvent, ClaimState
from tests.builders import uuid_of
from tests.support.pages import Page
from tests.support.shown import html_of
from tests.unit.filters.asking import make_request

RAM = Constraint("RamFilter", "filter", filter="RamFilter")
WHY = Why(3, constraints=[RAM], failing=[Failing([0], 2, ["h3", "h4"], [[Reason("few", 2)]])])
CAUSE = Cause("resources", "RamFilter", "2 hosts are rejected only by RamFilter: few", "Add capacity.")
SERVED = {"error": None, "cause": None, "why": None, "result": "scheduled"}


def made(**changes):
    """A decision with something in each part of the page."""
    values = {
        "time": "2026-01-01T00:00:00.000+00:00",
        "request_id": "req-1",
        "kind": "build",
        "project_id": "p",
        "instances": ["i"],
        "flavor": RequestedFlavor("m1", 1),
        "availability_zone": None,
        "result": "failed",
        "error": Error("NoValidHost", "none"),
        "summary": CAUSE.words,
        "cause": CAUSE,
        "why": WHY,
        "queries": ["GET /allocation_candidates"],
        "candidates": CandidateOrigin(source="placement", hosts=3),
        "filters": [FilterStep("i", "RamFilter", 3, 1, applies=True)],
        "hosts": Hosts(
            True,
            ["h1", "h3"],
            ["h1", "n3"],
            [0, 0],
            [0, 0],
            ["passed", "rejected"],
            [-1, 0],
            [-1, 0],
            {0: "c"},
            {0: "z"},
        ),
        "best": Best(
            [0],
            [0.5],
            [Weights("RAMWeigher", [4.0], 0.0, 4.0, 1.0), Weights("IoOpsWeigher", [1.0], 0.0, 2.0, [-1.0])],
        ),
        "claims": {"i": [ClaimEvent(1, "h1", 409, "taken", ClaimState.GIVEN_UP)]},
        "milliseconds": {"total": 3.2},
    }
    return Decision(**(values | changes))


def render(decision):
    return html_of(shown_decision.shown(decision, "ctl (memory)", None))


def test_the_page_has_a_picture_of_each_stage():
    page = Page(render(made()))
    assert sum(tag == "svg" for tag, _ in page.elements) == 2


def test_cause_and_remedy_come_first():
    texts = Page(render(made())).texts
    assert texts[texts.index("Result") + 1 :][:5] == [
        "no host (NoValidHost)",
        "Cause",
        "2 hosts are rejected only by RamFilter: few (resources)",
        "Remedy",
        "Add capacity.",
    ]
    assert texts.index("Project") > texts.index("Remedy")


def test_words_are_those_of_the_terminal():
    """The titles of its tables, and why hosts are out."""
    shown = shown_decision.shown(made(), "memory", None)
    page, (stages, failed, hosts) = Page(html_of(shown)), shown.tables
    assert [tuple(map(str, row)) for row in page.tables[1][1:]] == [("2", "RamFilter: few", "h3, h4")]
    assert list(failed.columns) == page.tables[1][0]
    assert [name for name in page.tables[0][0] if name] == list(stages.texts()[0])
    assert [name for name in page.tables[-1][0] if name] == list(hosts.columns)
    assert [(row[4], row[5]) for row in page.tables[-1][1:]] == [
        ("passed", "RAMWeigher 1, IoOpsWeigher -0.5"),
        ("rejected", "RamFilter"),
    ]


def test_time_cloud_version_and_options_are_on_the_page():
    assert "2026-01-02 03:04:05 UTC, region one, Berth 1.2: decision req-1" in Page(render(made())).texts


def test_the_query_is_readable():
    query = (
        "limit=1000&member_of=in%3Aa%2Cb&resources=VCPU%3A1%2CMEMORY_MB%3A64&required1=%21T&group_policy=none"
    )
    words = "limit=1000&member_of=in:a,b&resources=VCPU:1,MEMORY_MB:64&required1=!T&group_policy=none"
    assert ("query", words) in shown_decision.head(made(queries=[query]), "log").facts


@pytest.mark.parametrize("part", ["request_id", "project_id", "availability_zone"])
def test_texts_of_the_document_are_no_markup(part):
    html = render(made(**{part: "<script>alert(1)</script>"}))
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html


def test_a_stage_that_left_hosts_says_why_others_are_out():
    steps = [FilterStep("i", "A", 9, 3, applies=True, out=[Out("few", 2, ["h1", "h2"])])]
    found = shown_decision.funnel(made(filters=steps, claims={}, **SERVED))
    assert found.texts()[1][-1][3].split("\n") == ["few (h1, h2)", "4 more hosts, reason not computed"]


def stages_of(*stages, failed=True, hosts=200):
    """The funnel of a decision with these filters: name, hosts before, hosts after."""
    steps = [FilterStep("i", name, start, end, applies=True) for name, start, end in stages]
    found = CandidateOrigin(source="placement", hosts=hosts)
    changes = {} if failed else SERVED
    return shown_decision.funnel(made(filters=steps, candidates=found, claims={}, **changes))


def test_bars_are_shares_of_the_widest_stage():
    found = stages_of(("A", 200, 50), ("B", 50, 0))
    assert [(row[0], row[3].whole, row[3].part) for row in found.rows] == [
        ("Placement", 100, 100),
        ("A", 100, 25),
        ("B", 25, 0),
    ]


def test_a_stage_of_few_hosts_can_be_seen():
    assert stages_of(("A", 10_000, 1)).rows[-1][3].part == shown_decision.NARROWEST


@pytest.mark.parametrize(
    ("ends", "names"),
    [
        ([9, 9, 9], ["3 stages: none by A, B, C"]),
        ([9, 5, 5, 5], ["A", "B", "2 stages: none by C, D"]),
        ([5, 5, 4], ["A", "B", "C"]),
        ([9, 9, 0], ["2 stages: none by A, B", "C"]),
    ],
    ids=str,
)
def test_stages_that_filtered_nothing_are_one_row(ends, names):
    starts = [9, *ends]
    found = stages_of(*zip("ABCD", starts, ends, strict=False))
    rows = found.texts()[1][1:]
    assert [f"{row[0]}: {row[3]}" if "stages" in row[0] else row[0] for row in rows] == names


@pytest.mark.parametrize(
    ("stages", "failed", "deciding"),
    [
        ([("A", 9, 5), ("B", 5, 0)], True, "B"),
        ([("A", 9, 5), ("B", 5, 5)], True, None),
        ([("A", 9, 0)], False, None),
    ],
    ids=["no host left", "hosts left", "found a host on the next try"],
)
def test_the_stage_that_left_no_host_decides(stages, failed, deciding):
    found = stages_of(*stages, failed=failed)
    named = [found.rows[number][0] for number, look in found.looks.items() if look == "deciding"]
    assert named == [deciding] * (deciding is not None)
    steps = [FilterStep("i", *each, applies=True) for each in stages]
    html = render(made(filters=steps, claims={}, **({} if failed else SERVED)))
    assert len(Page(html).of_class("deciding")) == (deciding is not None)


UUID = uuid_of("image")
GROUP = {"uuid": uuid_of("group"), "policy": "anti-affinity", "members": ["a", "b"], "hosts": ["h2", "h1"]}


def lines(**fields):
    return list(requested_lines(decode(encode(Trace(make_request(**fields)).decision))))


@pytest.mark.parametrize(
    ("fields", "title", "text"),
    [
        ({"force_hosts": ["h1"]}, "forced to", "h1"),
        ({"force_nodes": ["n1"]}, "forced to", "n1"),
        (
            {"requested_destination": objects.Destination(host="h1", node="n1")},
            "requested destination",
            "host h1, node n1",
        ),
        ({"ignore_hosts": ["h1", "h2"]}, "ignored hosts", "h1, h2"),
        (
            {"hints": {"same_host": ["A", "B"], "query": ["[]"]}},
            "hints",
            "same_host=A, same_host=B, query=[]",
        ),
        (
            {"group": GROUP | {"name": "db", "_rules": {"max_server_per_host": "2"}}},
            "server group",
            f"db ({GROUP['uuid']}): anti-affinity, max_server_per_host=2, 2 members on h1, h2",
        ),
        (
            {"group": {"uuid": GROUP["uuid"], "policies": ["affinity"], "policy": None}},
            "server group",
            f"{GROUP['uuid']}: affinity, 0 members",
        ),
        (
            {
                "image": objects.ImageMeta(
                    id=UUID,
                    name="debian",
                    properties=objects.ImageMetaProps(hw_disk_bus="virtio", traits_required=["A", "B"]),
                )
            },
            "image",
            "debian: hw_disk_bus=virtio, traits_required=A,B",
        ),
    ],
    ids=str,
)
def test_what_is_asked_for_is_one_line(fields, title, text):
    assert lines(**fields) == [(title, text)]


def test_what_is_not_asked_for_is_not_mentioned():
    assert lines(image={}, requested_destination=objects.Destination(aggregates=["a"])) == []


def test_of_a_request_that_was_not_kept_nothing_is_said():
    decision = Trace(make_request(force_hosts=["h1"])).decision
    decision.spec = msgspec.Raw(b"null")
    assert list(requested_lines(decision)) == []
