import contextlib
import multiprocessing
import os
import resource
import signal
import sqlite3
import threading
import time
from types import SimpleNamespace
from unittest import mock

from oslo_config import cfg
import pytest

from scheduler.claims import message_records, page_file
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.claims.journal import REOPEN_DELAY, ClaimJournal, Journal, OtherClaims, journal_directory
from scheduler.claims.journal_page import JournalPage, read_records
from scheduler.claims.message_records import REPLIES_KEPT, RUNS_KEPT
from scheduler.claims.page_file import RESERVE, PageLock
from scheduler.claims.result import OwnWrite
from scheduler.message_runs import RecordedReply
from tests.unit.claims.builders import OWNER, A, B, candidate

CLAIM = {"allocations": {"p": {"resources": {"VCPU": 1}}}, "owner": ["project", None]}


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "berth-claims-me")


def in_a_process(work, *args):
    """Run ``work`` in a fork of this process, as a worker is; its exit code."""
    process = multiprocessing.get_context("fork").Process(target=work, args=args)
    process.start()
    process.join(10)
    return process.exitcode


class PageLockOf(PageLock):
    """The lock of a page of a journal."""

    def __init__(self, journal, name):
        super().__init__(journal.directory / f"{name}.lock")

    close = PageLock.release


def found_in(journal):
    """What a process that starts now finds recorded."""
    page = journal.open_page()
    try:
        return list(page.found_records())
    finally:
        page.close()


@contextlib.contextmanager
def full_disk(journal):
    """No file of this process can grow beyond the largest of the journal."""
    largest = max(path.stat().st_size for path in journal.directory.iterdir())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def opened(journal):
    """A journal of claims, and its page, whose process dies with ``close``."""
    page, claims, found = journal.open_page(), ClaimJournal(), []
    claims.open_page(SimpleNamespace(open_page=lambda: page), lambda uuid, claim: found.append((uuid, claim)))
    return claims, page, found


def record(page, claims, request=""):
    """Record claims that were sent."""
    page.add_records(claims, request)
    page.mark_sent(claims)


def die_with(journal, claims, removed=()):
    page = journal.open_page()
    for instance, claim in claims:
        record(page, {instance: claim})
    page.remove_records(removed)
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_next_process_finds_what_a_killed_one_recorded(journal):
    other = {**CLAIM, "owner": ["other", "user"]}
    claims = [("i1", CLAIM), ("i2", CLAIM), ("i1", other), ("i3", CLAIM)]
    assert in_a_process(die_with, journal, claims, ["i2", "unknown"]) == -signal.SIGKILL
    assert found_in(journal) == [("i1", CLAIM), ("i1", other), ("i3", CLAIM)]


def test_a_record_is_found_until_it_is_removed(journal):
    in_a_process(die_with, journal, [("i1", CLAIM), ("i2", CLAIM)])
    in_a_process(die_with, journal, [("i3", CLAIM)], ["i1"])
    page = journal.open_page()
    assert sorted(page.found_records()) == [("i2", CLAIM), ("i3", CLAIM)]
    page.remove_records(["i2", "i3"])
    page.close()
    assert found_in(journal) == []


def test_neither_number_nor_size_of_records_is_limited(journal):
    claims = {f"i{number}": CLAIM for number in range(5000)}
    large = {"allocations": {f"p{number}": {"resources": {"VCPU": 1}} for number in range(1000)}}
    page = journal.open_page()
    record(page, claims)
    record(page, {"large": large})
    page.close()
    assert dict(found_in(journal)) == {**claims, "large": large}


def test_a_journal_that_is_kept_outlives_the_master(tmp_path):
    in_a_process(die_with, Journal(tmp_path / "kept"), [("i1", CLAIM)])
    assert found_in(Journal(tmp_path / "kept")) == [("i1", CLAIM)]


def test_records_of_a_process_that_lives_are_not_taken(journal):
    mine = journal.open_page()
    record(mine, {"mine": CLAIM})
    in_a_process(die_with, journal, [("theirs", CLAIM)])
    assert in_a_process(lambda: os._exit(found_in(journal) == [("theirs", CLAIM)])) == 1
    assert found_in(journal) == [("theirs", CLAIM)]


def test_fewer_processes_than_before_find_the_records_of_all(journal):
    pages = [journal.open_page() for _ in range(3)]
    for number, page in enumerate(pages):
        record(page, {f"i{number}": CLAIM})
    for page in pages:
        page.close()
    page = journal.open_page()
    assert [uuid for uuid, _ in page.found_records()] == ["i0", "i1", "i2"]
    page.close()
    assert [uuid for uuid, _ in found_in(journal)] == ["i0", "i1", "i2"]


def test_what_other_processes_have_recorded_is_known(journal):
    mine, theirs = journal.open_page(), journal.open_page()
    record(mine, {"i1": CLAIM})
    record(theirs, {"i2": CLAIM, "i3": CLAIM})
    assert mine.recorded_by_others(["i1", "i2"]) == [("i2", "", CLAIM, False)]
    assert theirs.recorded_by_others(["i1", "i2"]) == [("i1", "", CLAIM, False)]
    theirs.remove_records(["i2"])
    assert mine.recorded_by_others(["i1", "i2"]) == []


@pytest.mark.parametrize("pages", [1, 2], ids=["its own page", "another page"])
def test_what_a_dead_process_recorded_is_abandoned_by_its_request_until_it_is_removed(journal, pages):
    """Also after the process that took it over has died."""
    mine, *dead = [journal.open_page() for _ in range(3)]
    record(dead[-1], {"i1": CLAIM}, "m1")
    for page in dead:
        page.close()
    for _ in range(2):
        successors = [journal.open_page() for _ in range(pages)]
        record(successors[0], {"i1": CLAIM}, "m2")
        assert sorted(mine.recorded_by_others(["i1"]), key=lambda one: one.request) == [
            ("i1", "m1", CLAIM, True),
            ("i1", "m2", CLAIM, False),
        ]
        successors[0].remove_records(["i1"])
        record(successors[0], {"i1": CLAIM}, "m1")
        for page in successors:
            page.close()


def test_what_was_never_sent_is_void_after_the_death_of_its_process(journal):
    pages = [journal.open_page() for _ in range(2)]
    for number, page in enumerate(pages):
        page.add_records({f"sent {number}": CLAIM, f"unsent {number}": CLAIM})
        page.mark_sent([f"sent {number}"])
    assert [one.instance for one in pages[0].recorded_by_others(["unsent 1", "unsent 2"])] == ["unsent 1"]
    for page in pages:
        page.close()
    assert [uuid for uuid, _ in found_in(journal)] == ["sent 0", "sent 1"]


def test_refused_claims_leave_no_record(journal):
    page = journal.open_page()
    record(page, {"i1": CLAIM, "i2": CLAIM})
    page.withdraw_records(["i1"])
    page.close()
    assert found_in(journal) == [("i2", CLAIM)]


def test_a_refused_claim_leaves_the_records_of_earlier_ones(journal):
    page = journal.open_page()
    later = {**CLAIM, "generation": 2}
    for claims in ({"i1": CLAIM}, {"i1": later}, {"i1": later, "i2": later}):
        record(page, claims)
    page.withdraw_newest({"i1": later, "i2": later, "i3": later})
    page.close()
    assert found_in(journal) == [("i1", CLAIM), ("i1", later)]


def test_a_running_process_takes_over_a_dead_one_of_which_it_wants_to_know(journal):
    mine, dead, alive = [journal.open_page() for _ in range(3)]
    record(dead, {"i1": CLAIM, "i2": CLAIM}, "m1")
    dead.messages.begin_reply("m2", failed=False)
    record(alive, {"i1": CLAIM}, "m3")
    dead.close()
    assert mine.recorded_by_others(["unknown"]) == []
    assert mine.found_records() == []
    assert mine.recorded_by_others(["i1"]) == [("i1", "m3", CLAIM, False)]
    assert mine.found_records() == [("i1", CLAIM), ("i2", CLAIM)]
    assert mine.found_records() == []
    assert mine.messages.reply_to("m2") == RecordedReply(failed=False, confirmed=False)
    assert alive.recorded_by_others(["i2"]) == [("i2", "m1", CLAIM, True)]
    assert found_in(journal) == []
    mine.close()
    assert found_in(journal) == [("i1", CLAIM), ("i2", CLAIM)]


def test_of_two_processes_that_find_a_dead_one_the_second_sees_the_records_of_the_first(journal):
    first, second, dead = [journal.open_page() for _ in range(3)]
    record(dead, {"i1": CLAIM}, "m1")
    dead.close()
    with contextlib.closing(PageLockOf(journal, "page-2")):  # the first one is taking it
        assert second.recorded_by_others(["i1"]) == [("i1", "m1", CLAIM, False)]
    assert first.take_over_dead().taken
    assert second.recorded_by_others(["i1"]) == [("i1", "m1", CLAIM, True)]
    assert [len(page.found_records()) for page in (first, second)] == [1, 0]


def test_runs_of_a_message_that_ended_with_their_process_are_counted_in_all_pages(journal):
    def run_and_die(message):
        journal.open_page().messages.begin_run(message)
        os.kill(os.getpid(), signal.SIGKILL)

    other = journal.open_page()
    other.messages.begin_run("m1")  # by a process that is alive
    for _ in range(2):
        assert in_a_process(run_and_die, "m1") == -signal.SIGKILL
    page = journal.open_page()
    interrupted = [
        other.messages.interrupted_runs("m1"),
        page.messages.interrupted_runs("m1"),
        page.messages.interrupted_runs("m2"),
    ]
    assert interrupted == [2, 2, 0]
    page.messages.end_run("m1")
    assert other.messages.interrupted_runs("m1") == 0


def test_runs_whose_end_was_not_recorded_are_forgotten_after_a_day(journal):
    for age, expected in ((RUNS_KEPT - 60, 1), (RUNS_KEPT + 60, 0)):
        with mock.patch.object(message_records.time, "time", return_value=time.time() - age):
            page = journal.open_page()
            page.messages.begin_run("m1")
            page.close()
        page = journal.open_page()
        assert page.messages.interrupted_runs("m1") == expected
        page.messages.end_run("m1")
        page.close()


def test_a_page_that_cannot_be_read_is_put_aside(journal, caplog):
    journal.directory.joinpath("page-0.sqlite").write_bytes(b"not a database" * 100)
    page = journal.open_page()
    assert "cannot be read" in caplog.text
    record(page, {"i1": CLAIM})
    page.close()
    assert found_in(journal) == [("i1", CLAIM)]
    assert len(list(journal.directory.glob("*unreadable*"))) == 1


def replace_lock_by_directory(directory):
    (directory / "page-0.lock").mkdir()


def use_another_schema(directory):
    with contextlib.closing(sqlite3.connect(directory / "page-0.sqlite")) as database:
        database.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, instance TEXT, claim BLOB)")


@pytest.mark.parametrize("damage", [replace_lock_by_directory, use_another_schema])
def test_a_page_that_cannot_be_used_does_not_end_the_search_for_another_one(journal, damage, caplog):
    damage(journal.directory)
    assert in_a_process(die_with, journal, [("i1", CLAIM)]) == -signal.SIGKILL
    assert found_in(journal) == [("i1", CLAIM)]
    assert "Journal page page-0 in" in caplog.text


def break_first_bytes(path):
    path.write_bytes(b"not a database" * 100)


def break_pages(path):
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))


def replace_by_directory(path):
    path.rename(path.with_name("elsewhere"))
    path.mkdir()


@pytest.mark.parametrize("damage", [break_first_bytes, break_pages, replace_by_directory])
@pytest.mark.parametrize("known", [False, True], ids=["new to the others", "read before"])
def test_a_broken_page_of_a_dead_process_is_put_aside_and_counts_no_more(journal, damage, known, caplog):
    mine, dead = journal.open_page(), journal.open_page()
    record(dead, dict.fromkeys(map(str, range(200)), CLAIM), "m1")
    dead.messages.begin_run("m1")
    dead.close()
    if known:
        with contextlib.closing(PageLockOf(journal, "page-1")):
            assert mine.messages.runs_elsewhere("m1")
    damage(journal.directory / "page-1.sqlite")
    assert not mine.messages.runs_elsewhere("m1")
    mine.take_over_dead()
    assert (mine.messages.runs_elsewhere("m1"), mine.recorded_by_others(["1"])) == (False, [])
    errors = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert str(journal.directory / "page-1.sqlite") in errors[0]
    assert len(list(journal.directory.glob("page-1.unreadable-*"))) == 1


def test_a_dead_page_that_a_full_disk_keeps_from_being_taken_over_counts_as_dead_and_is_taken_later(
    journal, caplog
):
    mine, dead = journal.open_page(), journal.open_page()
    large = {"text": "x" * 2 * RESERVE}
    record(dead, {"i1": large}, "m1")
    dead.add_records({"i1": CLAIM}, "m1")  # never sent
    dead.messages.begin_run("m1")
    dead.close()
    with full_disk(journal):
        for _ in range(2):
            assert not mine.messages.runs_elsewhere("m1")
            assert [each[2:] for each in mine.recorded_by_others(["i1"])] == [(large, True)]
    errors = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert str(journal.directory / "page-1.sqlite") in errors[0]
    assert mine.recorded_by_others(["i1"]) == []
    assert mine.found_records() == [("i1", large)]
    assert mine.messages.interrupted_runs("m1") == 1


def test_a_page_that_cannot_be_opened_counts_as_dead(journal, caplog):
    """Its last owner is dead, and nobody runs what that one ran."""
    mine, dead = journal.open_page(), journal.open_page()
    dead.messages.begin_run("m1")
    dead.close()
    with mock.patch.object(page_file, "_SCHEMA", "SELECT * FROM no_such_table"):
        assert journal.open_page() is None
    assert "Claims of this worker are not recorded in the journal: no such table" in caplog.text
    assert not mine.messages.runs_elsewhere("m1")
    assert mine.messages.interrupted_runs("m1") == 1


def test_a_run_whose_end_cannot_be_recorded_is_ended_with_the_next(journal, monkeypatch):
    monkeypatch.setattr(page_file, "BUSY_TIMEOUT", 0.001)
    mine, other = journal.open_page(), journal.open_page()
    for message in ("left", "ended", "answered", "again", "runs"):
        mine.messages.begin_run(message)
    with contextlib.closing(sqlite3.connect(journal.directory / "page-0.sqlite")) as reader:
        reader.execute("BEGIN IMMEDIATE")
        mine.messages.leave_run("left")
        mine.messages.end_run("ended")
        mine.messages.confirm_reply("answered")
        mine.messages.leave_run("again")
        mine.messages.begin_run("again")
        assert other.messages.runs_elsewhere("left")
    mine.messages.end_run("unknown")
    running = {
        message
        for message in ("left", "ended", "answered", "again", "runs")
        if other.messages.runs_elsewhere(message)
    }
    assert running == {"again", "runs"}


def test_a_full_disk_costs_the_record_but_not_the_service(journal, caplog):
    page = journal.open_page()
    record(page, {"old": CLAIM})
    with full_disk(journal):
        record(page, {"i1": {"text": "x" * 2 * RESERVE}})
    assert "Claims are not recorded in the journal" in caplog.text
    record(page, {"i2": CLAIM})
    page.close()
    assert [uuid for uuid, _ in found_in(journal)] == ["old", "i2"]


def test_a_removal_that_fails_is_repeated_by_the_next(journal, caplog, monkeypatch):
    monkeypatch.setattr(page_file, "BUSY_TIMEOUT", 0.001)
    page = journal.open_page()
    record(page, {"i1": CLAIM, "i2": CLAIM})
    reader = sqlite3.connect(journal.directory / "page-0.sqlite", isolation_level=None)
    reader.execute("BEGIN IMMEDIATE")
    page.remove_records(["i1"])
    assert "Claims are not recorded in the journal" in caplog.text
    reader.execute("ROLLBACK")
    page.remove_records(["unknown"])
    page.close()
    reader.close()
    assert [uuid for uuid, _ in found_in(journal)] == ["i2"]


def test_a_removal_that_fails_spares_what_is_recorded_later(journal, monkeypatch):
    monkeypatch.setattr(page_file, "BUSY_TIMEOUT", 0.001)
    page = journal.open_page()
    record(page, {"i1": CLAIM}, "m1")
    with contextlib.closing(sqlite3.connect(journal.directory / "page-0.sqlite")) as reader:
        reader.execute("BEGIN IMMEDIATE")
        page.remove_records(["i1"])
    later = {**CLAIM, "owner": ["later", None]}
    record(page, {"i1": later}, "m2")
    page.remove_records(["i2"])
    page.close()
    assert found_in(journal) == [("i1", later)]


def fill_the_disk_and_die(journal, answered):
    page = journal.open_page()
    record(page, dict.fromkeys((*answered, "open"), CLAIM))
    with full_disk(journal):
        for instance in answered:
            page.remove_records([instance])
        os.kill(os.getpid(), signal.SIGKILL)


def test_answered_claims_are_not_found_after_death_on_a_full_disk(journal):
    """Their records have to go: the next process would give back what callers were told."""
    answered = [f"i{number}" for number in range(300)]
    assert in_a_process(fill_the_disk_and_die, journal, answered) == -signal.SIGKILL
    assert found_in(journal) == [("open", CLAIM)]


def test_records_are_read_without_changing_them(journal):
    page = journal.open_page()
    record(page, {"i1": CLAIM})
    path = journal.directory / "page-0.sqlite"
    assert list(read_records(path)) == list(read_records(path)) == [("i1", CLAIM)]
    assert list(read_records(path.with_name("missing.sqlite"))) == []
    page.close()


def test_files_are_readable_by_their_owner_alone(journal):
    record(journal.open_page(), {"i1": CLAIM})
    modes = {path.name: path.stat().st_mode & 0o777 for path in journal.directory.iterdir()}
    assert set(modes.values()) == {0o600}, modes
    assert journal.directory.stat().st_mode & 0o777 == 0o700


def test_without_a_usable_directory_the_journal_is_temporary_and_says_so(tmp_path, caplog):
    journal = Journal(tmp_path / "missing" / "deeper", str(tmp_path))
    assert caplog.text.count("no journal of claims can be kept there") == 1
    assert not journal.durable
    assert journal.directory.parent == tmp_path
    in_a_process(die_with, journal, [("i1", CLAIM)])
    assert found_in(journal) == [("i1", CLAIM)]


def test_what_a_killed_daemon_without_a_state_path_has_left_is_removed_by_the_next_one(tmp_path):
    in_use, kept = Journal(temporary=str(tmp_path)), Journal(tmp_path / "berth-claims-me")

    def start_and_die():
        die_with(Journal(temporary=str(tmp_path)), [("i1", CLAIM)])

    assert in_a_process(start_and_die) == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 3
    found = Journal(temporary=str(tmp_path)).directory
    assert set(tmp_path.iterdir()) == {in_use.directory, kept.directory, found}


def test_the_lock_of_a_page_ends_with_the_process(tmp_path):
    lock = tmp_path / "lock"

    def take():
        PageLock(lock)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_process(take) == -signal.SIGKILL
    held = PageLock(lock)
    with pytest.raises(BlockingIOError):
        PageLock(lock)
    held.release()
    PageLock(lock).release()


@pytest.mark.parametrize("durable", [False, True])
def test_cost_of_a_record(tmp_path, durable):
    """A claim takes at least ten times as long in Placement."""
    page = JournalPage(tmp_path / "page-0.sqlite", PageLock(tmp_path / "lock"), durable=durable)
    began = time.process_time()
    for number in range(200):
        record(page, {f"i{number}": CLAIM})
    assert (time.process_time() - began) / 200 < 0.002
    page.close()


class TestDirectory:
    @staticmethod
    def conf(tmp_path, text):
        path = tmp_path / "nova.conf"
        path.write_text(f"[DEFAULT]\nhost = a/b\n{text}\n")
        conf = cfg.ConfigOpts()
        conf.register_opts(
            [cfg.StrOpt("state_path", default="/code"), cfg.StrOpt("host"), cfg.StrOpt("tempdir")]
        )
        conf([], default_config_files=[str(path)])
        return conf

    def test_it_is_below_the_state_path_and_has_the_name_of_the_host(self, tmp_path):
        conf = self.conf(tmp_path, f"state_path = {tmp_path}")
        assert journal_directory(conf) == tmp_path / "berth-claims-a_b"
        assert Journal.from_conf(conf).durable

    def test_without_a_state_path_it_is_temporary(self, tmp_path, caplog):
        caplog.set_level("INFO")
        conf = self.conf(tmp_path, f"tempdir = {tmp_path}")
        assert journal_directory(conf) is None
        assert not Journal.from_conf(conf).durable
        assert caplog.text.count("[DEFAULT]/state_path is not set") == 1


class TestClaimJournal:
    made = ConsumerAllocations(candidate(A, B).allocations, 1, owner=OWNER)
    source = ConsumerAllocations(candidate(A).allocations, 3, OWNER)

    def found_by_next(self, journal):
        _, page, found = opened(journal)
        page.close()
        return found

    def test_what_was_recorded_is_a_claim_of_unknown_outcome_to_the_next_process(self, journal):
        claims, page, nothing = opened(journal)
        claims.record_writes({"i1": OwnWrite(self.made)})
        claims.record_writes({"i2": OwnWrite(self.made, self.source)})
        claims.mark_sent(["i1", "i2"])
        page.close()
        assert nothing == []
        found = dict(self.found_by_next(journal))
        assert {uuid: (claim.made, claim.previous) for uuid, claim in found.items()} == {
            "i1": (self.made, None),
            "i2": (self.made, self.source),
        }
        assert all(claim.claimed and claim.unsure for claim in found.values())

    def test_removed_claims_are_not_found(self, journal):
        claims, page, _ = opened(journal)
        claims.record_writes({"i1": OwnWrite(self.made)})
        claims.mark_sent(["i1"])
        claims.remove_records(["i1"])
        page.close()
        assert self.found_by_next(journal) == []

    def test_a_claim_is_not_forgotten_with_an_earlier_one_that_was_answered(self, journal):
        (dead, dead_page, _), (claims, page, found) = opened(journal), opened(journal)
        dead.record_writes({"i1": OwnWrite(self.made)}, "answered")
        dead.mark_sent(["i1"])
        dead.begin_reply("answered", failed=False)
        dead_page.close()
        claims.record_writes({"i1": OwnWrite(self.source)}, "later")
        assert (claims.claims_of_others(["i1"], "later"), found) == (OtherClaims(), [])
        claims.mark_sent(["i1"])
        page.close()
        assert [(uuid, claim.made) for uuid, claim in self.found_by_next(journal)] == [("i1", self.source)]

    def test_what_another_thread_has_taken_over_is_reported_before_it_counts_as_known(self, journal):
        (dead, dead_page, _), claims, found, seen = opened(journal), ClaimJournal(), [], []
        done = threading.Event()

        def look():
            claims.claims_of_others(["i1"])
            seen.extend(found)
            done.set()

        def report(uuid, _claim):
            threading.Thread(target=look).start()
            done.wait(0.1)
            found.append(uuid)

        claims.open_page(journal, report)
        dead.record_writes({"i1": OwnWrite(self.made)})
        dead.mark_sent(["i1"])
        dead_page.close()
        claims.claims_of_others(["i1"])
        assert done.wait(10)
        assert seen == ["i1"]

    def test_without_a_page_nothing_is_recorded(self):
        full = mock.create_autospec(Journal, instance=True)
        full.open_page.return_value = None
        claims = ClaimJournal()
        claims.record_writes({"i1": OwnWrite(self.made)})
        claims.open_page(full, lambda *_: pytest.fail("there is no page"))
        claims.record_writes({"i1": OwnWrite(self.made)})
        claims.remove_records(["i1"])
        assert claims.claims_of_others(["i1"]) == OtherClaims()

    def test_a_page_that_could_not_be_opened_is_opened_with_a_later_message(self, journal):
        now, pages = [100.0], [None, None, journal.open_page()]
        claims, other = ClaimJournal(clock=lambda: now[0]), journal.open_page()
        claims.open_page(SimpleNamespace(open_page=lambda: pages.pop(0)), lambda *_: None)
        for seconds, left in ((1.0, 2), (REOPEN_DELAY, 1), (1.0, 1)):
            now[0] += seconds
            claims.begin_run("m1")
            assert (len(pages), other.messages.runs_elsewhere("m1")) == (left, False)
        now[0] += REOPEN_DELAY
        claims.begin_run("m2")
        now[0] += REOPEN_DELAY
        claims.begin_run("m3")
        assert [other.messages.runs_elsewhere(each) for each in ("m1", "m2", "m3")] == [False, True, True]

    def test_records_that_are_not_understood_are_removed(self, journal, caplog):
        page = journal.open_page()
        record(page, {"a": 7, "b": {}, "c": {"made": {}, "previous": None}})
        page.close()
        assert self.found_by_next(journal) == []
        assert caplog.text.count("is not understood") == 3
        assert found_in(journal) == []


class TestReplies:
    def test_a_reply_is_known_to_all_processes_until_it_is_withdrawn(self, journal):
        one, other = journal.open_page(), journal.open_page()
        assert one.messages.reply_to("m1") is None
        one.messages.begin_reply("m1", failed=True)
        assert (
            other.messages.reply_to("m1")
            == one.messages.reply_to("m1")
            == RecordedReply(failed=True, confirmed=False)
        )
        one.messages.begin_reply("m1", failed=False)
        one.messages.confirm_reply("m1")
        assert other.messages.reply_to("m1") == RecordedReply(failed=False, confirmed=True)
        one.messages.withdraw_reply("m1")
        assert other.messages.reply_to("m1") is None

    def test_a_confirmed_reply_outlives_its_process_and_is_preferred(self, journal):
        one, other = journal.open_page(), journal.open_page()
        one.messages.begin_reply("m1", failed=False)
        one.messages.confirm_reply("m1")
        one.close()
        other.messages.begin_reply("m1", failed=True)
        assert other.messages.reply_to("m1") == RecordedReply(failed=False, confirmed=True)
        assert journal.open_page().messages.reply_to("m1") == RecordedReply(failed=False, confirmed=True)

    def test_replies_of_a_page_without_an_owner_are_taken_over(self, journal):
        pages = [journal.open_page() for _ in range(3)]
        pages[2].messages.begin_reply("m1", failed=False)
        for page in pages:
            page.close()
        assert journal.open_page().messages.reply_to("m1") == RecordedReply(failed=False, confirmed=False)

    def test_replies_are_forgotten_after_some_time(self, journal):
        page = journal.open_page()
        with mock.patch("time.time", return_value=1000.0):
            page.messages.begin_reply("m1", failed=False)
            page.messages.confirm_reply("m1")
        with mock.patch("time.time", return_value=1000.0 + REPLIES_KEPT + 1):
            page.messages.confirm_reply("m2")
        assert page.messages.reply_to("m1") is None

    @pytest.mark.parametrize(
        ("failed", "kept"), [(False, True), (True, False), (None, False)], ids=["hosts", "error", "no reply"]
    )
    def test_claims_that_a_caller_may_have_been_answered_with_are_not_found(self, journal, failed, kept):
        page = journal.open_page()
        record(page, {"i1": CLAIM, "i2": CLAIM}, "m1")
        record(page, {"i3": CLAIM}, "m2")
        if failed is not None:
            page.messages.begin_reply("m1", failed=failed)
        page.close()
        successor = journal.open_page()
        expected = ["i3"] if kept else ["i1", "i2", "i3"]
        assert [uuid for uuid, _ in successor.found_records()] == expected
        successor.close()
        assert [uuid for uuid, _ in found_in(journal)] == expected


class TestRuns:
    def test_a_message_runs_elsewhere_until_that_process_leaves_it(self, journal):
        one, other = journal.open_page(), journal.open_page()
        one.messages.begin_run("m1")
        assert (one.messages.runs_elsewhere("m1"), other.messages.runs_elsewhere("m1")) == (False, True)
        one.messages.leave_run("m1")
        assert not other.messages.runs_elsewhere("m1")

    def test_a_message_runs_nowhere_once_its_process_has_died(self, journal):
        one, other, third = [journal.open_page() for _ in range(3)]
        one.messages.begin_run("m1")
        third.messages.begin_run("m2")
        one.close()
        assert not other.messages.runs_elsewhere("m1")
        assert other.messages.runs_elsewhere("m2")
        assert other.messages.interrupted_runs("m1") == 1

    def test_to_leave_a_message_does_not_forget_its_interrupted_runs(self, journal):
        one = journal.open_page()
        one.messages.begin_run("m1")
        one.close()
        successor = journal.open_page()
        successor.messages.leave_run("m1")
        assert successor.messages.interrupted_runs("m1") == 1

    def test_what_another_process_ran_is_known_unless_it_returned_it(self, journal):
        mine, other = journal.open_page(), journal.open_page()
        for message in ("own", "runs", "answered", "returned", "died"):
            (mine if message == "own" else other).messages.begin_run(message)
        other.messages.begin_reply("answered", failed=True)
        other.messages.confirm_reply("answered")
        other.messages.end_run("returned")
        expected = {"runs": True, "answered": True, "returned": False, "died": True, "own": False}
        assert {message: mine.messages.was_run_elsewhere(message) for message in expected} == expected
        other.close()
        assert mine.take_over_dead().taken
        assert {message: mine.messages.was_run_elsewhere(message) for message in expected} == expected

    def test_a_confirmed_reply_ends_the_run(self, journal):
        one, other = journal.open_page(), journal.open_page()
        one.messages.begin_run("m1")
        one.messages.confirm_reply("m1")
        assert not other.messages.runs_elsewhere("m1")
