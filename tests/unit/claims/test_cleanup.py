from dataclasses import replace
import threading

import pytest

from scheduler.placement.allocations import ConsumerAllocations, allocations_body
from scheduler.claims.cleanup import AllocationCleanup, PendingCleanup, attempt_cleanup
from scheduler.claims.result import ClaimResult, Outcome, OwnWrite
from scheduler.locks import KeyedLocks
from scheduler.placement.errors import PlacementSilent
from tests.support.waiting import eventually
from tests.unit.claims.builders import OWNER, PROMPT, UUID, A, B, SleepClock, candidate
from tests.unit.claims.fake_consumers import FakeConsumers


def allocations_on(*providers):
    return ConsumerAllocations(candidate(*providers).allocations, 1, OWNER)


def writes(*providers, previous=None):
    return (OwnWrite(allocations_on(*providers), previous),)


CLAIMED = ClaimResult(Outcome.CLAIMED, made=allocations_on(A))
UNSURE = ClaimResult(Outcome.UNAVAILABLE, made=allocations_on(A), unsure=True, lost=writes(A))


class World:
    """Cleanups, and Placement with an instance that holds A."""

    def __init__(self, write_faults=(), read_faults=(), policy=PROMPT):
        self.api = FakeConsumers({A: 1, B: 1}, write_faults=[*write_faults], read_faults=[*read_faults])
        self.api.give(UUID, candidate(A).allocations)
        self.locks, self.clock, self.finished = KeyedLocks(), SleepClock(), []
        self.cleanup = AllocationCleanup(
            self.api, self.locks, policy, self.finished.extend, self.clock.timing
        )

    @property
    def held(self):
        return self.api.get_allocations(UUID).allocations


# -- one attempt -------------------------------------------------------------------------------------------------

BOTH = {**candidate(A).allocations, **candidate(B).allocations}
#: cleanup, what the instance holds (and the generation, if it is not 1), requests, whether it is done, what it holds then
ATTEMPTS = {
    "certain": ({"certain": True}, [A], ["put"], True, {}),
    "certain, but adopted by another request": (
        {"certain": True, "writes": (OwnWrite(replace(allocations_on(A), generation=7)),)},
        [A],
        ["put", "read"],
        True,
        candidate(A).allocations,
    ),
    "certain, second attempt": ({"certain": True, "attempts": 1}, [A], ["read", "put"], True, {}),
    "holds ours": ({}, [A], ["read", "put"], True, {}),
    "holds nothing": ({}, [], ["read"], True, {}),
    "holds other allocations": ({}, [B], ["read"], True, candidate(B).allocations),
    "holds ours beside the source": (
        {"writes": writes(A, B, previous=allocations_on(B))},
        [A, B],
        ["read", "put"],
        True,
        candidate(B).allocations,
    ),
    "a lost write may still come": ({"late_until": 2.0}, [], ["read"], False, {}),
    "the only lost write came": ({"late_until": 2.0}, [A], ["read", "put"], True, {}),
    "a lost write came, another may": (
        {"late_until": 2.0, "writes": writes(A) * 2},
        [A],
        ["read", "put"],
        False,
        {},
    ),
    "writes overlapped, and both were carried out": (
        {"overlapped": True, "writes": writes(A) * 2},
        [A, 2],
        ["read", "put", "put", "put"],
        True,
        {},
    ),
    "the only write, with a generation that another writer gave it": (
        {"writes": (OwnWrite(replace(allocations_on(A), generation=0)),)},
        [A],
        ["read"],
        True,
        candidate(A).allocations,
    ),
    "lost request of the release was carried out": (
        {"late_until": 2.0, "returned": writes(A)[0]},
        [],
        ["read"],
        True,
        {},
    ),
    "writes overlapped": ({"overlapped": True}, [], ["read", "put", "put"], True, {}),
    "writes overlapped, other allocations": (
        {"overlapped": True},
        [B],
        ["read"],
        True,
        candidate(B).allocations,
    ),
}


@pytest.mark.parametrize(("fields", "held", "calls", "done", "left"), ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_one_attempt(fields, held, calls, done, left):
    api = FakeConsumers({A: 1, B: 1})
    if held:
        providers = [one for one in held if isinstance(one, str)]
        api.give(UUID, candidate(*providers).allocations)
        (generation,) = [one for one in held if one not in providers] or [1]
        api.consumers[UUID] = replace(api.consumers[UUID], generation=generation)
    cleanup = PendingCleanup(UUID, **{"writes": writes(A), "since": 0.0, **fields})
    assert attempt_cleanup(api, cleanup, now=1.0) is done
    assert api.calls == calls
    assert api.get_allocations(UUID).allocations == left


@pytest.mark.parametrize("fault", ["500", "concurrent", "403", "lost"])
def test_an_attempt_that_placement_does_not_carry_out_raises(fault):
    api = FakeConsumers({A: 1}, write_faults=[fault])
    api.give(UUID, candidate(A).allocations)
    with pytest.raises(PlacementSilent):
        attempt_cleanup(api, PendingCleanup(UUID, writes(A), since=0.0), now=1.0)


@pytest.mark.parametrize("fault", ["500", "500 after", "concurrent", "lost", "unanswered", "late 2"])
def test_rows_that_are_uncovered_are_given_back_whatever_becomes_of_the_response(fault):
    api = FakeConsumers({A: 1}, write_faults=[fault])
    api.give(UUID, candidate(A).allocations)
    api.hidden.add(UUID)
    made = replace(writes(A)[0].made, generation=2)
    cleanup = PendingCleanup(
        UUID, (OwnWrite(made),), since=0.0, late_until=5.0, late_write_window=30.0, overlapped=True
    )
    for now in range(0, 100, 10):
        try:
            if attempt_cleanup(api, cleanup, now):
                break
        except PlacementSilent:
            continue
    api.settle()
    assert api.consumers == {}


# -- at once -----------------------------------------------------------------------------------------------------


def test_a_release_that_succeeds_leaves_nothing_pending():
    world = World()
    world.cleanup.release_claims({UUID: CLAIMED})
    assert world.held == {}
    assert not world.cleanup.is_pending(UUID)
    assert world.finished == [UUID]


@pytest.mark.parametrize("fault", ["500", "lost", "403"])
def test_a_release_that_fails_is_pending_and_done_later(fault, caplog):
    world = World([fault])
    world.cleanup.release_claims({UUID: CLAIMED})
    assert world.cleanup.is_pending(UUID)
    assert f"Removing allocations of instance {UUID} is delayed: " in caplog.text
    assert world.cleanup.drain(5) == []
    assert world.held == {}
    assert world.finished == [UUID]


def test_what_a_later_claim_got_is_not_given_back_by_a_release_that_waited():
    world = World()
    with world.locks.hold([UUID], 1) as alone:
        assert alone
        waiting = threading.Thread(target=world.cleanup.release_claims, args=({UUID: CLAIMED},))
        waiting.start()
        assert eventually(lambda: world.cleanup.is_pending(UUID))
        assert world.cleanup.cancel_cleanup(UUID).writes == CLAIMED.own_writes
    waiting.join(30)
    assert world.cleanup.drain(5) == []
    assert world.held == candidate(A).allocations


def test_a_release_is_waited_for_until_it_was_carried_out():
    world = World(["500"])
    world.cleanup.release_claims({UUID: CLAIMED})
    assert not world.cleanup.wait_until_released([UUID, "other"], 0.0)
    waiting = threading.Thread(target=world.cleanup.drain, args=(30,))
    waiting.start()
    assert world.cleanup.wait_until_released([UUID, "other"], 30)
    assert world.held == {}
    waiting.join(30)


def test_of_a_release_whose_claim_had_no_clear_outcome_one_attempt_is_waited_for():
    world = World(policy=replace(PROMPT, late_write_window=60.0))
    world.cleanup.release_claims({UUID: replace(CLAIMED, unsure=True, lost=writes(B))})
    assert world.cleanup.is_pending(UUID)  # a lost write may come
    assert world.cleanup.wait_until_released([UUID], 0.0)
    assert world.held == {}


# -- before another claim ----------------------------------------------------------------------------------------


def test_finishing_without_a_pending_cleanup_asks_nothing():
    world = World()
    assert world.cleanup.finish_cleanup(UUID) is False
    assert world.api.calls == []


def test_a_cleanup_is_finished_before_another_claim():
    world = World()
    world.cleanup.schedule_cleanup(UUID, CLAIMED)
    assert world.cleanup.finish_cleanup(UUID) is False
    assert world.held == {}
    assert not world.cleanup.is_pending(UUID)


def test_a_cleanup_stays_pending_while_a_lost_write_may_come():
    world = World(policy=replace(PROMPT, late_write_window=60.0))
    world.cleanup.schedule_cleanup(UUID, replace(UNSURE, lost=writes(A) * 2))
    assert world.cleanup.finish_cleanup(UUID) is True
    assert world.cleanup.is_pending(UUID)
    world.clock.now += 60.0
    assert world.cleanup.finish_cleanup(UUID) is False
    assert not world.cleanup.is_pending(UUID)


def test_a_cleanup_that_cannot_be_finished_raises():
    world = World(read_faults=["silent"])
    world.cleanup.schedule_cleanup(UUID, UNSURE)
    with pytest.raises(PlacementSilent):
        world.cleanup.finish_cleanup(UUID)
    assert world.cleanup.is_pending(UUID)


def test_cleanups_of_one_instance_are_joined_and_the_first_source_is_put_back():
    world = World()
    first, second = writes(A, previous=allocations_on(B)), writes(A, B)
    world.cleanup.schedule_cleanup(UUID, replace(UNSURE, lost=first))
    world.cleanup.schedule_cleanup(UUID, replace(UNSURE, lost=second, overlapped=True))
    joined = world.cleanup.cancel_cleanup(UUID)
    assert joined.writes == first + second
    assert (joined.overlapped, joined.certain) == (True, False)
    assert world.cleanup.cancel_cleanup(UUID) is None


# -- in the background -------------------------------------------------------------------------------------------


def test_the_background_tries_until_placement_carries_it_out():
    world = World(["500", "500", "500"], policy=replace(PROMPT, cleanup_delays=(0.0,)))
    world.cleanup.schedule_cleanup(UUID, CLAIMED)
    assert eventually(lambda: world.finished == [UUID])
    assert world.held == {}


def test_the_background_leaves_alone_what_another_writer_wrote():
    world = World(["500"])
    world.cleanup.release_claims({UUID: CLAIMED})
    world.api.put_allocations(UUID, allocations_body(candidate(B).allocations, OWNER, 1))
    assert world.cleanup.drain(5) == []
    assert world.held == candidate(B).allocations


def test_a_cleanup_that_takes_too_long_is_reported_once_and_goes_on(caplog):
    """An outage of an hour must not leave claims for good."""
    world = World(["500"] * 9, ["silent"] * 9, replace(PROMPT, cleanup_delays=(0.0,), cleanup_timeout=60.0))
    read = world.api.get_allocations

    def slow_read(uuid, context=None):
        world.clock.now += 25.0
        return read(uuid, context)

    world.api.get_allocations = slow_read
    world.cleanup.release_claims({UUID: CLAIMED})
    assert eventually(lambda: world.finished == [UUID])
    assert world.held == {}
    assert world.clock.now - 1000.0 > 3 * 60.0
    text = f"Allocations of a failed claim for instance {UUID} could not be removed for 75 s; trying on"
    assert caplog.text.count("could not be removed") == caplog.text.count(text) == 1


def test_a_started_cleanup_needs_no_other_thread(monkeypatch):
    def no_thread(self):
        raise RuntimeError("can't start new thread")

    world = World(["500"], policy=replace(PROMPT, cleanup_delays=(0.0,)))
    world.cleanup.start()
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    world.cleanup.release_claims({UUID: CLAIMED})
    assert eventually(lambda: world.finished == [UUID])
    world.api.give(UUID, candidate(A).allocations)
    world.cleanup.release_claims({UUID: CLAIMED})
    assert world.held == {}


def test_cleanups_above_the_capacity_are_given_up_with_an_error(caplog):
    world = World(policy=replace(PROMPT, cleanup_capacity=1))
    world.cleanup.schedule_cleanup("first", UNSURE)
    world.cleanup.schedule_cleanup("second", UNSURE)
    assert [world.cleanup.pending_of(uuid) is not None for uuid in ("first", "second")] == [True, False]
    assert "Instance second may have been left with allocations" in caplog.text
    assert world.cleanup.drain(5) == []
    assert world.finished == ["first"], "what is recorded of the second one is for the next process"
    assert world.cleanup.is_pending("second")


def test_drain_names_what_is_left(caplog):
    world = World(["500"], ["silent"] * 999)
    world.cleanup.release_claims({UUID: CLAIMED})
    assert world.cleanup.drain(0.05) == [UUID]
    assert f"Instance {UUID} may have been left with allocations" in caplog.text
    assert world.finished == []
