"""The pages of a report: what they say, and that each link leads to a page of the report."""

import pytest

from scheduler.decisions.memory import MOST_ENTRIES
from scheduler.operators.report import directory, site
from scheduler.operators.report.hosts import ReportedHost, ReportedHosts, ReportedState
from scheduler.operators.report.overview import name_of, summarize
from tests.support.pages import Page
from tests.support.shown import html_of
from tests.unit.operators.report.entries import GPU, LENGTH, RAM, SINCE, entry

ENTRIES = [
    entry(1),
    entry(2, hosts=["h1", "h2"]),
    entry(3, cause=RAM),
    entry(4, cause=RAM),
    entry(5, cause=GPU),
]
FREE = {"VCPU": 8.0, "MEMORY_MB": 4096.0, "DISK_GB": 10.0}


def host(name, zone="az1", state=ReportedState.ROOM, room=3, chosen=0, words=""):
    return ReportedHost(name, f"{name}.example", "cell1", zone, state, words, room, 5, FREE, chosen)


HOSTS = ReportedHosts(
    "m1",
    [
        host("h1", chosen=2),
        host("h2"),
        host("h3", state=ReportedState.STRANDED, room=0, words="not enough VCPU"),
        host("h4", "az2", ReportedState.DISABLED, 0, words="service disabled (new kernel)"),
    ],
)


def made(entries=ENTRIES, hosts=HOSTS, lost=()):
    """The pages of a report by their names; the documents of some decisions are no longer kept."""
    found = summarize(entries, SINCE, SINCE + LENGTH)
    pages = site.Site(found, entries, hosts or "The hosts could not be read: no database")
    pages.written |= {
        name_of(one): directory.decision_file(name_of(one))
        for one in found.linked
        if name_of(one) not in lost
    }
    shown = {directory.INDEX: pages.index(), **dict(pages.host_pages())}
    found = {name: html_of(each, pages.host_addresses) for name, each in shown.items()}
    return found, set(pages.written.values())


def row(table, word):
    return next(each for each in table if any(word in cell for cell in each))


def test_the_index_has_causes_with_counts_and_remedies():
    page = Page(made()[0][directory.INDEX])
    causes = page.tables[1]
    assert row(causes, "RamFilter")[:3] == ["resources", "RamFilter", "2"]
    assert row(causes, "RamFilter")[4:6] == ["RamFilter rejected all", RAM["remedy"]]
    assert row(causes, "GPU")[2] == "1"
    # all requests, and the cause of more than one
    assert len(page.of_class("time")) == 2
    assert "5 decisions" in page.text
    assert "3 without a host (60.0 %)" in page.text


def test_the_index_has_the_latest_decisions():
    rows = Page(made()[0][directory.INDEX]).tables[-1]
    assert [each[0] for each in rows[1:]] == ["req-5", "req-4", "req-3", "req-2", "req-1"]
    assert row(rows, "req-2")[-2].replace(" ,", ",") == "h1, h2"
    assert row(rows, "req-5")[-2] == "no host: 9 hosts would be suitable without GPU"


def test_the_index_has_hosts_by_zone():
    page = Page(made()[0][directory.INDEX])
    heading, first, second = page.tables[2]
    assert heading == ["Zone", "Hosts", "Room", "Stranded", "Disabled", "Room for", "With room, never chosen"]
    assert first == ["az1", "3", "2", "1", "", "6", "1"]
    assert second == ["az2", "1", "", "", "1", "0", ""]
    assert "stranded: one amount has run out, others are left" in page.text
    assert "2 of 4 hosts have room for m1" in page.text


def test_hosts_have_pages_with_why_and_with_the_decision_that_chose_them():
    pages, _ = made()
    table = Page(pages["hosts-0001.html"]).tables[0]
    *found, decisions, cell = row(table, "h1")[1:]
    assert (found, cell) == (["room", "3", "5", "8", "4", "10", "2"], "cell1")
    assert decisions == "01-12 13:46 1 more 01-12 13:46"
    assert row(table, "h2")[1] == "room, never chosen"
    assert row(table, "h3")[1] == "stranded: not enough VCPU"
    assert row(Page(pages["hosts-0002.html"]).tables[0], "h4")[1] == "disabled: service disabled (new kernel)"


@pytest.mark.parametrize("count", [2, 130, 450], ids=["one page", "a full page", "several pages"])
@pytest.mark.parametrize("lost", [(), ("req-5", "req-2")], ids=["all kept", "some no longer kept"])
def test_each_link_leads_to_a_page_of_the_report(count, lost):
    pages, decisions = made(
        hosts=ReportedHosts("m1", [host(f"h{number}") for number in range(count)]), lost=lost
    )
    assert len(pages) == 1 + -(-count // site.PAGE)
    found = {name: Page(html) for name, html in pages.items()}
    for name, page in found.items():
        for link in page.links:
            target, _, place = link.partition("#")
            assert (
                target in decisions or place in found[target or name].ids or (target in found and not place)
            )
    assert "hosts-0001.html#h0" in found[directory.INDEX].links


def test_without_hosts_the_index_says_why():
    pages, _ = made(hosts=None)
    assert list(pages) == [directory.INDEX]
    assert "The hosts could not be read: no database" in Page(pages[directory.INDEX]).text


def test_a_report_on_nothing_says_so():
    page = Page(made(entries=[])[0][directory.INDEX])
    assert len(page.tables) == 1
    assert page.texts.count("None.") == 2


def test_that_decisions_are_no_longer_kept_is_said():
    late = [entry(LENGTH - 1)]
    assert "No decision before 1970-01-13 03:06 UTC is known" in Page(made(late)[0][directory.INDEX]).text
    assert "No decision before" not in made()[0][directory.INDEX]


def test_that_not_all_decisions_are_counted_is_said():
    late = [entry(LENGTH - 1)] * MOST_ENTRIES
    words = Page(made(late)[0][directory.INDEX]).text
    assert "Only the latest 10,000 decisions are counted, those since 1970-01-13 03:06 UTC." in words
    assert "No decision before" not in words


def test_names_of_users_are_no_markup():
    nasty = "<script>alert(1)</script>"
    cause = dict.fromkeys(RAM, nasty)
    entries = [
        entry(1, request_id=nasty, flavor=nasty, availability_zone=nasty, cause=cause),
        entry(2, [nasty]),
    ]
    pages, _ = made(entries, ReportedHosts(nasty, [host(nasty, nasty, words=nasty)]))
    for html in pages.values():
        assert "<script>alert" not in html
        assert "&lt;script&gt;alert" in html
