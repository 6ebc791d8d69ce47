"""One claim: who holds what after it, and what its caller is told."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.claims.claims import Claims
from scheduler.placement.claim_events import ENDS
from scheduler.placement.outcomes import Outcome
from tests.unit.claims.builders import (
    FAULTS,
    GONE,
    PROMPT,
    READS,
    UUID,
    A,
    B,
    C,
    SleepClock,
    candidate,
    holding,
    make_pass,
    writer_of,
)
from tests.unit.claims.fake_consumers import FakeConsumers

DONE, CHANGED, UNSENT = Outcome.DONE, Outcome.CHANGED, Outcome.UNSENT


class World:
    """A claim and all that it meets."""

    def __init__(self, writes=(), reads=(), held=None, source=(), where=A, policy=PROMPT, **request):
        self.api = FakeConsumers(
            {A: 1, B: 1, C: 1, "disks": 1, "f011": 0}, write_faults=[*writes], read_faults=[*reads]
        )
        if held is not None:
            self.api.consumers[UUID] = held
        self.clock = SleepClock()
        self.claims = Claims(writer_of(self.api, policy, self.clock.timing))
        named = {"nodes": {A, B, C}, "host_name": lambda _provider: "host 1"} | request
        self.candidate, self.of = candidate(where), make_pass(source, **named)

    def run(self):
        self.result = self.claims.claim({UUID: self.candidate}, self.of, self.clock.now + 60.0)[UUID]
        return self

    @property
    def held(self):
        return self.api.shown(UUID)


CASES = {
    "holds nothing": ({}, DONE, [A]),
    "holds the same by another request": ({"held": holding(A)}, CHANGED, [A]),
    "holds others by another request": ({"held": holding(B)}, CHANGED, [B]),
    "evacuated, holds the source": ({"held": holding(B), "source": {B}}, DONE, [A, B]),
    "evacuated, holds the candidate already": ({"held": holding(A, B), "source": {B}}, CHANGED, [A, B]),
    "evacuated, holds something on another host": ({"held": holding(B, C), "source": {B}}, CHANGED, [B, C]),
    "evacuated, keeps what it holds on two hosts": (
        {"held": holding(B, C), "source": {B, C}},
        DONE,
        [A, B, C],
    ),
    "evacuated, holds a host of another partition": (
        {"held": holding(B, "dddd"), "source": {B}},
        CHANGED,
        [B, "dddd"],
    ),
    "evacuated, uses shared disks": (
        {"held": holding(B, "disks"), "source": {B}},
        DONE,
        [A, B, "disks"],
    ),
    "evacuated, holds a child of the source": (
        {"held": holding(f"{B}-child"), "source": {B}},
        DONE,
        [A, f"{B}-child"],
    ),
    "no response, carried out": ({"writes": ["unanswered"]}, DONE, [A]),
    "no response, not carried out": ({"writes": ["lost"]}, DONE, [A]),
    "no room": ({"where": "f011"}, Outcome.REFUSED, []),
    "no such provider": ({"where": GONE}, Outcome.GONE, []),
    "contended": ({"writes": ["concurrent"] * 4}, Outcome.CONTENDED, []),
    "denied": ({"writes": ["403"]}, Outcome.DENIED, []),
    "not sent": ({"writes": ["unreachable"]}, UNSENT, []),
}


@pytest.mark.parametrize(("fields", "outcome", "held"), CASES.values(), ids=CASES)
def test_a_claim(fields, outcome, held):
    world = World(**fields)
    world.api.have({f"{B}-child": 1})
    world.run()
    assert world.result.outcome is outcome
    assert sorted(world.held.allocations) == sorted(held)
    assert world.result.events[-1].next_step in ENDS
    if outcome is DONE:
        assert world.result.held == world.held
    if outcome is CHANGED:
        assert world.result.held == world.held


@given(st.lists(FAULTS, max_size=8), st.lists(READS, max_size=8), st.sampled_from([None, B]), st.booleans())
def test_under_random_faults_a_claim_ends_and_holds_what_it_says(writes, reads, held, source):
    world = World(writes, reads, holding(held) if held else None, source={B} if source else ()).run()
    before = [B] if held else []
    world.api.settle()
    if world.result.done:
        assert sorted(world.held.allocations) == sorted({A, *before})
        assert bool(world.result.kept.allocations) is bool(held)
    elif not world.result.lost:
        assert sorted(world.held.allocations) == before


def test_what_an_evacuated_instance_holds_is_read_before_its_first_write():
    world = World(held=holding(B), source={B}).run()
    assert (world.result.done, world.api.calls) == (True, ["read", "put"])
    assert [event.next_step.name for event in world.result.events] == ["KEEPING_SOURCE", "GRANTED"]


def test_an_evacuated_instance_that_cannot_be_read_waits_for_the_end_of_the_outage():
    world = World(held=holding(B), source={B}, reads=["silent"]).run()
    assert (world.result.outcome, world.result.unavailable, world.api.calls) == (UNSENT, True, ["read"])


@pytest.mark.parametrize(
    ("refused", "final"), [("f0", True), ("f011", False)], ids=["what it keeps", "the new host"]
)
def test_an_evacuation_that_is_refused_for_what_its_instance_keeps_ends(refused, final):
    """All claims write that. Placement refuses it if the limits of the failed host have changed since."""
    names = {"f0": "failed host"}
    world = World(
        writes=["refused"] if final else [],
        held=holding("f0"),
        source={"f0"},
        where="f011",
        host_name=lambda provider: names.get(provider, "host 1"),
    )
    world.api.have({"f0": 1})
    result = world.run().result
    assert (result.outcome, result.provider) == (Outcome.REFUSED, refused)
    assert (result.final, result.try_next, result.hopeless) == (final, not final, final)
    last = result.events[-1]
    assert (last.host, last.next_step.name) == (
        ("failed host", "GIVEN_UP") if final else ("host 1", "NEXT_HOST")
    )
    assert world.held == holding("f0")


def test_events_name_try_host_status_cause_and_next_step():
    (event,) = World().run().result.events
    assert (event.attempt, event.host, event.status, event.next_step.name) == (1, "host 1", 204, "GRANTED")


@pytest.mark.parametrize("fault", ["lost", "late 99"])
def test_a_try_without_a_response_that_may_come_late_is_told(fault):
    world = World([fault, *["403"] * 99], policy=replace(PROMPT, late_delay=9.0)).run()
    assert not world.result.done
    assert world.result.lost


def test_a_claim_that_the_stop_ends_says_so():
    world = World(["unreachable"])
    send = world.api.write

    def stopped(*given):
        world.claims.stop_claiming()
        return send(*given)

    world.api.write = stopped
    assert world.run().result.outcome is Outcome.STOPPING


def test_an_evacuation_whose_source_cannot_be_told_is_a_conflict():
    world = World(held=holding("unknown"), source={B})
    assert world.run().result.outcome is CHANGED
