"""berth-explain report: from schedulers or a decision log to the pages of a directory."""
# ruff: noqa: F401, F811 - fixtures of the other commands

import contextlib
import json
import time
from types import SimpleNamespace

import pytest

from scheduler.decisions.document import encode, time_text
from scheduler.decisions.memory import DecisionMemory
from scheduler.operators import app
from scheduler.operators.report import command as explain_report
from scheduler.operators.snapshot import snapshot
from tests.support.pages import Page
from tests.unit.operators.explain.test_main import NASTY, config, make_trace, nasty, run, serving
from tests.unit.operators.plan.clouds import MadeCloud, flavor, node


@pytest.fixture
def decisions():
    """Two requests that no host could take, one of them some time ago."""
    found = []
    for name, age in (("req-1", 60.0), ("req-old", 7200.0)):
        decision = make_trace().decision
        decision.request_id, decision.summary, decision.time = (
            name,
            "RamFilter ...",
            time_text(time.time() - age),
        )
        found.append(decision)
    return found


@pytest.fixture
def log(tmp_path, decisions):
    """A decision log with them."""
    directory = tmp_path / "log"
    directory.mkdir()
    lines = b"".join(encode(decision) + b"\n" for decision in reversed(decisions))
    (directory / "decisions-1-1-1.jsonl").write_bytes(lines)
    return str(directory)


@pytest.fixture
def cloud(monkeypatch):
    """The cloud that snapshots are made of."""
    made = MadeCloud(node("h1").az("az1"), node("h2").az("az2"))
    made.flavors["m1"] = flavor("m1")
    read = made.snapshot()
    monkeypatch.setattr(explain_report.options, "require_databases", lambda conf: None)
    monkeypatch.setattr(explain_report.snapshot, "read", lambda conf: contextlib.nullcontext(read))
    return made


def names(directory):
    return sorted(each.name for each in directory.iterdir())


def linked(page, begin):
    return sorted({link.partition("#")[0] for link in page.links if link.startswith(begin)})


def test_counts_are_printed(run, log):
    status, output, _ = run("report", "--log", log)
    assert status == 0
    assert output.startswith("2 decisions, 2 without a host (100.0 %), ")
    assert "| resources | RamFilter |" in output
    found = json.loads(run("report", "--log", log, "--since", "1h", "-f", "json")[1])
    assert (found["decisions"], found["failed"], found["causes"][0]["code"]) == (1, 1, "resources")


def test_pages_of_a_log_link_to_each_other(run, log, cloud, tmp_path):
    directory = tmp_path / "report"
    status, output, _ = run("report", "--log", log, "--html", str(directory))
    assert status == 0
    assert f"The report is in {directory}: 5 pages" in output
    index = Page((directory / "index.html").read_text())
    pages = linked(index, "decision-") + linked(index, "hosts-")
    assert sorted([*pages, "index.html"]) == names(directory)
    decision = Page((directory / pages[0]).read_text())
    assert linked(decision, "index") == ["index.html"]
    assert linked(decision, "hosts-") == ["hosts-0001.html", "hosts-0002.html"]
    assert "from the log of decisions-1-1-1.jsonl" in decision.text


def test_pages_of_schedulers_are_made_of_their_memory(run, config, decisions, cloud, tmp_path, monkeypatch):
    with serving(config, "ctl", SimpleNamespace(decision=decisions[0])):
        status, _, _ = run("report", "--html", str(tmp_path / "report"))
        assert status == 0
        (name,) = linked(Page((tmp_path / "report" / "index.html").read_text()), "decision-")
        assert "from the memory of ctl" in Page((tmp_path / "report" / name).read_text()).text

        monkeypatch.setattr(DecisionMemory, "find", lambda *_: None)
        run("report", "--html", str(tmp_path / "report"))
    index = Page((tmp_path / "report" / "index.html").read_text())
    assert (linked(index, "decision-"), "req-1" in index.text) == ([], True)
    assert name not in names(tmp_path / "report")


def test_a_scheduler_that_fails_is_not_asked_for_each_page(
    run, config, decisions, cloud, tmp_path, monkeypatch
):
    asked = []

    def find(_memory, name):
        asked.append(name)
        raise ZeroDivisionError

    monkeypatch.setattr(DecisionMemory, "find", find)
    monkeypatch.setattr(
        DecisionMemory, "latest_first", lambda _: iter([encode(decision) for decision in decisions])
    )
    with serving(config, "ctl", make_trace()):
        status, _, logged = run("report", "--html", str(tmp_path / "report"))
    assert status == 0
    assert "Scheduler ctl answered with an error" in logged
    assert len(asked) == 1
    assert "2 decisions" in (tmp_path / "report" / "index.html").read_text().replace("</strong>", " ")


def test_a_second_report_replaces_the_first(run, log, cloud, tmp_path):
    argv = ("report", "--log", log, "--html", str(tmp_path / "report"))
    run(*argv)
    assert run(*argv, "--since", "1h")[0] == 0
    assert len([name for name in names(tmp_path / "report") if name.startswith("decision-")]) == 1


def test_hosts_that_cannot_be_read_leave_the_rest(run, log, monkeypatch, tmp_path):
    def unreadable(_conf):
        raise snapshot.CloudUnreadable("Cells that cannot be read: cell1")

    monkeypatch.setattr(explain_report.options, "require_databases", lambda conf: None)
    monkeypatch.setattr(explain_report.snapshot, "read", unreadable)
    status, _, logged = run("report", "--log", log, "--html", str(tmp_path / "report"))
    assert status == 0
    assert "The report has no hosts: Cells that cannot be read: cell1" in logged
    assert "Cells that cannot be read: cell1" in (tmp_path / "report" / "index.html").read_text()


@pytest.mark.parametrize(("flavor", "words"), [("m1", "have room for m1"), ("m7", "There is no flavor m7")])
def test_room_is_for_the_flavor_that_is_named(run, log, cloud, tmp_path, flavor, words):
    assert run("report", "--log", log, "--html", str(tmp_path / "report"), "--flavor", flavor)[0] == 0
    assert words in Page((tmp_path / "report" / "index.html").read_text()).text


def test_a_directory_that_cannot_be_written_is_one_line(run, log, cloud, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, logged = run("report", "--log", log, "--html", str(tmp_path / "file"))
    assert status == app.NOT_RUN
    assert "The report cannot be written" in logged
    assert "Traceback" not in logged


def test_without_schedulers_the_failure_is_one_line(run):
    status, output, logged = run("report", "--timeout", "0.2")
    assert (status, output) == (app.NOT_RUN, "")
    assert "Scheduler ctl did not answer: no answer within 0.2 seconds" in logged


def test_escape_sequences_of_users_do_not_reach_the_terminal(run, config, nasty):
    nasty.decision.time = time_text(time.time() - 60.0)
    with serving(config, "ctl", nasty):
        _, output, _ = run("report")
    assert NASTY not in output
    assert all(line.isprintable() for line in output.split("\n"))
