from dataclasses import replace
import threading

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.claims.allocations_api import NOTHING, Owner
from scheduler.claims.claim import ClaimRequest
from scheduler.claims.claimer import Claimer
from scheduler.claims.journal import Journal
from scheduler.claims.policy import ClaimPolicy
from scheduler.claims.result import Outcome
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.errors import PlacementSilent
from tests.unit.claims.fake_consumers import FakeConsumers

# No waiting; the background waits for drain().
PROMPT = ClaimPolicy(
    lock=5.0,
    retry=(0.0, 0.0),
    tries=4,
    after_break=(0.0,) * 3,
    after_timeout=(0.0,) * 5,
    late=0.0,
    cleanup=(3600.0,),
)
UUID = "instance"
A, B, GONE = "aaaa", "bbbb", "dead"


def candidate(*providers, root=None):
    root = root or providers[0]
    entries = {provider: {"resources": {"VCPU": 1}} for provider in providers}
    return AllocationCandidate.of(root, tuple(sorted({root, *providers})), entries, {"": list(providers)})


def make(write_faults=(), read_faults=(), patience=PROMPT):
    api = FakeConsumers({A: 1, B: 1}, write_faults=list(write_faults), read_faults=list(read_faults))
    return Claimer(api, patience), api


def claim(claimer, where=A, evacuating_from=()):
    return claimer.claim(UUID, candidate(where), "project", "user", None, evacuating_from)


FAULTS = st.sampled_from(
    [
        "ok",
        "lost",
        "unanswered",
        "timeout",
        "late 1",
        "late 3",
        "late 9",
        "500",
        "500 after",
        "concurrent",
        "unreachable",
    ]
)
READS = st.sampled_from(["ok", "ok", "silent"])


@given(st.lists(FAULTS, max_size=8), st.lists(READS, max_size=12))
def test_whatever_happens_a_claim_holds_all_or_nothing(write_faults, read_faults):
    claimer, api = make(write_faults, read_faults)
    result = claim(claimer)
    api.settle()
    assert claimer.drain(5) == []
    assert (api.read(UUID).allocations == candidate(A).allocations) == result.claimed
    assert api.used(A) == result.claimed


@given(st.lists(FAULTS, max_size=10), st.lists(READS, max_size=12), st.booleans())
def test_whatever_happens_several_hosts_are_never_doubled(write_faults, read_faults, drain_between):
    claimer, api = make(write_faults, read_faults)
    last = None
    for where in (GONE, A, B):
        last = claim(claimer, where)
        if not last.try_next:
            break
        if drain_between:
            claimer.drain(0.0)
    api.settle()
    claimer.drain(5)
    assert api.used(A) + api.used(B) == last.claimed


@given(st.lists(FAULTS, max_size=8), st.lists(READS, max_size=12), st.booleans())
def test_whatever_happens_the_source_of_an_evacuation_is_kept(write_faults, read_faults, release):
    claimer, api = make(write_faults, read_faults)
    api.give(UUID, candidate(A).allocations)
    result = claim(claimer, B, evacuating_from={A})
    if release:
        claimer.release(UUID, result)
    api.settle()
    assert claimer.drain(5) == []
    both = {**candidate(A).allocations, **candidate(B).allocations}
    expected = both if result.claimed and not release else candidate(A).allocations
    assert api.read(UUID).allocations == expected


@given(st.lists(FAULTS, max_size=8), st.lists(READS, max_size=12))
def test_whatever_happens_a_release_leaves_nothing(write_faults, read_faults):
    claimer, api = make()
    result = claim(claimer)
    api.write_faults, api.read_faults = write_faults, read_faults
    claimer.release(UUID, result)
    api.settle()
    assert claimer.drain(5) == []
    assert api.consumers == {}


@given(st.lists(FAULTS, max_size=8), st.lists(READS, max_size=12), st.lists(FAULTS, max_size=8))
def test_whatever_happens_a_second_request_starts_clean(write_faults, read_faults, more_faults):
    claimer, api = make(write_faults, read_faults)
    claim(claimer, A)
    api.write_faults, api.read_faults = more_faults, []
    result = claim(claimer, B)
    api.settle()
    claimer.drain(5)
    held = api.read(UUID).allocations
    if result.claimed:
        assert held == candidate(B).allocations
    else:
        assert held in ({}, candidate(A).allocations)


CASES = {
    "fresh": ([], Outcome.CLAIMED, ["put"]),
    "lost answer is looked for": (["unanswered"], Outcome.CLAIMED, ["put", "read"]),
    "lost request is sent again, and verified": (
        ["lost"],
        Outcome.CLAIMED,
        ["put", *["read"] * 3, "put", "read"],
    ),
    "late write meets the second": (["late 4"], Outcome.CLAIMED, ["put", *["read"] * 3, "put", "read"]),
    "certainly not sent": (["unreachable"], Outcome.UNAVAILABLE, ["put"]),
    "concurrent updates": (["concurrent"] * 3, Outcome.CLAIMED, ["put"] * 4),
    "too many of them": (["concurrent"] * 4, Outcome.CONTENDED, ["put"] * 4),
    "no write gets through": (["lost"] * 9, Outcome.UNAVAILABLE, ["put", *["read"] * 3] * 3),
    "hidden rows are written again": (
        ["lost", "hidden"],
        Outcome.CLAIMED,
        ["put", *["read"] * 3, "put", "read", "put"],
    ),
}


@pytest.mark.parametrize(("faults", "outcome", "calls"), CASES.values(), ids=CASES.keys())
def test_steps(faults, outcome, calls):
    claimer, api = make(faults)
    assert claim(claimer).outcome is outcome
    assert api.calls == calls
    api.settle()
    assert claimer.drain(5) == []
    assert not api.hidden


def test_orphan_of_our_own_is_known():
    claimer, api = make()
    assert claim(claimer, GONE).outcome is Outcome.GONE
    assert claim(claimer, A).claimed
    assert api.calls == ["put", "put"]


def test_orphan_that_disappeared_meanwhile():
    claimer, api = make()
    claim(claimer, GONE)
    api.consumers.clear()
    assert claim(claimer, A).claimed


def test_given_up_claim_with_overlapping_writes_uncovers_hidden_rows():
    claimer, api = make(["lost", "lost", "lost"])
    assert claim(claimer).outcome is Outcome.UNAVAILABLE
    api.give(UUID, candidate(A).allocations)
    api.hidden.add(UUID)
    assert claimer.drain(5) == []
    assert api.consumers == {}


def test_refused_release_of_an_evacuation_blocks_the_next_one():
    claimer, api = make()
    api.give(UUID, candidate(A).allocations)
    result = claim(claimer, B, evacuating_from={A})
    api.read_faults = ["silent", "silent"]
    claimer.release(UUID, result)
    again = claim(claimer, B, evacuating_from={A})
    assert again.outcome is Outcome.UNAVAILABLE
    assert claim(claimer, B, evacuating_from={A}).previous.allocations == candidate(A).allocations


def test_child_of_the_source_counts_as_the_source():
    claimer, api = make()
    api.capacity[f"{A}-child"] = 1
    api.give(UUID, candidate(f"{A}-child").allocations)
    assert claim(claimer, B, evacuating_from={A}).claimed
    assert api.read(UUID).allocations.keys() == {f"{A}-child", B}


def test_second_claim_of_an_instance_in_flight_is_a_conflict():
    claimer, api = make(patience=ClaimPolicy(lock=0.01))
    entered, leave = threading.Event(), threading.Event()
    put = api.put
    api.put = lambda *arguments: (entered.set(), leave.wait(5), put(*arguments))[2]
    thread = threading.Thread(target=claim, args=(claimer,))
    thread.start()
    entered.wait(5)
    assert claim(claimer).outcome is Outcome.CONFLICT
    other = claimer.claim("other", candidate(A), "project", "user")
    assert other.outcome is Outcome.CONTENDED
    leave.set()
    thread.join(5)
    assert api.used(A) == 1


def test_release_never_raises():
    claimer, api = make()
    result = claim(claimer)

    def broken(*_):
        raise ZeroDivisionError

    api.delete, api.read = broken, broken
    claimer.release(UUID, result)
    assert claimer.drain(0.1) == [UUID]


def test_cleanup_that_never_succeeds_is_given_up(caplog):
    claimer, api = make(patience=ClaimPolicy(cleanup=(0.01,), cleanup_limit=0.05))
    result = claim(claimer)

    def silent(*_):
        raise PlacementSilent("no")

    api.delete, api.read = silent, silent
    claimer.release(UUID, result)
    claimer._releases._worker.join(5)
    assert "may have been left with allocations" in caplog.text
    assert claimer.drain(0) == []


def test_owner_is_passed_on():
    claimer, api = make()
    claim(claimer)
    assert api.read(UUID).owner == Owner("project", "user")
    assert api.read("other") == NOTHING


SLOW = replace(PROMPT, late=0.3)


def test_success_ends_what_an_earlier_claim_left_to_be_done():
    claimer, api = make(["lost"] * 3, patience=replace(PROMPT, late=60.0))
    assert claim(claimer).outcome is Outcome.UNAVAILABLE
    assert claim(claimer).claimed
    assert claimer.drain(0.1) == []
    assert api.used(A) == 1


def test_release_waits_for_a_late_write_of_a_claim_that_succeeded():
    claimer, api = make(["late 99"], patience=SLOW)
    result = claim(claimer)
    assert result.claimed
    claimer.release(UUID, result)
    api.settle()
    assert claimer.drain(5) == []
    assert api.consumers == {}


def test_two_failed_claims_in_a_row_are_both_cleaned_up():
    claimer, api = make(["late 99", "lost", "lost", "late 99", "lost", "lost"], patience=SLOW)
    assert claim(claimer, A).outcome is Outcome.UNAVAILABLE
    assert claim(claimer, B).outcome is Outcome.UNAVAILABLE
    api.settle()
    assert claimer.drain(5) == []
    assert api.consumers == {}


class FakePage:
    """A journal and its page: what was left by another process, and what is noted now."""

    def __init__(self, *left):
        self.noted = {}
        for uuid, note in left:
            self.note(uuid, note)

    def open(self):
        return self

    def left(self):
        return [(uuid, note) for uuid, notes in self.noted.items() for note in notes]

    def note(self, uuid, note):
        self.noted.setdefault(uuid, []).append(note)

    def drop(self, uuids):
        for uuid in uuids:
            self.noted.pop(uuid, None)


def note_of(where, previous=None):
    return {"made": text_of(where), "previous": previous and text_of(previous, 1)}


def text_of(where, generation=None):
    allocations = candidate(*where).allocations
    return {"allocations": allocations, "generation": generation, "owner": ["project", "user"]}


def make_noted(*left, **kwargs):
    claimer, api = make(**kwargs)
    page = FakePage(*left)
    claimer.keep_notes(page)
    return claimer, api, page


def test_claims_are_noted_until_they_are_answered():
    claimer, _, page = make_noted()
    claim(claimer, A)
    claimer.claim_many({"other": candidate(A), "third": candidate(B)}, "project", "user")
    assert page.noted[UUID] == [note_of([A])]
    assert set(page.noted) == {UUID, "other", "third"}
    claimer.answered([UUID, "other"])
    assert set(page.noted) == {"third"}


def test_what_an_evacuated_instance_held_before_is_noted_too():
    claimer, api, page = make_noted()
    api.give(UUID, candidate(A).allocations)
    claim(claimer, B, evacuating_from={A})
    assert page.noted[UUID] == [note_of([B]), note_of([B, A], [A])]
    after, _, page = make_noted(*page.left())
    after._api.consumers = api.consumers
    assert after.drain(5) == []
    assert api.read(UUID).allocations == candidate(A).allocations
    assert page.noted == {}


def test_no_lock_of_the_notes_is_held_while_one_of_the_releases_is_waited_for():
    """The other way round happens: a release that is done drops its notes."""
    claimer, _, _ = make_noted()
    page = Journal().open()
    claimer._notes._page = page
    claim(claimer)
    pending = claimer._releases.pending
    claimer._releases.pending = lambda uuid: page._lock.locked() or pending(uuid)
    claimer.answered([UUID])
    assert page._places == {}


def test_notes_of_what_is_still_to_be_given_back_stay():
    claimer, api, page = make_noted()
    result = claim(claimer)
    api.write_faults = ["lost"]
    claimer.release(UUID, result)
    claimer.answered([UUID])
    assert page.noted == {UUID: [note_of([A])]}
    assert claimer.drain(5) == []
    assert page.noted == {}


def test_notes_of_what_cannot_be_given_back_are_left_to_the_next_process():
    claimer, api, page = make_noted(read_faults=["silent"] * 99)
    result = claim(claimer)
    api.write_faults = ["lost"] * 99
    claimer.release(UUID, result)
    claimer.answered([UUID])
    assert claimer.drain(0) == [UUID]
    assert page.noted == {UUID: [note_of([A])]}


@pytest.mark.parametrize(("held", "left"), [(A, NOTHING.allocations), (B, candidate(B).allocations)])
def test_what_a_dead_process_noted_is_taken_back_and_nothing_else(held, left):
    claimer, api = make()
    api.give(UUID, candidate(held).allocations)
    page = FakePage((UUID, note_of([A])), ("nothing", note_of([A])))
    claimer.keep_notes(page)
    assert set(page.noted) == {UUID, "nothing"}
    assert claimer.drain(5) == []
    assert api.read(UUID).allocations == left
    assert page.noted == {}


def test_a_note_that_is_not_understood_is_dropped(caplog):
    good = ("good", note_of([A]))
    claimer, _, page = make_noted(("a", 7), ("b", {}), ("c", {"made": {}, "previous": None}), good)
    assert caplog.text.count("is not understood") == 3
    assert set(page.noted) == {"good"}
    assert claimer.drain(5) == []


SLOW_TO_TELL = replace(PROMPT, late=60.0)


def test_a_claim_whose_check_is_not_answered_is_given_back():
    """An earlier claim's write may still be on its way, so that the next claim looks whether it stands."""
    claimer, api = make(["lost"] * 3, patience=SLOW_TO_TELL)
    assert claim(claimer, A).outcome is Outcome.UNAVAILABLE
    api.read_faults = ["ok", "silent"]
    assert claim(claimer, B).outcome is Outcome.UNAVAILABLE
    assert claimer.drain(0.1) == [UUID]
    assert api.consumers == {}


def test_a_release_waits_for_lost_writes_of_earlier_claims():
    claimer, api = make(["late 99", "lost", "lost"], patience=replace(PROMPT, late=0.5))
    assert claim(claimer, A).outcome is Outcome.UNAVAILABLE
    result = claim(claimer, B)
    assert result.claimed
    claimer.release(UUID, result)
    assert api.consumers == {}
    api.settle()
    assert api.used(A)
    assert claimer.drain(5) == []
    assert api.consumers == {}


def test_what_a_later_claim_got_is_not_given_back_by_a_release_that_waited():
    claimer, api = make()
    first = claim(claimer)
    with claimer._instances.hold([UUID], 1) as alone:
        assert alone
        waiting = threading.Thread(target=claimer.release, args=(UUID, first))
        waiting.start()
        while not claimer._releases.pending(UUID):
            pass
        assert claimer._settle(ClaimRequest(UUID, candidate(A), Owner("project", "user")), first).claimed
    waiting.join(5)
    assert claimer.drain(5) == []
    assert api.used(A) == 1


@pytest.mark.parametrize("fault", ["500", "500 after", "concurrent", "lost", "unanswered"])
def test_uncovering_of_hidden_rows_goes_on_until_placement_tells(fault):
    claimer, api = make(["lost", "lost", "lost", fault])
    assert claim(claimer).outcome is Outcome.UNAVAILABLE
    api.give(UUID, candidate(A).allocations)
    api.hidden.add(UUID)
    assert claimer.drain(5) == []
    assert api.consumers == {}
