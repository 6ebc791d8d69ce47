"""The file with the state of a run."""

import errno
import os
from unittest.mock import Mock

import pytest

from scheduler.operators.run import journal as journals
from scheduler.operators.run.journal import (
    LIFETIME,
    Ending,
    JournalUnusable,
    MoveState,
    RunJournal,
    RunMove,
    moment,
)
from scheduler.operators.shown import files


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "drain.json"


def begin(path, at=0.0):
    journal = RunJournal(path)
    journal.state.begin("drain", ["h1"], at)
    journal.save()
    return journal


def move(instance, state=MoveState.REQUESTED, **values):
    return RunMove(
        instance=instance, source="h1", to="h2", way="live", state=state, requested_at=moment(0), **values
    )


def test_the_next_process_reads_what_was_written(path):
    with begin(path) as journal:
        journal.state.disabled["h1"] = "fans"
        requested = move("i1")
        journal.save_move(requested)
        requested.end(MoveState.MOVED, "", 1.0)  # not written, so not known
    with RunJournal(path) as journal:
        state = journal.state
        assert (state.hosts, state.disabled, state.begun_at) == (
            ["h1"],
            {"h1": "fans"},
            "1970-01-01T00:00:00+00:00",
        )
        assert state.open == state.moves == [move("i1")]


def test_only_its_owner_can_read_it(path):
    with begin(path):
        pass
    assert [each.stat().st_mode & 0o777 for each in path.parent.iterdir()] == [0o600] * 2
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_one_process_at_a_time_and_the_other_one_is_told_which(path, monkeypatch):
    monkeypatch.setattr(journals, "this_process", lambda: "process 7 on ctl-1")
    with (
        begin(path),
        pytest.raises(JournalUnusable, match=r"drain.json is held by process 7 on ctl-1, which"),
    ):
        RunJournal(path)
    with RunJournal(path):
        pass


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        "null",
        '{"hosts": 5}',
        '{"moves": [{"x": 1}]}',
        '{"plan": "drain", "moves": []}',
        "CHG-4711: first line\nwithout its end",
        "\udcff",
    ],
)
def test_another_file_is_refused_and_left_as_it_is(path, text):
    path.parent.mkdir()
    data = os.fsencode(text)
    path.write_bytes(data)
    with pytest.raises(JournalUnusable, match=r"drain.json is not the state of a run"):
        RunJournal(path)
    assert path.read_bytes() == data


def test_an_empty_file_is_a_run_that_was_not_begun(path):
    path.parent.mkdir()
    path.touch()
    with begin(path) as journal:
        assert journal.state.hosts == ["h1"]


def test_a_full_disk_leaves_the_state_that_was_written(path, monkeypatch):
    with begin(path) as journal:
        monkeypatch.setattr(files, "write", Mock(side_effect=OSError(errno.ENOSPC, "No space left")))
        with pytest.raises(JournalUnusable, match=r"Cannot write .*: No space left"):
            journal.save_move(move("i1"))
        monkeypatch.undo()
        assert journal.state.moves == []
        journal.save()
    with RunJournal(path) as journal:
        assert journal.state.moves == []


def test_the_state_is_on_disk_before_it_is_acted_upon(path, monkeypatch):
    written = []
    monkeypatch.setattr(files, "write", lambda *args, **options: written.append(options))
    with begin(path):
        pass
    assert written == [{"durable": True}]


@pytest.mark.parametrize(("seconds", "counts"), [(LIFETIME, True), (LIFETIME + 1, False)])
@pytest.mark.parametrize("ended", [True, False])
def test_moves_of_a_run_count_for_a_day(path, seconds, counts, ended):
    with begin(path) as journal:
        journal.state.disabled["h1"] = "fans"
        journal.save_move(move("moved", MoveState.MOVED))
        journal.save_move(move("open"))
        if ended:
            journal.state.state, journal.state.why = Ending.STOPPED, "a surprise"
            journal.save()
    with begin(path, seconds) as journal:
        assert [one.instance for one in journal.state.moves] == (["moved", "open"] if counts else ["open"])
        assert journal.state.disabled == {"h1": "fans"}
        assert (journal.state.state, journal.state.why) == ("interrupted", None)


def test_a_run_that_ended_with_nothing_left_does_not_count_in_the_next_one(path):
    with begin(path) as journal:
        journal.save_move(move("moved", MoveState.MOVED))
        journal.state.state = Ending.DONE
        journal.save()
    with begin(path, 60.0) as journal:
        assert (journal.state.moves, journal.state.begun_at) == ([], "1970-01-01T00:01:00+00:00")


def test_what_is_no_file_is_a_clear_error(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(JournalUnusable, match="is no regular file"):
        RunJournal(tmp_path / "fifo")
    assert [each.name for each in tmp_path.iterdir()] == ["fifo"]


def test_a_file_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalUnusable, match="Cannot open"):
        RunJournal(tmp_path / "file" / "x")
