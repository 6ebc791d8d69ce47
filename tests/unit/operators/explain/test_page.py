"""The page of a decision: its pictures, and that nothing of the document is markup."""

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from scheduler.decisions.document import (
    Best,
    Candidates,
    Decision,
    Error,
    Flavor,
    Hosts,
    Step,
    Verdict,
    Weights,
)
from scheduler.decisions.failure_cause import cause_of
from scheduler.decisions.rendering import Host, Stage
from scheduler.operators.explain import page
from scheduler.operators.explain import text as explain_text
from scheduler.placement.claim_events import ClaimEvent, ClaimState
from tests.support.pages import Page

OFFERED = Candidates(source="placement", hosts=3, known=3, allowed=3)
SERVED = {"error": None, "result": "scheduled"}


def stage(name, start, end, kind="filter"):
    return Stage(kind, name, start, end)


def host(name, **weights):
    return Host(name, name, "c", "z", "passed", "", "", None, sum(weights.values()), list(weights.items()))


def made(**changes):
    """A decision with something in each part of the page."""
    values = {
        "time": "2026-01-01T00:00:00.000+00:00",
        "request_id": "req-1",
        "kind": "build",
        "project_id": "p",
        "instances": ["i"],
        "flavor": Flavor("m1", 1),
        "availability_zone": None,
        "result": "failed",
        "error": Error("NoValidHost", "none"),
        "summary": "RamFilter rejected 2",
        "queries": ["GET /allocation_candidates"],
        "candidates": Candidates(source="placement", hosts=3),
        "filters": [Step("i", "RamFilter", 3, 1, applies=True)],
        "verdicts": [Verdict("passed", count=1), Verdict("rejected", 0, "few", 2)],
        "hosts": Hosts(True, ["h1", "h3"], ["h1", "n3"], [0, 0], [0, 0], [0, 1], {0: "c"}, {0: "z"}),
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
    return page.render(decision, "ctl.0 (memory)", None)


def test_the_page_has_a_picture_of_each_stage():
    page = Page(render(made()))
    assert sum(tag == "svg" for tag, _ in page.elements) == 2


def test_cause_and_remedy_come_first():
    error = Error("NoValidHost", "No valid host was found. There are not enough hosts available.")
    decision = made(filters=[Step("i", "RamFilter", 3, 0, applies=True)], candidates=OFFERED, error=error)
    assert Page(render(decision)).texts[2:7] == [
        "No host (NoValidHost)",
        "Cause",
        "RamFilter rejected 3 of 3 hosts: few",
        "Remedy",
        cause_of(decision).remedy,
    ]


def test_words_are_those_of_the_terminal():
    """The titles of its tables, and why hosts are out."""
    decision = made()
    tables = Page(render(decision)).tables
    stages, hosts = explain_text.funnel(decision), explain_text.hosts(decision, None)
    assert [name for name in tables[0][0] if name] == list(stages[0])
    assert set(tables[-1][0]) == set(hosts[0]) - {"Node"}
    assert [(row[3], row[4]) for row in tables[-1][1:]] == [("passed", ""), ("rejected", "RamFilter: few")]


def test_the_query_is_readable():
    query = (
        "limit=1000&member_of=in%3Aa%2Cb&resources=VCPU%3A1%2CMEMORY_MB%3A64&required1=%21T&group_policy=none"
    )
    assert list(page.query_terms(query)) == [
        ("limit", ["1000"]),
        ("member_of", ["in:a,b"]),
        ("resources", ["VCPU:1", "MEMORY_MB:64"]),
        ("required1", ["!T"]),
        ("group_policy", ["none"]),
    ]


@pytest.mark.parametrize("part", ["request_id", "summary", "project_id", "availability_zone"])
def test_texts_of_the_document_are_no_markup(part):
    html = render(made(**{part: "<script>alert(1)</script>"}))
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html


def rows(*stages, failed=True):
    return page.funnel_rows(stages, failed=failed)


def test_bars_are_shares_of_the_widest_stage():
    found = rows(
        stage("Placement", None, 200, "candidates"),
        stage("A", 200, 50),
        stage("B", 50, 0),
        stage("C", 2, 1, "claims"),
    )
    assert [(row.stage.name, row.before, row.after) for row in found[:3]] == [
        ("Placement", 100, 100),
        ("A", 100, 25),
        ("B", 25, 0),
    ]


def test_a_stage_of_few_hosts_can_be_seen():
    assert rows(stage("A", 10_000, 1))[0].after == page.NARROWEST


@pytest.mark.parametrize(
    ("ends", "names"),
    [
        ([9, 9, 9], [["A", "B", "C"]]),
        ([9, 5, 5, 5], [[], [], ["C", "D"]]),
        ([5, 5, 4], [[], [], []]),
        ([9, 9, 0], [["A", "B"], []]),
    ],
    ids=str,
)
def test_stages_that_filtered_nothing_are_one_row(ends, names):
    starts = [9, *ends]
    stages = [stage(name, start, end) for name, start, end in zip("ABCD", starts, ends, strict=False)]
    assert [list(row.names) for row in rows(*stages)] == names


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
    found = rows(*(stage(*each) for each in stages), failed=failed)
    assert [row.stage.name for row in found if row.deciding] == [deciding] * (deciding is not None)
    steps = [Step("i", *each, applies=True) for each in stages]
    html = render(made(filters=steps, claims={}, **({} if failed else SERVED)))
    assert len(Page(html).of_class("deciding")) == (deciding is not None)


def test_weights_are_differences_to_the_best():
    weights = page.weight_bars([host("h1", ram=3.0, io=-1.0, cpu=1.0), host("h2", ram=1.0, io=-0.5, cpu=1.0)])
    best, other = weights.rows
    assert (best.host, best.difference, list(best.segments)) == ("h1", 0.0, [])
    assert other.difference == pytest.approx(-1.5)
    assert [(one.weigher, one.weighted) for one in other.segments] == [("ram", -2.0), ("io", 0.5)]
    assert list(weights.colours) == ["ram", "io"]


def test_what_a_host_lacks_is_left_of_zero():
    weights = page.weight_bars([host("h1", ram=4.0, io=0.0, cpu=0.0), host("h2", ram=1.0, io=1.0, cpu=1.0)])
    assert weights.zero == pytest.approx(60)
    assert [(one.weigher, one.start, one.width) for one in weights.rows[1].segments] == [
        ("ram", pytest.approx(0), pytest.approx(60)),
        ("io", pytest.approx(60), pytest.approx(20)),
        ("cpu", pytest.approx(80), pytest.approx(20)),
    ]


amounts = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(st.dictionaries(st.text(min_size=1, max_size=3), amounts, max_size=12), max_size=6))
@example([{"ram": 2.2250738585e-313}])
def test_segments_stay_within_the_picture(hosts):
    weights = page.weight_bars([host(f"h{number}", **one) for number, one in enumerate(hosts)])
    for row in weights.rows:
        for one in row.segments:
            assert one.start >= -1e-6
            assert one.start + one.width <= 100 + 1e-6
            assert one.colour < page.COLOURS
