"""The page of a decision: its pictures, and that nothing of the document is markup."""

from html.parser import HTMLParser

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from scheduler.explain import page
from scheduler.explain.document import (
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
from scheduler.explain.rendering import Host, Stage
from scheduler.placement.claim_events import ClaimEvent, ClaimState


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
        "summary": "RamFilter turned down 2",
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


class Checker(HTMLParser):
    """Notes elements, and fails for one that is closed in the wrong place."""

    VOID = {"meta", "br", "input"}

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(html):
    checker = Checker()
    checker.feed(html)
    assert checker.open == []
    return checker.seen


def test_the_page_is_well_formed_and_loads_nothing():
    elements = parsed(render(made()))
    assert not [tag for tag, attributes in elements if {"src", "href"} & set(attributes)]
    assert sum(tag == "svg" for tag, _ in elements) == 3


@pytest.mark.parametrize("part", ["request_id", "summary", "project_id", "availability_zone"])
def test_texts_of_the_document_are_no_markup(part):
    html = render(made(**{part: "<script>alert(1)</script>"}))
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html


def test_bars_are_shares_of_the_widest_stage_and_claims_have_none():
    stages = [
        stage("Placement", None, 200, "candidates"),
        stage("A", 200, 50),
        stage("B", 50, 0),
        stage("claims", 2, 1, "claims"),
    ]
    assert [(bar.stage.name, bar.entered, bar.left) for bar in page.funnel_bars(stages)] == [
        ("Placement", 100, 100),
        ("A", 100, 25),
        ("B", 25, 0),
    ]


def test_a_stage_of_few_hosts_can_be_seen():
    assert page.funnel_bars([stage("A", 10_000, 1)])[0].left == page.NARROWEST


def test_negative_weights_are_left_of_zero():
    weights = page.weight_bars([host("h1", ram=3.0, io=-1.0, cpu=1.0)])
    (row,) = weights.rows
    assert weights.zero == pytest.approx(20)
    assert [(one.weigher, one.start, one.width) for one in row.segments] == [
        ("ram", pytest.approx(20), pytest.approx(60)),
        ("io", pytest.approx(0), pytest.approx(20)),
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
