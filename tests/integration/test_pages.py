"""The pages in a browser: light, dark and narrow, with and without JavaScript."""

from base64 import b64encode
from hashlib import sha256
import html
import json
import re
import subprocess

import pytest

from scheduler.decisions.document import (
    Best,
    Cause,
    Constraint,
    Error,
    Failing,
    FilterStep,
    Hosts,
    Out,
    Weights,
    Why,
)
from scheduler.decisions.document import (
    Reason as WhyReason,
)
from scheduler.operators.explain import decision as shown_decision
from scheduler.operators.plan.drain import DrainPlan, Target
from scheduler.operators.plan.moves import PlannedMove, Unplaced
from scheduler.operators.report.hosts import ReportedHosts as AllHosts
from scheduler.operators.report.hosts import ReportedState
from scheduler.operators.shadow import report as shadow_report
from scheduler.operators.shadow.decisions import ShadowVerdict as Compared
from tests.integration import services
from tests.support.shown import html_of
from tests.unit.operators.explain.test_decision import made
from tests.unit.operators.report import test_site
from tests.unit.operators.shadow.test_shadow import comparison

pytestmark = pytest.mark.timeout(120)

#: The preferences that Blink knows.
LIGHT, DARK = "preferredColorScheme=1", "preferredColorScheme=0"

#: Keeps the scripts of a page from running.
NO_SCRIPT = """<meta http-equiv="Content-Security-Policy" content="script-src 'none'">"""

#: The smallest contrast of text that WCAG 2 accepts (level AA).
CONTRAST = 4.5

#: Runs before the page's script: errors, which a browser would only show on its console.
EARLY = """const errors = []; addEventListener("error", event => errors.push(event.message));
addEventListener("securitypolicyviolation", event => errors.push(event.violatedDirective));
const warn = console.error; console.error = (...words) => errors.push(words.join(" "));"""

#: Runs after it: does what a reader would do.
SEARCHED = """
const input = document.querySelector(".search input"), rows = () => Array.from(document.querySelectorAll(".searched tbody tr"));
const names = () => rows().filter(row => !row.hidden && row.offsetHeight).map(row => row.cells[0].textContent);
const seen = {search: !document.querySelector(".search").hidden, first: names(), errors};
for (const words of ["H2", "disabled", "nothing at all", ""]) {
  input.value = words; input.dispatchEvent(new Event("input")); seen["search " + words] = names();
}
const heads = document.querySelectorAll(".searched th button");
heads[0].click(); seen.sorted = names();
heads[0].click(); seen["sorted again"] = names();
heads[5].click(); seen["sorted by weight"] = names();
"""

#: Looks at the whole page: what of it is cut on the right, and the colours of each text and what is behind it.
LOOKED_AT = """
const rgba = text => text.match(/[\\d.]+/g).map(Number);
const behind = element => {
  for (; element; element = element.parentElement) {
    const colour = rgba(getComputedStyle(element).backgroundColor);
    if (colour.length < 4 || colour[3]) return colour.slice(0, 3);
  }
};
const shown = Array.from(document.body.querySelectorAll("*")).filter(each => each.getClientRects().length);
const texts = shown.filter(each => !each.closest("svg") && Array.from(each.childNodes).some(
  node => node.nodeType === Node.TEXT_NODE && node.textContent.trim()));
const seen = {
  errors,
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
  paper: rgba(getComputedStyle(document.body).backgroundColor).slice(0, 3),
  width: innerWidth,
  cut: shown.filter(each => each.getBoundingClientRect().right > innerWidth + 1).map(each => each.outerHTML.slice(0, 200)),
  wide: document.documentElement.scrollWidth > innerWidth,
  colours: texts.map(each => [each.textContent.trim().slice(0, 60), rgba(getComputedStyle(each).color).slice(0, 3), behind(each)]),
  bars: Array.from(document.querySelectorAll("svg rect")).map(rect => rect.getBoundingClientRect().width),
  loaded: performance.getEntriesByType("resource").map(each => each.name),
};
"""

#: Leaves what was seen in the document.
TOLD = """
const told = document.createElement("pre");
told.id = "told"; told.textContent = JSON.stringify(seen); document.body.append(told);
"""


def decision():
    """The decision of the unit test, with hosts to be searched and sorted."""
    names, outcomes = ["h2", "h10", "h1"], ["chosen", "alternate", "rejected"]
    columns = outcomes, [-1, -1, 0], [-1] * 3
    hosts = Hosts(True, names, names, [0] * 3, [0] * 3, *columns, {0: "cell1"}, {0: "az1"})
    out = [Out("service disabled (kernel update)", 1, ["h1"])]
    filters = [FilterStep("i", "ComputeFilter", 3, 2, applies=True, out=out)]
    best = Best([0, 1], [10.5, 9.25], [Weights("RAMWeigher", [10.5, 9.25], 0.0, 1.0, 1.0)])
    return made(filters=filters, hosts=hosts, best=best, why=None)


@pytest.fixture(scope="module")
def browser():
    """The command of a browser."""
    return services.browser()


@pytest.fixture
def dump(browser, tmp_path):
    """A function that returns the document that a browser makes of HTML."""

    def run(text, scheme=LIGHT, width=1000):
        (tmp_path / "page.html").write_text(text)
        done = subprocess.run(
            [
                *(browser, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"),
                *(f"--user-data-dir={tmp_path}/profile", f"--blink-settings={scheme}"),
                *("--dump-dom", f"file://{tmp_path}/page.html"),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return run


def rendered():
    return html_of(shown_decision.shown(decision(), "ctl.0 (memory)", None))


def told(dom):
    """What the script of a test has left in the document."""
    found = re.search(r'<pre id="told">(.*?)</pre>', dom, re.DOTALL)
    assert found, dom[-2000:]
    return json.loads(html.unescape(found[1]))


def with_scripts(text, late):
    """A page with scripts of the test, which its policy allows beside its own."""
    late = late + TOLD
    allowed = " ".join(
        f"'sha256-{b64encode(sha256(one.encode()).digest()).decode()}'" for one in (EARLY, late)
    )
    text = text.replace("script-src ", f"script-src {allowed} ", 1)
    text = text.replace('<meta name="viewport"', f'<script>{EARLY}</script><meta name="viewport"', 1)
    return text.replace("</body>", f"<script>{late}</script></body>")


def test_hosts_can_be_searched_and_sorted(dump):
    found = told(dump(with_scripts(rendered(), SEARCHED)))
    assert found["errors"] == []
    assert found["search"]
    assert found["first"] == ["h2", "h10", "h1"]
    assert found["search H2"] == ["h2"]
    assert found["search disabled"] == ["h1"]
    assert found["search nothing at all"] == []
    assert found["search "] == found["first"]
    assert found["sorted"] == ["h1", "h2", "h10"]
    assert found["sorted again"] == ["h10", "h2", "h1"]
    assert found["sorted by weight"] == ["h1", "h10", "h2"]


#: Names as long as those of clouds are.
LONG = "compute-0123.rack-07.region-one.example.org"


def failed():
    """A decision that one filter left without a host, with long names and many stages."""
    steps = [
        FilterStep("i", name, 3, 3, applies=True)
        for name in ("ServerGroupAntiAffinityFilter", "ImagePropertiesFilter")
    ]
    last = FilterStep("i", "AggregateInstanceExtraSpecsFilter", 3, 0, applies=True)
    rule = Constraint(last.filter, "filter", filter=last.filter)
    reason = WhyReason(f"extra spec {LONG}={LONG} is not met", 3)
    return made(
        request_id="req-1153c1f3-d5ca-4917-8903-1e576291d389",
        error=Error("NoValidHost", "No valid host was found. There are not enough hosts available."),
        filters=[*steps, last],
        why=Why(3, constraints=[rule], failing=[Failing([0], 3, [LONG] * 3, [[reason]])]),
        cause=Cause("aggregate", rule.text, f"3 hosts are rejected only by {rule.text}: {reason.text}", "-"),
        hosts=Hosts(
            *(True, [LONG] * 3, ["other.node"] * 3, [0] * 3, [0] * 3, ["rejected"] * 3, [2] * 3, [0] * 3),
            *({0: "cell1"}, {0: "az1"}),
        ),
        best=Best(),
        queries=[f"resources=VCPU%3A1%2CMEMORY_MB%3A64&member_of=in%3A{'0123456789abcdef' * 6}"],
    )


def report_pages(count):
    """The pages of a report on so many hosts, in each state."""
    states = list(ReportedState)
    hosts = [
        test_site.host(
            f"{number}-{LONG}", state=states[number % len(states)], chosen=number % 2, words=f"see {LONG}"
        )
        for number in range(count)
    ]
    entries = [
        test_site.entry(number, hosts=[LONG], cause=cause)
        for number, cause in enumerate([None, test_site.RAM])
    ]
    entries[0]["request_id"] = failed().request_id
    return test_site.made(entries, AllHosts("m1.large", hosts))[0]


def shadow_page():
    found = [comparison(verdict, float(number)) for number, verdict in enumerate(Compared)]
    return html_of(shadow_report.shown(shadow_report.summarize(found), "2026-01-01T00:00:00"))


def plan():
    names = {"name": f"web server {LONG}", "project_id": "f" * 32, "server_group": failed().request_id}
    names |= {"instance": failed().request_id[4:], "flavor": "m1.large", "source": LONG, "state": "active"}
    moves = [
        PlannedMove(**names, step=number, to=LONG, way="live", zone="az1", reset_state=False)
        for number in range(3)
    ]
    stays = [Unplaced(**names, amounts={}, why=f"host {LONG} is full")] * 3
    found = DrainPlan(
        hosts=[LONG],
        instances=6,
        moves=moves,
        without_place=stays,
        missing={"VCPU": 3},
        targets=[Target(LONG, 3, 4096, 0.1, 0.4)],
        all_placed=False,
    )
    return html_of(found.shown())


PAGES = {
    "decision": rendered,
    "failed decision": lambda: html_of(shown_decision.shown(failed(), "memory of ctl.0", None)),
    "report": lambda: report_pages(20)["index.html"],
    "report on many hosts": lambda: report_pages(300)["index.html"],
    "hosts": lambda: report_pages(20)["hosts-0001.html"],
    "shadow": shadow_page,
    "plan": plan,
}


@pytest.mark.parametrize(
    ("scheme", "width"), [(LIGHT, 1000), (DARK, 1000), (LIGHT, 390)], ids=["light", "dark", "narrow"]
)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_read_and_nothing_of_it_is_cut(dump, name, scheme, width):
    found = told(dump(with_scripts(PAGES[name](), LOOKED_AT), scheme, width))
    assert (found["errors"], found["loaded"]) == ([], [])
    assert found["width"] == width
    assert (found["cut"], found["wide"]) == ([], False)
    assert found["dark"] is (scheme == DARK)
    assert (luminance(found["paper"]) < 0.5) is found["dark"]
    assert len(found["colours"]) > 10
    dim = [(words, ink, paper) for words, ink, paper in found["colours"] if contrast(ink, paper) < CONTRAST]
    assert dim == []
    assert all(found["bars"])


def test_everything_is_there_without_javascript(dump):
    dom = dump(
        rendered()
        .replace("<head>", f"<head>{NO_SCRIPT}")
        .replace("</body>", f"<script>{TOLD}</script></body>")
    )
    assert '<pre id="told">' not in dom
    assert '<p class="search" hidden="">' in dom
    assert "<button>" not in dom
    for words in ("h10", "service disabled (kernel update)", "RamFilter", "<svg", "taken"):
        assert words in dom


def luminance(rgb):
    """The relative luminance of WCAG 2."""
    channels = [value / 255 for value in rgb]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(ink, paper):
    lighter, darker = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)
