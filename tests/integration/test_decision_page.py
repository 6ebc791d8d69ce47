"""The page of a decision in a browser: light and dark, with and without JavaScript."""

import html
import json
import re
import subprocess

import pytest

from scheduler.explain import page
from scheduler.explain.document import Best, Hosts, Verdict, Weights
from tests.integration import services
from tests.unit.explain.test_page import made

pytestmark = pytest.mark.timeout(120)

#: The preferences that Blink knows.
LIGHT, DARK = "preferredColorScheme=1", "preferredColorScheme=0"

#: Keeps the scripts of a page from running.
NO_SCRIPT = """<meta http-equiv="Content-Security-Policy" content="script-src 'none'">"""

#: The smallest contrast of text that WCAG 2 accepts (level AA).
CONTRAST = 4.5

#: Runs before the page's script: errors, which a browser would only show on its console.
EARLY = """
<script>const errors = []; addEventListener("error", event => errors.push(event.message));
const warn = console.error; console.error = (...words) => errors.push(words.join(" "));</script>
"""

#: Runs after it: does what a reader would do, and leaves what is seen then in the document.
LATE = """
<script>
const input = document.querySelector("#search input"), rows = () => Array.from(document.querySelectorAll("#hosts tbody tr"));
const names = () => rows().filter(row => !row.hidden && row.offsetHeight).map(row => row.cells[0].textContent);
const seen = {search: !document.getElementById("search").hidden, first: names()};
for (const words of ["H2", "disabled", "nothing at all", ""]) {
  input.value = words; input.dispatchEvent(new Event("input")); seen["search " + words] = names();
}
const heads = document.querySelectorAll("#hosts th button");
heads[0].click(); seen.sorted = names();
heads[0].click(); seen["sorted again"] = names();
heads[6].click(); seen["sorted by weight"] = names();
const rgb = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
const style = selector => getComputedStyle(document.querySelector(selector));
seen.dark = matchMedia("(prefers-color-scheme: dark)").matches;
seen.paper = rgb(style("body").backgroundColor);
seen.inks = [".dim", "body", "h1 span", "th", "h2"].map(selector => rgb(style(selector).color));
seen.bars = Array.from(document.querySelectorAll("svg rect")).map(rect => rect.getBoundingClientRect().width);
seen.wide = document.documentElement.scrollWidth > innerWidth;
seen.loaded = performance.getEntriesByType("resource").map(each => each.name);
seen.errors = errors;
const told = document.createElement("pre");
told.id = "told"; told.textContent = JSON.stringify(seen); document.body.append(told);
</script>
"""


def decision():
    """The decision of the unit test, with hosts to be searched and sorted."""
    verdicts = [
        Verdict("chosen", count=1),
        Verdict("alternate", count=1),
        Verdict("rejected", 0, "service disabled (kernel update)", 1),
    ]
    names = ["h2", "h10", "h1"]
    hosts = Hosts(True, names, names, [0] * 3, [0] * 3, [0, 1, 2], {0: "cell1"}, {0: "az1"})
    best = Best([0, 1], [10.5, 9.25], [Weights("RAMWeigher", [10.5, 9.25], 0.0, 1.0, 1.0)])
    return made(verdicts=verdicts, hosts=hosts, best=best)


@pytest.fixture(scope="module")
def browser():
    """The command of a browser."""
    return services.browser()


@pytest.fixture
def dump(browser, tmp_path):
    """A function that returns the document that a browser makes of HTML."""

    def run(text, scheme=LIGHT):
        (tmp_path / "page.html").write_text(text)
        done = subprocess.run(
            [
                *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1000,900"),
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
    return page.render(decision(), "ctl.0 (memory)", None)


def told(dom):
    """What the script of a test has left in the document."""
    found = re.search(r'<pre id="told">(.*?)</pre>', dom, re.DOTALL)
    assert found, dom[-2000:]
    return json.loads(html.unescape(found[1]))


@pytest.fixture
def seen(dump):
    """A function from a colour scheme to what a reader sees of the page."""
    text = rendered().replace("<head>", f"<head>{EARLY}").replace("</body>", f"{LATE}</body>")
    return lambda scheme: told(dump(text, scheme))


def test_hosts_can_be_searched_and_sorted(seen):
    found = seen(LIGHT)
    assert found["search"]
    assert found["first"] == ["h2", "h10", "h1"]
    assert found["search H2"] == ["h2"]
    assert found["search disabled"] == ["h1"]
    assert found["search nothing at all"] == []
    assert found["search "] == found["first"]
    assert found["sorted"] == ["h1", "h2", "h10"]
    assert found["sorted again"] == ["h10", "h2", "h1"]
    assert found["sorted by weight"] == ["h1", "h10", "h2"]


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_the_page_shows_without_errors_and_can_be_read(seen, scheme):
    found = seen(scheme)
    assert (found["errors"], found["loaded"]) == ([], [])
    assert not found["wide"]
    assert found["bars"]
    assert all(found["bars"])
    assert found["dark"] is (scheme == DARK)
    assert (luminance(found["paper"]) < 0.5) is found["dark"]
    contrasts = [contrast(ink, found["paper"]) for ink in found["inks"]]
    assert min(contrasts) >= CONTRAST, contrasts


def test_everything_is_there_without_javascript(dump):
    dom = dump(rendered().replace("<head>", f"<head>{NO_SCRIPT}").replace("</body>", f"{LATE}</body>"))
    assert '<pre id="told">' not in dom
    assert '<p hidden="" id="search">' in dom
    assert "<button>" not in dom
    for words in ("h10", "service disabled (kernel update)", "RamFilter", "<svg", "Try 1: h1"):
        assert words in dom


def luminance(rgb):
    """The relative luminance of WCAG 2."""
    channels = [value / 255 for value in rgb]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(ink, paper):
    lighter, darker = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)
