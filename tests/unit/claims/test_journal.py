import multiprocessing
import os
import signal

import pytest

from scheduler.claims import journal
from scheduler.claims.journal import Journal

CLAIM = {"allocations": {"p": {"resources": {"VCPU": 1}}}, "owner": ["project", None]}


@pytest.fixture
def notes():
    return Journal()


def in_a_process(work, *args):
    """Run ``work`` in a fork of this process, as a worker is; its exit code."""
    process = multiprocessing.get_context("fork").Process(target=work, args=args)
    process.start()
    process.join(10)
    return process.exitcode


def found(notes):
    """What a process that starts now finds noted."""
    return list(notes.open().left())


def die_with(notes, claims, dropped=()):
    page = notes.open()
    for instance, claim in claims:
        page.note(instance, claim)
    page.drop(dropped)
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_next_process_finds_what_a_killed_one_noted(notes):
    other = {**CLAIM, "owner": ["other", "user"]}
    claims = [("i1", CLAIM), ("i2", CLAIM), ("i1", other), ("i3", CLAIM)]
    assert in_a_process(die_with, notes, claims, ["i2", "unknown"]) == -signal.SIGKILL
    assert sorted(found(notes), key=str) == sorted([("i1", CLAIM), ("i1", other), ("i3", CLAIM)], key=str)


def test_it_is_found_until_it_is_dropped(notes):
    in_a_process(die_with, notes, [("i1", CLAIM), ("i2", CLAIM)])
    in_a_process(die_with, notes, [("i3", CLAIM)], ["i1"])
    page = notes.open()
    assert sorted(page.left()) == [("i2", CLAIM), ("i3", CLAIM)]
    page.drop(["i2", "i3"])
    assert found(notes) == []


def test_what_cannot_be_read_is_left_out(notes, caplog):
    def scribble():
        page = notes.open()
        for text in (b"{", b"7", b"[[], 8]", b"[]", b"\xff" * 9):
            page.note("x", CLAIM)
            place = page._places.pop("x")[0]
            notes._memory[place : place + 4 + len(text)] = len(text).to_bytes(4, "little") + text
        page.note("long", CLAIM)
        place = page._places["long"][0]
        notes._memory[place : place + 4] = b"\xff" * 4
        page.note("i1", CLAIM)
        os.kill(os.getpid(), signal.SIGKILL)

    in_a_process(scribble)
    page = notes.open()
    assert list(page.left()) == [("i1", CLAIM)]
    assert caplog.text.count("cannot be read") == 6
    assert len(page._free) == journal.NOTES - 1


def test_processes_have_pages_of_their_own(notes):
    notes.open().note("mine", CLAIM)
    in_a_process(die_with, notes, [("theirs", CLAIM)])
    assert in_a_process(lambda: os._exit(found(notes) == [("theirs", CLAIM)])) == 1


def test_more_processes_than_pages(notes, monkeypatch):
    monkeypatch.setattr(journal, "PAGES", 1)
    notes.open()
    assert in_a_process(lambda: os._exit(notes.open() is None)) == 1


def test_a_note_that_was_not_finished_is_none(notes):
    def die_in_the_middle():
        page = notes.open()
        page.note("i1", CLAIM)
        place = page._places["i1"][0]
        notes._memory[place : place + 4] = bytes(4)
        os.kill(os.getpid(), signal.SIGKILL)

    in_a_process(die_in_the_middle)
    assert found(notes) == []


def test_what_does_not_fit_is_left_out(notes):
    page = notes.open()
    page.note("large", {"allocations": "x" * journal.NOTE_SIZE})
    for number in range(journal.NOTES + 5):
        page.note(f"i{number}", CLAIM)
    assert len(page._places) == journal.NOTES
    page.drop([*page._places])
    page.note("one more", CLAIM)
    assert "one more" in page._places
