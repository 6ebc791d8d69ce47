"""All pages: what a page may run and load."""

from base64 import b64encode
from hashlib import sha256
import re
import unicodedata

import pytest

from scheduler.operators.report.overview import summarize
from scheduler.operators.report.site import Site
from scheduler.operators.shadow import report
from scheduler.operators.shown import page
from scheduler.operators.shown.files import Origin
from scheduler.operators.shown.shown import Head, Shown
from tests.support.pages import Page
from tests.support.shown import html_of
from tests.unit.operators.explain.test_decision import made, render


def shadow():
    return html_of(report.shown(report.summarize([]), "2026-01-01T00:00:00"))


PAGES = {
    "decision": lambda: render(made()),
    "shadow": shadow,
    "report": lambda: html_of(Site(summarize([], 0.0, 1.0), [], "no database").index()),
}


@pytest.fixture(params=PAGES)
def html(request):
    return PAGES[request.param]()


def allowed(html, kind):
    """The digests that the policy of a page allows for scripts or styles."""
    (policy,) = (
        each["content"]
        for _, each in Page(html).elements
        if each.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy == page.policy()
    return re.search(rf"{kind}-src ([^;]*)", policy)[1].split()


def digests(parts):
    return {f"'sha256-{b64encode(sha256(part.encode()).digest()).decode()}'" for part in parts}


def test_a_page_has_only_the_style_and_the_scripts_that_its_policy_allows(html):
    found = Page(html)
    assert digests(found.inside["style"]) == set(allowed(html, "style"))
    assert digests(found.inside.get("script", ())) <= set(allowed(html, "script"))


def test_a_page_loads_nothing_and_has_no_style_that_the_policy_forbids(html):
    elements = Page(html).elements
    assert not [tag for tag, each in elements if {"src", "style", "onclick"} & set(each)]
    assert not [each["href"] for tag, each in elements if ":" in each.get("href", "")]
    assert "default-src 'none'" in page.policy()
    assert "unsafe" not in page.policy()


def test_a_page_has_no_control_characters_of_names_and_hints():
    """Whoever prints it to a terminal would be shown what a user of the cloud has written."""
    decision = made()
    decision.flavor.name = decision.availability_zone = "a\x1b]0;PWN\x07\x9b \u202e<b>"
    html = render(decision)
    assert not [each for each in html if unicodedata.category(each) in {"Cc", "Cf"} and each != "\n"]
    assert r"a\x1b]0;PWN\x07\x9b \u202e&lt;b&gt;" in html


def test_a_page_has_no_control_characters_of_the_name_in_the_question():
    origin = Origin("2026-01-01T00:00:00", "", "1.0", ("host", "h\x1b[2J"))
    html = page.render(Shown({}, Head("A host")), origin)
    assert r"Berth 1.0: host &#39;h\x1b[2J&#39;" in html
    assert "\x1b" not in html
