"""Claims, fences and releases of a process: who holds what afterwards, and what is left in doubt."""

import math

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.claims.doubts import NOTHING_KEPT
from scheduler.placement.allocations import NOTHING
from scheduler.placement.outcomes import Outcome
from tests.unit.claims.builders import (
    FAULTS,
    READS,
    UUID,
    A,
    B,
    SleepClock,
    candidate,
    claim,
    claimer_of,
    holding,
    make_claimer,
    make_pass,
)
from tests.unit.claims.fake_consumers import FakeConsumers


def release(claimer, held, left=None):
    return claimer.release(held, left or {}, NOTHING_KEPT)


def fence(claimer, held, deadline=math.inf):
    return claimer.fence(held, make_pass(), deadline)


def make_many(batch_size=20):
    api = FakeConsumers(dict.fromkeys("abc", 1))
    return claimer_of(api, batch_size=batch_size), api, {f"i-{name}": candidate(name) for name in "abc"}


@given(st.lists(FAULTS, max_size=8), st.lists(READS, max_size=8))
def test_under_random_faults_what_is_claimed_is_released(writes, reads):
    claimer, api = make_claimer(writes, reads, timing=SleepClock().timing)
    result = claim(claimer)
    if result.done:
        release(claimer, {UUID: result.held})
    api.settle()
    lost = result.lost or len(claimer.doubts)
    assert lost or api.shown(UUID) == NOTHING


def test_many_are_claimed_in_one_request():
    claimer, api, wanted = make_many()
    assert all(one.done for one in claimer.claim(wanted, make_pass()).values())
    assert api.calls == ["post"]


def test_more_than_a_batch_are_claimed_in_pieces():
    claimer, api, wanted = make_many(batch_size=2)
    assert all(one.done for one in claimer.claim(wanted, make_pass()).values())
    assert api.calls == ["post", "put"]


def test_after_one_that_is_hopeless_the_rest_is_not_tried():
    claimer, api, wanted = make_many(batch_size=1)
    api.write_faults = ["403"]
    assert {one.outcome for one in claimer.claim(wanted, make_pass()).values()} == {Outcome.DENIED}
    assert api.calls == ["put"]


def test_after_the_stop_claims_are_refused_and_releases_are_made():
    claimer, api = make_claimer()
    made = claim(claimer).held
    claimer.stop_claiming()
    assert claim(claimer, B, uuid="another").outcome is Outcome.STOPPING
    assert {one.outcome for one in fence(claimer, {UUID: made}).values()} == {Outcome.STOPPING}
    release(claimer, {UUID: made})
    assert not api.consumers


def test_after_the_deadline_nothing_is_sent():
    claimer, api = make_claimer(timing=SleepClock().timing)
    result = claimer.claim({UUID: candidate(A)}, make_pass(), deadline=-1.0)[UUID]
    assert (result.outcome, api.calls) == (Outcome.UNSENT, [])


# -- the fence


def test_a_fence_gives_all_a_new_generation_in_one_request():
    claimer, api, wanted = make_many()
    held = {uuid: one.held for uuid, one in claimer.claim(wanted, make_pass()).items()}
    api.calls.clear()
    results = fence(claimer, held)
    assert all(one.held == api.consumers[uuid] for uuid, one in results.items())
    assert {one.generation for one in api.consumers.values()} == {2}
    assert api.calls == ["post"]


def test_after_a_fence_a_release_by_another_run_that_read_before_is_void():
    claimer, api = make_claimer()
    other = claimer_of(api)
    made = claim(claimer).held
    fence(claimer, {UUID: made})
    assert release(other, {UUID: made}) == {UUID}
    assert api.consumers[UUID].allocations == made.allocations


@pytest.mark.parametrize("fault", ["ok", "unanswered", "lost"])
def test_of_a_fence_and_a_release_one_wins_for_all(fault):
    claimer, api, wanted = make_many()
    held = {uuid: one.held for uuid, one in claimer.claim(wanted, make_pass()).items()}
    release(claimer_of(api), {"i-a": held["i-a"]})
    api.write_faults = [fault]
    results = fence(claimer, held)
    assert {one.outcome for one in results.values()} == {Outcome.CHANGED}
    assert {one.generation for one in api.consumers.values()} == {1}


# -- releases


def test_a_release_puts_back_what_an_evacuated_instance_held():
    claimer, api = make_claimer()
    api.consumers[UUID] = holding(B)
    result = claim(claimer, evacuating_from={B})
    release(claimer, {UUID: result.held}, {UUID: result.kept.allocations})
    assert list(api.consumers[UUID].allocations) == [B]


def test_a_release_leaves_what_another_writer_has_written_since():
    claimer, api = make_claimer()
    made = claim(claimer).held
    api.consumers[UUID] = holding(B, generation=7)
    assert release(claimer, {UUID: made}) == {UUID}
    assert list(api.consumers[UUID].allocations) == [B]


@pytest.mark.parametrize("fault", ["unreachable", "403", "concurrent"])
def test_what_cannot_be_released_is_in_doubt(fault):
    claimer, api = make_claimer(timing=SleepClock().timing)
    made = claim(claimer).held
    api.write_faults = [fault] * 99
    assert release(claimer, {UUID: made}) == set()
    assert len(claimer.doubts) == 1


def test_each_event_of_a_claim_counts_as_progress():
    claimer, _ = make_claimer(["500"])
    events = []
    claimer.on_event = lambda: events.append(1)
    assert len(claim(claimer).events) == len(events) > 1
