import multiprocessing
import os
import signal

import pytest

from scheduler.placement import journal
from scheduler.placement.journal import Journal

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


def die_with(notes, claims, dropped=()):
    page, _ = notes.open()
    for instance, claim in claims:
        page.note(instance, claim)
    page.drop(dropped)
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_next_process_finds_what_a_killed_one_noted(notes):
    other = {**CLAIM, "owner": ["other", "user"]}
    claims = [("i1", CLAIM), ("i2", CLAIM), ("i1", other), ("i3", CLAIM)]
    assert in_a_process(die_with, notes, claims, ["i2", "unknown"]) == -signal.SIGKILL
    _, found = notes.open()
    assert sorted(found, key=str) == sorted([("i1", CLAIM), ("i1", other), ("i3", CLAIM)], key=str)


def test_it_is_found_once(notes):
    in_a_process(die_with, notes, [("i1", CLAIM)])
    in_a_process(lambda: os._exit(len(notes.open()[1])))
    assert notes.open()[1] == []


def test_processes_have_pages_of_their_own(notes):
    page, _ = notes.open()
    page.note("mine", CLAIM)
    in_a_process(die_with, notes, [("theirs", CLAIM)])
    assert in_a_process(lambda: os._exit(notes.open()[1] == [("theirs", CLAIM)])) == 1


def test_more_processes_than_pages(notes, monkeypatch):
    monkeypatch.setattr(journal, "PAGES", 1)
    notes.open()
    assert in_a_process(lambda: os._exit(notes.open() == (None, []))) == 1


def test_a_note_that_was_not_finished_is_none(notes):
    def die_in_the_middle():
        page, _ = notes.open()
        page.note("i1", CLAIM)
        place = page._places["i1"][0]
        notes._memory[place : place + 4] = bytes(4)
        os.kill(os.getpid(), signal.SIGKILL)

    in_a_process(die_in_the_middle)
    assert notes.open()[1] == []


def test_what_does_not_fit_is_left_out(notes):
    page, _ = notes.open()
    page.note("large", {"allocations": "x" * journal.NOTE_SIZE})
    for number in range(journal.NOTES + 5):
        page.note(f"i{number}", CLAIM)
    assert len(page._places) == journal.NOTES
    page.drop([*page._places])
    page.note("one more", CLAIM)
    assert "one more" in page._places
