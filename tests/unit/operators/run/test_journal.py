"""The file with the state of a run."""

import os

import pytest

from scheduler.operators.run.journal import LIFETIME, JournalUnusable, MoveState, RunJournal, RunStep


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "drain.jsonl"


def begin(path):
    journal = RunJournal(path, lambda: 0.0)
    journal.write("begin", hosts=["h1"])
    return journal


def test_the_next_process_reads_what_was_written(path):
    with begin(path) as journal:
        journal.write("disable", host="h1", reason="fans")
        step = RunStep("i1", "h1", "h2", "live", state=MoveState.REQUESTED)
        journal.write_step(step)
        step.state = MoveState.MOVED  # not written, so not known
    with RunJournal(path) as journal:
        history = journal.history
        assert (history.hosts, history.disabled, history.begun_at) == (
            ["h1"],
            {"h1": "fans"},
            "1970-01-01T00:00:00+00:00",
        )
        assert [one.instance for one in history.open] == ["i1"]
        step.state = MoveState.REQUESTED
        assert history.steps == {"i1": step}


def test_only_its_owner_can_read_it(path):
    begin(path).close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_one_process_at_a_time(path):
    with begin(path), pytest.raises(JournalUnusable, match="Another process carries out the plan"):
        RunJournal(path)
    RunJournal(path).close()


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_line_that_a_crash_cut_off_is_dropped(path, cut):
    with begin(path) as journal:
        journal.write_step(RunStep("i1", "h1", "h2", "live", state=MoveState.REQUESTED))
    os.truncate(path, path.stat().st_size - cut)
    with RunJournal(path) as journal:
        assert journal.history.steps == {}
        assert journal.history.hosts == ["h1"]
        journal.write_step(RunStep("i2", "h1", "h2", "live", state=MoveState.REQUESTED))
    with RunJournal(path) as journal:
        assert list(journal.history.steps) == ["i2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no json\n", "line 1: not the state of a run"),
        ("[]\n", "line 1: not the state of a run"),
        ('{"v": 1, "event": "step", "step": {"x": 1}}\n', "line 1: not the state of a run"),
        ('{"v": 2, "event": "begin"}\n', "is of another version of Berth"),
        *(
            (f"{text}\n", "line 1: not the state of a run")
            for text in (
                "null",
                "5",
                '"x"',
                '{"v":1,"at":"1970-01-01T00:00:00+00:00","event":"begin","hosts":5}',
                '{"v":1,"at":"1970-01-01T00:00:00+00:00","event":"step","step":null}',
                '{"v":1,"at":"1970-01-01T00:00:00+00:00","event":"nothing"}',
                '{"v":1,"at":"x","event":"undo"}',
            )
        ),
        ('{"plan": "drain", "moves": []}', "line 1: not the state of a run"),
        ("s3cr3t", "line 1: not the state of a run"),
        ("CHG-4711: first line\nwithout its end", "line 1: not the state of a run"),
    ],
)
def test_another_file_is_refused_and_left_as_it_is(path, text, words):
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(JournalUnusable, match=words):
        RunJournal(path)
    assert path.read_text() == text


def test_a_line_that_a_full_disk_cut_is_dropped_by_the_same_process_too(path, monkeypatch):
    with begin(path) as journal:
        write = os.write
        monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:20]))
        with pytest.raises(JournalUnusable, match="the disk is full"):
            journal.write_step(RunStep("i1", "h1", "h2", "live", state=MoveState.REQUESTED))
        monkeypatch.undo()
        journal.write("end", state="stopped", why="the disk is full")
    with RunJournal(path) as journal:
        assert (journal.history.steps, journal.history.ended) == ({}, "stopped")


@pytest.mark.parametrize("length", [1, 10, 40])
def test_a_first_line_that_was_cut_is_dropped(path, length):
    begin(path).close()
    os.truncate(path, length)
    with begin(path) as journal:
        assert journal.history.hosts == ["h1"]


@pytest.mark.parametrize(("seconds", "counts"), [(LIFETIME, True), (LIFETIME + 1, False)])
@pytest.mark.parametrize("ended", [True, False])
def test_moves_of_a_run_count_for_a_day(path, seconds, counts, ended):
    with begin(path) as journal:
        journal.write("disable", host="h1", reason="fans")
        journal.write_step(RunStep("moved", "h1", "h2", "live", state=MoveState.MOVED))
        journal.write_step(RunStep("open", "h1", "h2", "cold", state=MoveState.REQUESTED))
        if ended:
            journal.write("end", state="stopped", why="")
    with RunJournal(path, lambda: seconds) as journal:
        journal.write("begin", hosts=["h1"])
        assert set(journal.history.steps) == ({"moved", "open"} if counts else {"open"})
        assert journal.history.disabled == {"h1": "fans"}


def test_what_is_no_file_is_a_clear_error(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(JournalUnusable, match="is no regular file"):
        RunJournal(tmp_path / "fifo")


def test_what_was_undone_does_not_count_any_more(path):
    with begin(path) as journal:
        journal.write_step(RunStep("i1", "h1", "h2", "live", state=MoveState.MOVED))
        journal.write("undo")
        assert (journal.history.hosts, journal.history.steps) == ([], {})


def test_a_file_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalUnusable, match="Cannot open"):
        RunJournal(tmp_path / "file" / "x")
