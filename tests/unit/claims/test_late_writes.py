"""Writes that are carried out after the reply, once the instance that it named is deleted."""

from dataclasses import replace
import threading

import pytest

from scheduler.placement.allocations import ConsumerAllocations
from scheduler.claims.cleanup import AllocationCleanup
from scheduler.claims.late_writes import LateWrites
from scheduler.claims.parts import ClaimParts
from scheduler.claims.policy import Timing
from scheduler.claims.result import ClaimResult, Outcome, OwnWrite
from scheduler.locks import KeyedLocks
from tests.support.waiting import eventually
from tests.unit.claims.builders import (
    OWNER,
    PROMPT,
    UUID,
    A,
    B,
    SleepClock,
    candidate,
    claim,
    make_claimer,
    make_request,
)
from tests.unit.claims.fake_consumers import FakeConsumers

POLICY = replace(PROMPT, late_write_window=30.0, cleanup_delays=(60.0,), cleanup_timeout=200.0)


def on(where, generation=1):
    return ConsumerAllocations(candidate(where).allocations, generation, OWNER)


def granted(made, *lost):
    return ClaimResult(Outcome.CLAIMED, made=made, unsure=True, lost=tuple(OwnWrite(one) for one in lost))


class Loop:
    """A loop whose rounds are called by the test."""

    def __init__(self, name, work):
        self.woken, self.has_threads = 0, True

    def start(self):
        if not self.has_threads:
            raise RuntimeError("can't start new thread")

    def wake(self):
        self.woken += 1

    def stop(self, timeout):
        self.woken = 0


class World:
    """Watched claims, and Placement."""

    def __init__(self, *held, read_faults=(), deleted=True):
        self.api = FakeConsumers({A: 1, B: 1}, read_faults=[*read_faults])
        self.api.consumers = dict.fromkeys([UUID] * len(held), *held)
        self.locks, self.clock, self.deleted = KeyedLocks(), SleepClock(), deleted
        timing = self.clock.timing
        self.cleanup = AllocationCleanup(self.api, self.locks, PROMPT, timing=timing)
        self.late_writes = LateWrites(
            ClaimParts(self.api, POLICY, timing),
            self.cleanup,
            self.locks,
            lambda _uuid: self.deleted,
            self._loop,
        )

    def _loop(self, *arguments):
        self.loop = Loop(*arguments)
        return self.loop

    def watch(self, result):
        self.late_writes.watch({UUID: result})
        return self

    def look_after(self, seconds):
        self.clock.now += seconds
        return self.late_writes.look()


#: the claim, what the instance holds half a minute later, whether that is given back
LATE = {
    "the lost write": (granted(on(A, 2), on(A)), on(A), True),
    "the claim": (granted(on(A, 2), on(A)), on(A, 2), False),
    "what nova has written since": (granted(on(A, 2), on(A)), on(A, 3), False),
    "a claim that looks the same": (granted(on(A), on(A)), on(A), False),
    "a lost write on another host": (granted(on(A), on(B)), on(B), True),
    "one of several lost writes": (granted(on(A, 2), on(B), on(A)), on(A), True),
    "the claim, after several lost writes": (granted(on(A, 2), on(B), on(A)), on(A, 2), False),
    "a write that expects a generation": (granted(on(A, 2), on(A, 3)), on(A, 3), False),
    "a claim without lost writes": (granted(on(A)), on(A), False),
}


@pytest.mark.parametrize(("result", "held", "late"), LATE.values(), ids=LATE)
def test_only_what_a_lost_write_did_is_given_back(result, held, late, caplog):
    world = World(held).watch(result)
    world.look_after(30)
    assert world.cleanup.drain(5) == []
    assert (world.api.consumers == {}) == late
    assert ("write without a response gave instance" in caplog.text) == late


def test_what_nova_restores_for_an_instance_that_exists_is_not_given_back():
    world = World(on(A), deleted=False).watch(granted(on(A, 2), on(A)))
    world.look_after(30)
    world.deleted = True
    world.look_after(999)
    assert world.cleanup.drain(5) == []
    assert (world.api.calls, world.api.consumers) == (["read"], {UUID: on(A)})


def test_it_is_looked_at_again_if_it_is_not_known_whether_the_instance_was_deleted():
    world = World(on(A), deleted=None).watch(granted(on(A, 2), on(A)))
    assert world.look_after(30) == pytest.approx(60)
    assert world.api.consumers == {UUID: on(A)}
    world.deleted = True
    world.look_after(60)
    assert world.cleanup.drain(5) == []
    assert world.api.consumers == {}


def test_it_is_read_once_when_no_write_can_come_any_more():
    world = World(on(A)).watch(granted(on(A, 2), on(A)))
    assert world.loop.woken
    assert world.look_after(20) == pytest.approx(10)
    assert world.api.calls == []
    world.look_after(10)
    world.look_after(999)
    assert world.api.calls == ["read"]


def test_nothing_is_read_for_an_instance_that_another_request_claims_for_or_once_the_process_stops():
    world = World(on(A)).watch(granted(on(A, 2), on(A)))
    world.late_writes.forget(UUID)
    world.look_after(30)
    world.watch(granted(on(A, 2), on(A)))
    world.late_writes.stop()
    world.look_after(30)
    assert world.api.calls == []


def test_an_unanswered_read_is_repeated_for_a_bounded_time(caplog):
    world = World(on(A), read_faults=["silent"] * 9).watch(granted(on(A, 2), on(A)))
    for _ in range(9):
        world.look_after(60)
    assert world.api.calls == ["read"] * 4
    assert caplog.text.count("whether a late write gave instance") == 1


def test_it_is_not_read_while_a_claim_for_it_is_made():
    world = World(on(A)).watch(granted(on(A, 2), on(A)))
    with world.locks.hold([UUID], 0.0):
        assert world.look_after(30) == pytest.approx(60)
    assert world.api.calls == []


def test_a_bounded_number_is_watched_and_one_thread_too_few_is_no_error(caplog):
    world = World()
    world.loop.has_threads = False
    results = {str(number): granted(on(A, 2), on(A)) for number in range(POLICY.cleanup_capacity + 1)}
    world.late_writes.watch(results)
    assert "not looked for now" in caplog.text
    world.look_after(30)
    assert len(world.api.calls) == POLICY.cleanup_capacity


@pytest.mark.parametrize("uuids", [[UUID], [UUID, "other"]], ids=["one", "a batch"])
def test_an_instance_that_was_deleted_after_the_reply_keeps_nothing(uuids):
    """The first write is carried out last."""
    claimer, api = make_claimer(
        ["late 99"], timing=Timing(sleep=lambda _seconds: None), is_deleted=lambda _uuid: True
    )
    results = claimer.claim_many(
        [make_request(uuid, where) for uuid, where in zip(uuids, [A, B], strict=False)]
    )
    assert all(result.claimed for result in results.values())
    carried_out, read = threading.Event(), api.get_allocations

    def read_later(*arguments):
        assert carried_out.wait(30)
        return read(*arguments)

    api.get_allocations = read_later
    claimer.watch_late_writes(results)
    api.consumers.clear()
    api.settle()
    assert api.consumers.keys() == set(uuids)
    carried_out.set()
    assert eventually(lambda: claimer.pending_cleanups() == len(uuids))
    assert (claimer.drain(5), api.consumers) == ([], {})


def test_an_instance_that_was_not_deleted_keeps_what_it_holds():
    claimer, api = make_claimer(["late 99"], policy=POLICY, timing=SleepClock().timing)
    result = claim(claimer)
    claimer.watch_late_writes({UUID: result})
    api.settle()
    assert (claimer.drain(5), api.consumers) == ([], {UUID: on(A, 2)})
