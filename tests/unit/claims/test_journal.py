import mmap
import multiprocessing
import os
import signal
from unittest import mock

import pytest

from scheduler.claims.allocations_api import ConsumerAllocations
from scheduler.claims.journal import (
    PAGE_SIZE,
    RECORD_SIZE,
    RECORDS,
    ClaimJournal,
    Journal,
    JournalPage,
)
from tests.unit.claims.builders import OWNER, A, B, candidate

CLAIM = {"allocations": {"p": {"resources": {"VCPU": 1}}}, "owner": ["project", None]}


@pytest.fixture
def journal():
    return Journal()


@pytest.fixture
def memory():
    """The memory of one page."""
    with mmap.mmap(-1, PAGE_SIZE) as memory:
        yield memory


def in_a_process(work, *args):
    """Run ``work`` in a fork of this process, as a worker is; its exit code."""
    process = multiprocessing.get_context("fork").Process(target=work, args=args)
    process.start()
    process.join(10)
    return process.exitcode


def found_in(journal):
    """What a process that starts now finds recorded."""
    return list(journal.open_page().found_records())


def die_with(journal, claims, removed=()):
    page = journal.open_page()
    for instance, claim in claims:
        page.add_record(instance, claim)
    page.remove_records(removed)
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_next_process_finds_what_a_killed_one_recorded(journal):
    other = {**CLAIM, "owner": ["other", "user"]}
    claims = [("i1", CLAIM), ("i2", CLAIM), ("i1", other), ("i3", CLAIM)]
    assert in_a_process(die_with, journal, claims, ["i2", "unknown"]) == -signal.SIGKILL
    expected = sorted([("i1", CLAIM), ("i1", other), ("i3", CLAIM)], key=str)
    assert sorted(found_in(journal), key=str) == expected


def test_a_record_is_found_until_it_is_removed(journal):
    in_a_process(die_with, journal, [("i1", CLAIM), ("i2", CLAIM)])
    in_a_process(die_with, journal, [("i3", CLAIM)], ["i1"])
    page = journal.open_page()
    assert sorted(page.found_records()) == [("i2", CLAIM), ("i3", CLAIM)]
    page.remove_records(["i2", "i3"])
    assert found_in(journal) == []


def fill(page):
    for number in range(RECORDS + 1):
        page.add_record(f"filling {number}", CLAIM)


def write_at(memory, number, length, text=b""):
    offset = number * RECORD_SIZE
    memory[offset : offset + 4 + len(text)] = length + text


def test_unreadable_records_are_left_out_and_their_space_is_used_again(memory, caplog):
    texts = (b"{", b"7", b"[[], 8]", b"[]", b"\xff" * 9)
    for number, text in enumerate(texts):
        write_at(memory, number, len(text).to_bytes(4, "little"), text)
    write_at(memory, 5, b"\xff" * 4, b'["long", {}]')
    good = JournalPage(memory, 0)
    assert caplog.text.count("cannot be read") == 6
    good.add_record("i1", CLAIM)
    assert list(JournalPage(memory, 0).found_records()) == [("i1", CLAIM)]
    fill(good)
    assert len(list(JournalPage(memory, 0).found_records())) == RECORDS


def test_processes_have_pages_of_their_own(journal):
    journal.open_page().add_record("mine", CLAIM)
    in_a_process(die_with, journal, [("theirs", CLAIM)])
    assert in_a_process(lambda: os._exit(found_in(journal) == [("theirs", CLAIM)])) == 1


def test_more_processes_than_pages():
    journal = Journal(pages=1)
    journal.open_page()
    assert in_a_process(lambda: os._exit(journal.open_page() is None)) == 1


def test_a_record_that_was_not_completed_does_not_count(memory):
    """The length is written last."""
    write_at(memory, 0, bytes(4), b'["i1", {}]')
    assert list(JournalPage(memory, 0).found_records()) == []


def test_records_that_do_not_fit_are_left_out_until_others_are_removed(memory):
    page = JournalPage(memory, 0)
    page.add_record("large", {"allocations": "x" * RECORD_SIZE})
    for number in range(RECORDS + 5):
        page.add_record(f"i{number}", CLAIM)
    found = dict(JournalPage(memory, 0).found_records())
    assert found.keys() == {f"i{number}" for number in range(RECORDS)}
    page.remove_records([*found])
    page.add_record("one more", CLAIM)
    assert "one more" in dict(JournalPage(memory, 0).found_records())


class TestClaimJournal:
    made = ConsumerAllocations(candidate(A, B).allocations, owner=OWNER)
    source = ConsumerAllocations(candidate(A).allocations, 3, OWNER)

    def found_by_next(self, journal):
        found = []
        ClaimJournal().open_page(journal, lambda uuid, claim: found.append((uuid, claim)))
        return found

    def test_what_was_recorded_is_a_claim_of_unknown_outcome_to_the_next_process(self, journal):
        claims = ClaimJournal()
        claims.open_page(journal, lambda *_: pytest.fail("the journal is new"))
        claims.record_claim("i1", self.made)
        claims.record_claim("i2", self.made, self.source)
        found = dict(self.found_by_next(journal))
        assert {uuid: (claim.made, claim.previous) for uuid, claim in found.items()} == {
            "i1": (self.made, None),
            "i2": (self.made, self.source),
        }
        assert all(claim.claimed and claim.unsure for claim in found.values())

    def test_removed_claims_are_not_found(self, journal):
        claims = ClaimJournal()
        claims.open_page(journal, lambda *_: None)
        claims.record_claim("i1", self.made)
        claims.remove_records(["i1"])
        assert self.found_by_next(journal) == []

    def test_without_a_page_nothing_is_recorded(self):
        full = mock.create_autospec(Journal, instance=True)
        full.open_page.return_value = None
        claims = ClaimJournal()
        claims.record_claim("i1", self.made)
        claims.open_page(full, lambda *_: pytest.fail("there is no page"))
        claims.record_claim("i1", self.made)
        claims.remove_records(["i1"])

    def test_records_that_are_not_understood_are_removed(self, journal, caplog):
        page = journal.open_page()
        for uuid, record in (("a", 7), ("b", {}), ("c", {"made": {}, "previous": None})):
            page.add_record(uuid, record)
        assert self.found_by_next(journal) == []
        assert caplog.text.count("is not understood") == 3
        assert found_in(journal) == []
