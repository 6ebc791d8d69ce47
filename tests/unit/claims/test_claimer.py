from dataclasses import replace
import threading
import time

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.placement.allocations import NOTHING, ConsumerAllocations, Owner
from scheduler.claims.claimer import Claimer
from scheduler.claims.fence import HeldClaim
from scheduler.claims.journal_page import Record
from scheduler.claims.policy import ClaimPolicy
from scheduler.claims.result import Outcome
from scheduler.message_runs import RecordedReply
from tests.unit.claims.builders import (
    FAULTS,
    GONE,
    OWNER,
    PROMPT,
    READS,
    UUID,
    A,
    B,
    Host,
    SleepClock,
    candidate,
    claim,
    make_claimer,
    make_request,
)
from tests.unit.claims.fake_consumers import FakeConsumers

LATE = replace(PROMPT, late_write_window=60.0)


@given(st.lists(FAULTS, max_size=8), st.lists(READS, max_size=12))
def test_under_random_faults_a_claim_holds_its_candidate_or_nothing(write_faults, read_faults):
    claimer, api = make_claimer(write_faults, read_faults)
    result = claim(claimer)
    api.settle()
    assert claimer.drain(5) == []
    assert (api.get_allocations(UUID).allocations == candidate(A).allocations) == result.claimed
    assert api.used(A) == result.claimed


@given(st.lists(FAULTS, max_size=10), st.lists(READS, max_size=12), st.booleans())
def test_under_random_faults_an_instance_never_holds_two_hosts(write_faults, read_faults, drain_between):
    claimer, api = make_claimer(write_faults, read_faults)
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
def test_under_random_faults_the_source_of_an_evacuation_is_kept(write_faults, read_faults, release):
    claimer, api = make_claimer(write_faults, read_faults)
    api.give(UUID, candidate(A).allocations)
    result = claim(claimer, B, evacuating_from={A})
    if release:
        claimer.release(UUID, result)
    api.settle()
    assert claimer.drain(5) == []
    both = {**candidate(A).allocations, **candidate(B).allocations}
    expected = both if result.claimed and not release else candidate(A).allocations
    assert api.get_allocations(UUID).allocations == expected


@given(st.lists(FAULTS, max_size=8), st.lists(READS, max_size=12))
def test_under_random_faults_a_release_leaves_nothing(write_faults, read_faults):
    claimer, api = make_claimer()
    result = claim(claimer)
    api.write_faults, api.read_faults = write_faults, read_faults
    claimer.release(UUID, result)
    api.settle()
    assert claimer.drain(5) == []
    assert api.consumers == {}


@given(st.lists(FAULTS, max_size=8), st.lists(READS, max_size=12), st.lists(FAULTS, max_size=8))
def test_under_random_faults_a_second_request_replaces_the_first(write_faults, read_faults, more_faults):
    claimer, api = make_claimer(write_faults, read_faults)
    claim(claimer, A)
    api.write_faults, api.read_faults = more_faults, []
    result = claim(claimer, B)
    api.settle()
    claimer.drain(5)
    held = api.get_allocations(UUID).allocations
    if result.claimed:
        assert held == candidate(B).allocations
    else:
        assert held in ({}, candidate(A).allocations)


CASES = {
    "fresh": ([], Outcome.CLAIMED, ["put"]),
    "lost answer is looked for": (["unanswered"], Outcome.CLAIMED, ["put", "read"]),
    "lost request is sent again, verified, and told from the lost one": (
        ["lost"],
        Outcome.CLAIMED,
        ["put", *["read"] * 3, "put", "read", "put"],
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
def test_requests_to_placement_and_outcome(faults, outcome, calls):
    claimer, api = make_claimer(faults)
    assert claim(claimer).outcome is outcome
    assert api.calls == calls
    api.settle()
    assert claimer.drain(5) == []
    assert not api.hidden


def test_an_empty_consumer_of_our_own_is_known():
    claimer, api = make_claimer()
    assert claim(claimer, GONE).outcome is Outcome.GONE
    assert claim(claimer, A).claimed
    assert api.calls == ["put", "put"]


def test_an_empty_consumer_that_disappeared_costs_one_conflict():
    claimer, api = make_claimer()
    claim(claimer, GONE)
    api.consumers.clear()
    assert claim(claimer, A).claimed


def test_given_up_claim_with_overlapping_writes_uncovers_hidden_rows():
    claimer, api = make_claimer(["lost", "lost", "lost"])
    assert claim(claimer).outcome is Outcome.UNAVAILABLE
    api.give(UUID, candidate(A).allocations)
    api.hidden.add(UUID)
    assert claimer.drain(5) == []
    assert api.consumers == {}


def test_refused_release_of_an_evacuation_blocks_the_next_one():
    claimer, api = make_claimer()
    api.give(UUID, candidate(A).allocations)
    result = claim(claimer, B, evacuating_from={A})
    api.write_faults, api.read_faults = ["500"], ["silent"]
    claimer.release(UUID, result)
    again = claim(claimer, B, evacuating_from={A})
    assert again.outcome is Outcome.UNAVAILABLE
    assert claim(claimer, B, evacuating_from={A}).previous.allocations == candidate(A).allocations


def test_child_of_the_source_counts_as_the_source():
    claimer, api = make_claimer()
    api.capacity[f"{A}-child"] = 1
    api.give(UUID, candidate(f"{A}-child").allocations)
    assert claim(claimer, B, evacuating_from={A}).claimed
    assert api.get_allocations(UUID).allocations.keys() == {f"{A}-child", B}


def test_second_claim_of_an_instance_in_flight_is_a_conflict():
    claimer, api = make_claimer(policy=ClaimPolicy(lock_timeout=0.01))
    entered, leave = threading.Event(), threading.Event()
    put = api.put_allocations
    api.put_allocations = lambda *arguments: (entered.set(), leave.wait(30), put(*arguments))[2]
    thread = threading.Thread(target=claim, args=(claimer,))
    thread.start()
    entered.wait(30)
    assert claim(claimer).outcome is Outcome.CONFLICT
    other = claim(claimer, A, uuid="other")
    assert other.outcome is Outcome.CONTENDED
    leave.set()
    thread.join(30)
    assert api.used(A) == 1


def test_release_never_raises():
    claimer, api = make_claimer()
    result = claim(claimer)

    def broken(*_):
        raise ZeroDivisionError

    api.put_allocations, api.get_allocations = broken, broken
    claimer.release(UUID, result)
    assert claimer.drain(0.1) == [UUID]


def test_owner_is_passed_on():
    claimer, api = make_claimer()
    claim(claimer)
    assert api.get_allocations(UUID).owner == Owner("project", "user")
    assert api.get_allocations("other") == NOTHING


def test_success_ends_what_an_earlier_claim_left_to_be_done():
    claimer, api = make_claimer(["lost"] * 3, policy=LATE)
    assert claim(claimer).outcome is Outcome.UNAVAILABLE
    assert claim(claimer).claimed
    assert claimer.drain(0.1) == []
    assert api.used(A) == 1


def test_release_waits_for_a_late_write_of_a_claim_that_succeeded():
    clock = SleepClock()
    claimer, api = make_claimer(["late 99"], policy=LATE, timing=clock.timing)
    result = claim(claimer)
    assert result.claimed
    claimer.release(UUID, result)
    api.settle()
    clock.now += LATE.late_write_window
    assert claimer.drain(5) == []
    assert api.consumers == {}


def test_two_failed_claims_in_a_row_are_both_cleaned_up():
    clock = SleepClock()
    claimer, api = make_claimer(
        ["late 99", "lost", "lost", "late 99", "lost", "lost"], policy=LATE, timing=clock.timing
    )
    assert claim(claimer, A).outcome is Outcome.UNAVAILABLE
    assert claim(claimer, B).outcome is Outcome.UNAVAILABLE
    api.settle()
    clock.now += LATE.late_write_window
    assert claimer.drain(5) == []
    assert api.consumers == {}


class FakePage:
    """A journal and its page: what another process left, and what is recorded now."""

    def __init__(self, *found):
        self.recorded, self.elsewhere, self.sent, self.found = {}, [], [], list(found)
        self.replies = {}
        for uuid, record in found:
            self.add_records({uuid: record})

    def open_page(self):
        return self

    @property
    def messages(self):
        return self

    def found_records(self):
        found, self.found = self.found, []
        return found

    def all_records(self):
        return [(uuid, record) for uuid, records in self.recorded.items() for record in records]

    def add_records(self, records, request=""):
        for uuid, record in records.items():
            self.recorded.setdefault(uuid, []).append(record)

    def mark_sent(self, uuids):
        self.sent += uuids

    def recorded_by_others(self, uuids):
        return [record for record in self.elsewhere if record.instance in uuids]

    def reply_to(self, message_id):
        return self.replies.get(message_id)

    def remove_records(self, uuids):
        for uuid in uuids:
            self.recorded.pop(uuid, None)

    withdraw_records = remove_records


def record_of(where, previous=None, generation=1):
    return {"made": text_of(where, generation), "previous": previous and text_of(previous, 1)}


def text_of(where, generation=1):
    allocations = candidate(*where).allocations
    return {"allocations": allocations, "generation": generation, "owner": ["project", "user"]}


def make_recorded(*found, **kwargs):
    claimer, api = make_claimer(**kwargs)
    page = FakePage(*found)
    claimer.open_journal(page)
    return claimer, api, page


def test_a_claim_that_was_never_sent_is_not_taken_for_one_of_another_host(tmp_path):
    """Both have the generation of a new consumer."""
    api = FakeConsumers({A: 1})
    one, other = Host(tmp_path / "one", api), Host(tmp_path / "other", api)
    killed, page, _ = one.start()
    api.before_write = lambda uuids: None  # it is killed before that
    killed.journal.record_writes({UUID: make_request(UUID, A).plain}, "m1")
    page.close()
    claimer, _, _ = other.start()
    assert claim(claimer, A).claimed
    successor, _, _ = one.start()
    assert successor.pending_cleanups() == 0
    assert api.get_allocations(UUID).allocations == candidate(A).allocations


def test_a_claim_that_was_refused_is_not_taken_for_one_of_another_host(tmp_path):
    api = FakeConsumers({A: 0})
    one, other = Host(tmp_path / "one", api), Host(tmp_path / "other", api)
    killed, page, _ = one.start()
    assert claim(killed, A).outcome is Outcome.REFUSED
    page.close()
    api.capacity[A] = 1
    claimer, _, _ = other.start()
    assert claim(claimer, A).claimed
    successor, _, _ = one.start()
    assert successor.pending_cleanups() == 0


@pytest.mark.parametrize("together", [False, True])
def test_a_request_does_not_wait_for_the_successor_of_a_dead_process(tmp_path, together):
    api = FakeConsumers({A: 2, B: 1})
    host = Host(tmp_path / "host", api)
    (killed, page, _), (claimer, mine, clock) = host.start(), host.start(recorded_claim_delay=3600.0)
    api.before_write = killed.journal.mark_sent
    assert claim(killed, A).claimed
    page.close()
    api.before_write = claimer.journal.mark_sent
    if together:
        results = claimer.claim_many([make_request(UUID, B), make_request("other", A)])
        assert all(result.claimed for result in results.values())
    else:
        assert claim(claimer, B).claimed
    assert clock.slept == []
    assert api.get_allocations(UUID).allocations == candidate(B).allocations
    claimer.confirm_claims([UUID, "other"])
    mine.close()
    successor, _, _ = host.start()
    assert successor.pending_cleanups() == 0


@pytest.mark.parametrize("is_running", [False, True], ids=["a successor", "a process that runs already"])
def test_a_claim_does_not_overlap_with_what_a_dead_process_has_just_sent(tmp_path, is_running):
    """Placement may still be working on it."""
    api = FakeConsumers({A: 1, B: 1})
    host = Host(tmp_path / "host", api)
    killed, page, _ = host.start()
    running = host.start(recorded_write_delay=1.3) if is_running else None
    api.before_write = killed.journal.mark_sent
    assert claim(killed, A).claimed
    page.close()
    claimer, _, clock = running or host.start(recorded_write_delay=1.3)
    assert claim(claimer, B).claimed
    assert clock.slept == pytest.approx([1.3])
    claim(claimer, B)
    assert len(clock.slept) == 1


def test_claims_are_recorded_until_they_are_confirmed():
    claimer, _, page = make_recorded()
    claim(claimer, A)
    claimer.claim_many([make_request("other", A), make_request("third", B)])
    assert page.recorded[UUID] == [record_of([A])]
    assert set(page.recorded) == {UUID, "third"}  # the other one was refused
    claimer.confirm_claims([UUID])
    assert set(page.recorded) == {"third"}


def test_what_an_evacuated_instance_held_before_is_recorded_too():
    claimer, api, page = make_recorded()
    api.give(UUID, candidate(A).allocations)
    claim(claimer, B, evacuating_from={A})
    assert page.recorded[UUID] == [record_of([B]), record_of([B, A], [A], 2)]
    after, new_api, page = make_recorded(*page.all_records())
    new_api.consumers = api.consumers
    assert after.drain(5) == []
    assert api.get_allocations(UUID).allocations == candidate(A).allocations
    assert page.recorded == {}


def confirm_held(claimer):
    """Confirm what the instance holds, as a redelivered request does."""
    request = replace(make_request(UUID, A), message_id="m1")
    held = ConsumerAllocations(candidate(A).allocations, 1, OWNER)
    return claimer.confirm_many([HeldClaim(request, held)])[UUID]


def test_a_claim_that_confirms_gives_nothing_to_an_instance_that_holds_nothing_any_more():
    """Its user has deleted it meanwhile."""
    claimer, api, page = make_recorded()
    assert confirm_held(claimer).outcome is Outcome.CONFLICT
    assert (api.consumers, page.recorded) == ({}, {})


def test_what_a_redelivered_request_confirms_is_not_given_back_by_the_successor_of_the_dead_process():
    """The process died after its reply and before it removed the record."""
    claimer, api, page = make_recorded()
    api.give(UUID, candidate(A).allocations)
    page.elsewhere = [Record(UUID, "m1", record_of([A]), True)]
    assert confirm_held(claimer).claimed
    assert api.get_allocations(UUID).generation == 2
    successor, its_api, its_page = make_recorded((UUID, record_of([A])))
    its_api.consumers = api.consumers
    assert successor.drain(5) == []
    assert api.get_allocations(UUID).allocations == candidate(A).allocations
    assert its_page.recorded == {}


def test_what_a_redelivered_request_confirms_is_not_given_back_first_by_its_own_process():
    claimer, api, page = make_recorded(
        (UUID, record_of([A])), policy=replace(PROMPT, recorded_claim_delay=60.0)
    )
    api.give(UUID, candidate(A).allocations)
    assert confirm_held(claimer).claimed
    assert api.get_allocations(UUID).generation == 2
    claimer.confirm_claims([UUID])
    assert page.recorded == {}
    assert claimer.drain(5) == []
    assert api.get_allocations(UUID).allocations == candidate(A).allocations


def test_what_another_process_gives_back_for_the_same_message_is_given_back_by_the_one_that_confirms_it():
    """The first run could not be answered, and the second one finds its claim before that is given back."""
    claimer, api, page = make_recorded()
    api.give(UUID, candidate(A).allocations)
    page.elsewhere = [Record(UUID, "m1", record_of([A]), False)]
    result = confirm_held(claimer)
    assert api.get_allocations(UUID).generation == 2, "the other process would give it back"
    claimer.release(UUID, result)
    assert (api.consumers, page.recorded) == ({}, {})


@pytest.mark.parametrize("dead", [False, True])
def test_what_another_message_may_be_answered_with_is_not_confirmed_before_that_is_known(dead):
    claimer, api, page = make_recorded(policy=replace(PROMPT, lock_timeout=0.0))
    api.give(UUID, candidate(A).allocations)
    page.elsewhere = [Record(UUID, "m2", record_of([A]), dead)]
    page.replies = {"m2": RecordedReply(failed=False, confirmed=False)} if dead else {}
    assert confirm_held(claimer).outcome is Outcome.CONFLICT
    page.elsewhere = []
    assert confirm_held(claimer).adopted


@pytest.mark.parametrize(
    ("message", "abandoned", "reply", "outcome"),
    [
        ("m1", True, None, Outcome.CLAIMED),
        ("m1", False, None, Outcome.CONFLICT),
        ("m2", True, None, Outcome.CLAIMED),
        ("m2", True, RecordedReply(failed=True, confirmed=True), Outcome.CLAIMED),
        ("m2", True, RecordedReply(failed=False, confirmed=False), Outcome.CONFLICT),
        ("m2", False, None, Outcome.CONFLICT),
    ],
    ids=[
        "of the same message",
        "of a process that is alive",
        "of another message",
        "of another message that failed",
        "of another message that may have been answered",
        "of another message, of a process that is alive",
    ],
)
@pytest.mark.parametrize("several", [False, True], ids=["alone", "together"])
def test_an_abandoned_claim_in_another_page_is_replaced_unless_a_caller_may_know_it(
    several, message, abandoned, reply, outcome
):
    claimer, api, page = make_recorded(policy=replace(PROMPT, lock_timeout=0.0))
    api.give(UUID, candidate(A).allocations)
    page.elsewhere = [Record(UUID, "m1", record_of([A]), abandoned)]
    page.replies = {"m1": reply}
    api.capacity[B] = 2
    requests = [replace(make_request(uuid, B), message_id=message) for uuid in (UUID, "other")]
    results = claimer.claim_many(requests) if several else {UUID: claimer.claim(requests[0])}
    assert results[UUID].outcome is outcome
    replaced = outcome is Outcome.CLAIMED
    assert api.get_allocations(UUID).allocations == candidate(B if replaced else A).allocations
    # The cleanup of the process that took the record over leaves the new allocations alone.
    successor, its_api, _ = make_recorded((UUID, record_of([A])))
    its_api.consumers = api.consumers
    assert successor.drain(5) == []
    assert bool(its_api.used(B)) == replaced


@pytest.mark.parametrize("several", [False, True], ids=["alone", "together"])
@pytest.mark.parametrize("same_journal", [False, True], ids=["another host", "the same host"])
def test_what_a_redelivered_request_claims_is_not_taken_for_a_recorded_claim_that_was_never_sent(
    several, same_journal
):
    """The process died before it sent the claim. The next delivery chose the same host, by another scheduler."""
    claimer, api, page = make_recorded()
    if same_journal:
        page.elsewhere = [Record(UUID, "m1", record_of([A]), True)]
    requests = [
        replace(make_request(uuid, where), message_id="m1", redelivered=True)
        for uuid, where in ((UUID, A), ("other", B))
    ]
    results = claimer.claim_many(requests) if several else {UUID: claimer.claim(requests[0])}
    assert all(result.claimed for result in results.values())
    held = dict(api.consumers)
    successor, its_api, _ = make_recorded((UUID, record_of([A])), ("other", record_of([B])))
    its_api.consumers = api.consumers
    assert successor.drain(5) == []
    assert api.consumers == held
    assert page.recorded[UUID] == [record_of([A]), record_of([A], generation=2)]
    claimer.release_many(results)
    assert (claimer.drain(5), api.consumers, page.recorded) == ([], {}, {})


class Killed(BaseException):
    """The process ends here."""


def test_an_evacuation_is_not_taken_for_one_that_was_recorded_and_not_carried_out(tmp_path):
    """A process of another host was killed while it sent the same."""
    api = FakeConsumers({A: 2, B: 2})
    api.give(UUID, candidate(A).allocations)
    request = replace(make_request(UUID, B, {A}), message_id="m1", redelivered=True)
    one, other = Host(tmp_path / "one", api), Host(tmp_path / "other", api)

    def kill(*_arguments):
        raise Killed

    api._killed = kill
    api.write_faults = ["ok", "killed"]  # the first is for an instance that holds nothing
    claimer, page, _ = one.start()
    with pytest.raises(Killed):
        claimer.claim(request)
    page.close()
    second, its_page, _ = other.start()
    result = second.claim(request)
    held = api.get_allocations(UUID)
    assert (result.claimed, set(held.allocations)) == (True, {A, B})
    successor, _, _ = one.start()
    assert successor.drain(5) == []
    assert api.get_allocations(UUID) == held
    second.release(UUID, result)
    assert second.drain(5) == []
    assert api.get_allocations(UUID).allocations == candidate(A).allocations
    its_page.close()


@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        ("ok", ["post", "post"]),
        ("unreachable", ["post", "post", "put", "put"]),
        ("unanswered", ["post", "post", "put", "read", "put", "read"]),
        ("lost", ["post", "post", "put", "read", "put", "read"]),
        ("500", ["post", "post", "put", "read", "put", "read"]),
        ("conflict", ["post", "post", "put", "put"]),
    ],
)
def test_claims_of_a_redelivered_request_are_repeated_together(fault, calls):
    claimer, api = make_claimer(["ok", fault])
    requests = [
        replace(make_request(uuid, where), message_id="m1", redelivered=True)
        for uuid, where in ((UUID, A), ("other", B))
    ]
    results = claimer.claim_many(requests)
    assert all(result.claimed and not result.adopted for result in results.values())
    assert {held.generation for held in api.consumers.values()} == {2}
    assert api.calls == calls
    claimer.release_many(results)
    assert (claimer.drain(5), api.consumers) == ([], {})


@given(st.lists(FAULTS, max_size=8), st.lists(READS, max_size=8), st.booleans())
def test_under_random_faults_a_redelivered_claim_holds_its_candidate_or_nothing(writes, reads, release):
    claimer, api = make_claimer(writes, reads)
    result = claimer.claim(replace(make_request(), message_id="m1", redelivered=True))
    api.settle()
    if release:
        claimer.release(UUID, result)
    assert claimer.drain(5) == []
    api.settle()
    held = api.get_allocations(UUID).allocations
    assert held == (candidate(A).allocations if result.claimed and not release else {})


def test_recorded_claims_of_a_dead_process_are_left_alone_for_some_time():
    policy = replace(PROMPT, cleanup_delays=(0.0,), recorded_claim_delay=60.0)
    claimer, api, _ = make_recorded((UUID, record_of([A])), policy=policy)
    api.give(UUID, candidate(A).allocations)
    time.sleep(0.05)
    assert api.calls == []
    assert claimer.drain(5) == []
    assert api.get_allocations(UUID) == NOTHING


def test_a_claim_that_waits_for_another_process_is_recorded_once():
    """Also while an earlier claim is still to be given back, and its record stays."""
    policy = replace(PROMPT, lock_timeout=0.05, retry_delay=(0.001, 0.001), recorded_claim_delay=60.0)
    claimer, _, page = make_recorded((UUID, record_of([A])), policy=replace(policy, late_write_window=60.0))
    page.elsewhere = [Record(UUID, "", record_of([A]), False)]
    assert claim(claimer, B).outcome is Outcome.CONFLICT
    assert page.recorded[UUID].count(record_of([B])) == 1


def test_a_batch_that_meets_a_claim_of_a_dead_process_is_recorded_once(tmp_path):
    """Else the next process would take for its own what another scheduler has adopted since."""
    api = FakeConsumers({A: 9, B: 9})
    host, elsewhere = Host(tmp_path / "host", api), Host(tmp_path / "elsewhere", api)
    dead, dead_page, _ = host.start()
    assert dead.claim(make_request("i1", A)).claimed
    claimer, page, _ = host.start(recorded_claim_delay=60.0)
    dead_page.close()
    results = claimer.claim_many([make_request("i1", B), make_request("i2", B)])
    assert [result.claimed for result in results.values()] == [True, True]
    page.close()
    assert elsewhere.start()[0].claim(make_request("i2", B)).adopted
    assert host.start()[0].drain(5) == []
    assert (api.get_allocations("i1"), api.get_allocations("i2").generation) == (NOTHING, 2)


@pytest.mark.parametrize("fault", ["conflict", "unreachable"])
def test_writes_that_were_refused_or_not_sent_after_a_lost_one_are_not_recorded(fault, tmp_path):
    """Else the next process would take for its own what another scheduler has adopted since."""
    api = FakeConsumers({A: 9}, write_faults=["begun 5", fault, "unreachable"])
    host, elsewhere = Host(tmp_path / "host", api), Host(tmp_path / "elsewhere", api)
    claimer, page, _ = host.start(late_write_window=60.0)
    claim(claimer)
    api.settle()
    page.close()
    assert elsewhere.start()[0].claim(make_request()).adopted
    assert host.start()[0].drain(5) == []
    assert api.get_allocations(UUID).generation == 2


@pytest.mark.parametrize("several", [False, True], ids=["alone", "together"])
def test_the_repetition_of_a_claim_that_was_refused_is_not_recorded(several, tmp_path):
    """Another host has written the same meanwhile; the next process would take that for its own."""
    api = FakeConsumers({A: 9})
    host = Host(tmp_path / "host", api)
    claimer, page, _ = host.start(late_write_window=60.0)
    mark_sent, writes = api.before_write, []

    def write_before(uuids):
        mark_sent(uuids)
        writes.append(uuids)
        if len(writes) == 2:
            api.consumers[UUID] = replace(api.consumers[UUID], generation=2)

    api.before_write = write_before
    uuids = [UUID, "other"] if several else [UUID]
    requests = [replace(make_request(uuid), redelivered=True, alone=False) for uuid in uuids]
    assert claimer.claim_many(requests)[UUID].outcome is Outcome.CONFLICT
    page.close()
    assert host.start()[0].drain(5) == []
    assert api.get_allocations(UUID).generation == 2


def test_confirming_claims_while_a_release_ends_does_not_deadlock():
    """The end of a release removes records while it holds the lock of the cleanups."""
    claimer, _ = make_claimer()
    release = threading.Thread(target=lambda: claimer.release("released", released), daemon=True)
    release_ends, removed = threading.Event(), []

    class Page(FakePage):
        lock = threading.Lock()

        def remove_records(self, uuids):
            if list(uuids) == ["released"]:
                release_ends.set()
            with self.lock:
                if list(uuids) == [UUID]:
                    release.start()
                    assert release_ends.wait(30)
                removed.extend(uuids)

    claimer.open_journal(Page())
    released = claim(claimer, A, uuid="released")
    claim(claimer, B)
    confirm = threading.Thread(target=lambda: claimer.confirm_claims([UUID]), daemon=True)
    confirm.start()
    confirm.join(30)
    release.join(30)
    assert removed == [UUID, "released"]


def test_records_of_what_is_still_to_be_given_back_stay():
    claimer, api, page = make_recorded()
    result = claim(claimer)
    api.write_faults = ["lost"]
    claimer.release(UUID, result)
    claimer.confirm_claims([UUID])
    assert page.recorded == {UUID: [record_of([A])]}
    assert claimer.drain(5) == []
    assert page.recorded == {}


@pytest.mark.parametrize("ends", ["before", "after"])
def test_records_of_what_cannot_be_given_back_are_left_to_the_next_process(ends):
    """Whether the request ends before or after the time to stop is over."""
    claimer, api, page = make_recorded(read_faults=["silent"] * 99)
    result = claim(claimer)
    api.write_faults = ["lost"] * 99
    claimer.release(UUID, result)
    if ends == "before":
        claimer.confirm_claims([UUID])
    assert claimer.drain(0) == [UUID]
    claimer.confirm_claims([UUID])
    assert page.recorded == {UUID: [record_of([A])]}


@pytest.mark.parametrize(
    ("held", "left"),
    [(A, NOTHING.allocations), (B, candidate(B).allocations)],
    ids=["holds the claim", "holds other allocations"],
)
def test_claims_of_a_dead_process_are_given_back_and_nothing_else(held, left, caplog):
    claimer, api = make_claimer()
    api.give(UUID, candidate(held).allocations)
    page = FakePage((UUID, record_of([A])), ("nothing", record_of([A])))
    claimer.open_journal(page)
    assert f"Removing allocations of instance {UUID} left by a worker that died" in caplog.text
    assert set(page.recorded) == {UUID, "nothing"}
    assert claimer.drain(5) == []
    assert api.get_allocations(UUID).allocations == left
    assert page.recorded == {}


def test_a_record_that_is_not_understood_is_removed(caplog):
    good = ("good", record_of([A]))
    claimer, _, page = make_recorded(("a", 7), ("b", {}), ("c", {"made": {}, "previous": None}), good)
    assert caplog.text.count("is not understood") == 3
    assert set(page.recorded) == {"good"}
    assert claimer.drain(5) == []


def test_a_claim_whose_check_is_not_answered_is_given_back():
    """An earlier claim's write may still be on its way, so that the next claim looks whether it stands."""
    claimer, api = make_claimer(["lost"] * 3, policy=LATE)
    assert claim(claimer, A).outcome is Outcome.UNAVAILABLE
    api.read_faults = ["ok", "silent"]
    assert claim(claimer, B).outcome is Outcome.UNAVAILABLE
    assert claimer.drain(0.1) == [UUID]
    assert api.consumers == {}


def test_a_release_waits_for_lost_writes_of_earlier_claims():
    clock = SleepClock()
    claimer, api = make_claimer(["late 99", "lost", "lost"], policy=LATE, timing=clock.timing)
    assert claim(claimer, A).outcome is Outcome.UNAVAILABLE
    result = claim(claimer, B)
    assert result.claimed
    claimer.release(UUID, result)
    assert api.consumers == {}
    api.settle()
    assert api.used(A)
    clock.now += LATE.late_write_window
    assert claimer.drain(5) == []
    assert api.consumers == {}


@pytest.mark.parametrize("fault", ["500", "500 after", "concurrent", "lost", "unanswered"])
def test_uncovering_of_hidden_rows_goes_on_until_placement_tells(fault):
    claimer, api = make_claimer(["lost", "lost", "lost", fault])
    assert claim(claimer).outcome is Outcome.UNAVAILABLE
    api.give(UUID, candidate(A).allocations)
    api.hidden.add(UUID)
    assert claimer.drain(5) == []
    assert api.consumers == {}


def test_after_the_stop_claims_are_refused_and_releases_are_made():
    claimer, api = make_claimer()
    result = claim(claimer)
    claimer.stop_claiming()
    api.calls.clear()
    assert (claim(claimer, B, uuid="other").outcome, api.calls) == (Outcome.STOPPING, [])
    results = claimer.claim_many([make_request("i1", B), make_request("i2", B)])
    assert {one.outcome for one in results.values()} == {Outcome.STOPPING}
    assert {one.reason for one in results.values()} == {"the scheduler is stopping"}
    claimer.release(UUID, result)
    assert (claimer.drain(5), api.consumers) == ([], {})


@pytest.mark.parametrize("several", [False, True], ids=["alone", "together"])
def test_a_claim_that_waits_for_another_process_ends_with_the_stop(several):
    claimer, api, page = make_recorded()
    page.elsewhere = [Record(UUID, "", record_of([A]), False)]
    threading.Timer(0.05, claimer.stop_claiming).start()
    requests = [make_request(UUID, A), make_request("other", B)]
    result = claimer.claim_many(requests)[UUID] if several else claimer.claim(requests[0])
    assert (result.outcome, api.calls) == (Outcome.STOPPING, [])


@pytest.mark.parametrize("fault", ["lost", "concurrent", "unanswered"])
def test_a_claim_in_flight_sends_nothing_more_after_the_stop(fault):
    claimer, api = make_claimer([fault])
    put = api.put_allocations

    def stop_meanwhile(*arguments):
        claimer.stop_claiming()
        return put(*arguments)

    api.put_allocations = stop_meanwhile
    result = claim(claimer)
    claimed = fault == "unanswered"
    assert result.outcome is (Outcome.CLAIMED if claimed else Outcome.STOPPING)
    assert api.calls.count("put") == 1
    claimer.release(UUID, result)
    assert (claimer.drain(5), api.consumers) == ([], {})


def test_no_batch_is_sent_after_the_deadline_of_the_request():
    clock = SleepClock()
    claimer, api = make_claimer(timing=clock.timing)
    api.capacity[A] = 99
    post = api.post_allocations

    def slow_post(bodies, context=None):
        clock.now += 0.7
        return post(bodies, context)

    api.post_allocations = slow_post
    end = clock.now + 1.0
    requests = [replace(make_request(f"i{number:02}", A), deadline=end) for number in range(100)]
    results = claimer.claim_many(requests)
    assert api.calls == ["post", "post"]
    assert sum(result.claimed for result in results.values()) == 40
    api.calls.clear()
    claimer.release_many(results)
    assert (claimer.drain(5), api.consumers) == ([], {})
    assert api.calls == ["post"] * 2


def test_after_the_deadline_the_effect_of_a_batch_is_read_once_at_most():
    clock = SleepClock()
    claimer, api = make_claimer(["lost"], ["silent"] * 9, ClaimPolicy(), clock.timing)
    requests = [replace(make_request(uuid, A), deadline=clock.now + 0.2) for uuid in ("i1", "i2")]
    results = claimer.claim_many(requests)
    assert {result.outcome for result in results.values()} == {Outcome.UNAVAILABLE}
    assert api.calls == ["post", "read", "read"], "the second one was due before the deadline"


def test_a_release_that_hangs_delays_its_caller_for_a_bounded_time():
    claimer, api = make_claimer(policy=replace(PROMPT, release_timeout=0.1))
    api.capacity[A] = 99
    results = claimer.claim_many([make_request(f"i{number}", A) for number in range(40)])
    leave, post = threading.Event(), api.post_allocations
    api.post_allocations = lambda *arguments: (leave.wait(30), post(*arguments))[1]
    began = time.monotonic()
    claimer.release_many(results)
    assert time.monotonic() - began < 20
    leave.set()
    assert (claimer.drain(5), api.consumers) == ([], {})


def test_a_second_request_never_moves_what_the_first_may_have_been_answered_with():
    claimer, api = make_claimer()
    claim(claimer, A)
    other_process = Claimer(api, PROMPT)
    refused = claim(other_process, B)
    assert (refused.outcome, refused.held.allocations) == (Outcome.CONFLICT, candidate(A).allocations)
    assert (api.used(A), api.used(B)) == (1, 0)


def test_a_late_release_leaves_what_another_request_adopted():
    claimer, api = make_claimer()
    first, second = claim(claimer, A), claim(claimer, A)
    claimer.release(UUID, first)
    claimer.release(UUID, second)
    assert (claimer.drain(5), api.used(A)) == ([], 1)


def test_the_source_of_a_failed_evacuation_does_not_come_back_after_the_instance_was_deleted():
    claimer, api = make_claimer()
    api.give(UUID, candidate(A).allocations)
    result = claim(claimer, B, evacuating_from={A})
    api.write_faults = ["lost"]
    claimer.release(UUID, result)
    del api.consumers[UUID]
    assert (claimer.drain(5), api.consumers) == ([], {})


def test_a_cleanup_leaves_a_later_claim_of_equal_content():
    clock = SleepClock()
    claimer, api = make_claimer(["unanswered"], ["silent"] * 3, LATE, clock.timing)
    assert claim(claimer, A).outcome is Outcome.UNAVAILABLE
    clock.now += 1
    assert claim(claimer, GONE).outcome is Outcome.GONE  # which gives back the first one
    assert api.used(A) == 0
    api.give(UUID, candidate(A).allocations)
    clock.now += LATE.late_write_window
    assert (claimer.drain(5), api.used(A)) == ([], 1)


def test_an_instance_with_open_claims_of_another_process_is_refused():
    claimer, api, page = make_recorded(policy=replace(PROMPT, lock_timeout=0.0))
    page.elsewhere = [Record(UUID, "", record_of([A]), False)]
    assert claim(claimer, A).outcome is Outcome.CONFLICT
    results = claimer.claim_many([make_request(UUID, A), make_request("other", B)])
    assert {result.outcome for result in results.values()} == {Outcome.CONFLICT}
    assert (api.calls, page.recorded) == ([], {})


def test_a_second_request_waits_until_the_first_is_over():
    claimer, _ = make_claimer(policy=replace(PROMPT, lock_timeout=0.01))
    finish = claimer.begin_request([UUID, "other"])
    assert claimer.begin_request([UUID]) is None
    finish()
    assert claimer.begin_request([UUID]) is not None


def test_releases_are_waited_for_no_longer_than_the_caller_waits_or_the_process_claims():
    claimer, _ = make_claimer()
    timing, waited = claimer._timing, []

    def wait(_uuids, timeout):
        waited.append(timeout)
        timing.sleep(timeout)
        return False

    claimer._cleanup.wait_until_released = wait
    claimer.wait_until_released([UUID], timing.monotonic() + 2.5)
    assert waited == [1.0, 1.0, pytest.approx(0.5, abs=0.4)]
    claimer.stop_claiming()
    claimer.wait_until_released([UUID], timing.monotonic() + 100)
    assert len(waited) == 3


@pytest.mark.parametrize(
    ("faults", "instances", "events"),
    [(["ok"], 1, 1), (["concurrent", "ok"], 1, 2), (["ok"], 3, 3)],
    ids=["granted", "backing off, granted", "a batch"],
)
def test_each_event_of_a_claim_counts_as_progress_of_the_worker(faults, instances, events):
    claimer, api = make_claimer(faults)
    api.capacity[A] = instances
    seen = []
    claimer.on_event = lambda: seen.append(1)
    results = claimer.claim_many([make_request(uuid=f"i{number}") for number in range(instances)])
    assert all(result.claimed for result in results.values())
    assert len(seen) == events
