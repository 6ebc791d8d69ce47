"""The file with the state of a run."""

import os

import pytest

from scheduler.operators.run.journal import Journal, JournalUnusable
from scheduler.operators.run.step import MOVED, REQUESTED, Step


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "drain.jsonl"


def begin(path):
    journal = Journal(path, lambda: 0.0)
    journal.write("begin", hosts=["h1"])
    return journal


def test_the_next_process_reads_what_was_written(path):
    with begin(path) as journal:
        journal.write("disable", host="h1", reason="fans")
        step = Step("i1", "h1", "h2", "live", state=REQUESTED)
        journal.write_step(step)
        step.state = MOVED  # not written, so not known
    with Journal(path) as journal:
        history = journal.history
        assert (history.hosts, history.disabled, history.begun_at) == (
            ["h1"],
            {"h1": "fans"},
            "1970-01-01T00:00:00+00:00",
        )
        assert [one.instance for one in history.open] == ["i1"]
        step.state = REQUESTED
        assert history.steps == {"i1": step}


def test_only_its_owner_can_read_it(path):
    begin(path).close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_one_process_at_a_time(path):
    with begin(path), pytest.raises(JournalUnusable, match="Another process carries out the plan"):
        Journal(path)
    Journal(path).close()


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_line_that_a_crash_cut_off_is_dropped(path, cut):
    with begin(path) as journal:
        journal.write_step(Step("i1", "h1", "h2", "live", state=REQUESTED))
    os.truncate(path, path.stat().st_size - cut)
    with Journal(path) as journal:
        assert journal.history.steps == {}
        assert journal.history.hosts == ["h1"]
        journal.write_step(Step("i2", "h1", "h2", "live", state=REQUESTED))
    with Journal(path) as journal:
        assert list(journal.history.steps) == ["i2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no json\n", "line 1: not the state of a run"),
        ("[]\n", "line 1: not the state of a run"),
        ('{"v": 1, "event": "step", "step": {"x": 1}}\n', "line 1: not the state of a run"),
        ('{"v": 2, "event": "begin"}\n', "is of another version of Berth"),
    ],
)
def test_another_file_is_refused_and_left_as_it_is(path, text, words):
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(JournalUnusable, match=words):
        Journal(path)
    assert path.read_text() == text


def test_what_was_undone_does_not_count_any_more(path):
    with begin(path) as journal:
        journal.write_step(Step("i1", "h1", "h2", "live", state=MOVED))
        journal.write("undo")
        assert (journal.history.hosts, journal.history.steps) == ([], {})


def test_a_file_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalUnusable, match="Cannot open"):
        Journal(tmp_path / "file" / "x")
