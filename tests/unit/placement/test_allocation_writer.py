"""What becomes of writes: who holds what, what the caller is told, and each event on the way."""

from dataclasses import replace
import json
import math

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.bounds.deadline import Deadline, limit_to
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import NOTHING, ConsumerAllocations
from scheduler.placement.claim_events import ClaimHistory, ClaimState
from scheduler.placement.client import Reply
from scheduler.placement.errors import PlacementUnanswered, PlacementUnreachable
from scheduler.placement.outcomes import Outcome, Refusal
from scheduler.placement.write_policy import WritePolicy
from scheduler.placement.writes import Write
from tests.support.clock import Clock
from tests.unit.claims.builders import FAULTS, GONE, OWNER, READS, UUID, A, B, C, SleepClock, candidate
from tests.unit.claims.fake_consumers import FakeConsumers

DONE, CHANGED, REFUSED = Outcome.DONE, Outcome.CHANGED, Outcome.REFUSED
UNSENT, UNKNOWN, CONTENDED = Outcome.UNSENT, Outcome.UNKNOWN, Outcome.CONTENDED

SILENT = ["silent"] * 9

FULL = "f011"


def holding(*where, generation=1):
    return ConsumerAllocations(candidate(*where).allocations if any(where) else {}, generation, OWNER)


class World:
    """A writer with a clock that only its sleep moves on, and Placement."""

    def __init__(self, writes=(), reads=(), held=None, **policy):
        self.api = FakeConsumers({A: 1, B: 1, C: 9, FULL: 0}, write_faults=[*writes], read_faults=[*reads])
        if held is not None:
            self.api.consumers[UUID] = held
        self.clock, self.lost = SleepClock(), []
        policy = {"concurrent_update_tries": 4, **policy}
        self.writer = AllocationWriter(
            self.api, replace(WritePolicy(), **policy), self.clock.timing, written=self._note_try
        )
        self.history = ClaimHistory(UUID, "host 1")

    def write(self, where=A, generation=None, until=60.0, **options):
        """Write for the instance; seconds from now."""
        write = replace(Write.of(candidate(where), OWNER, generation), history=self.history)
        return self.write_all({UUID: replace(write, **options)}, until)[UUID]

    def write_all(self, writes, until=60.0, **options):
        return self.writer.write(writes, until=self.clock.now + until, **options)

    def _note_try(self, bodies, _begun, *, done):
        if done is None:
            self.lost.extend(bodies)

    def release(self, generation, until=60.0):
        return self.write_all({UUID: Write({}, OWNER, generation)}, until)[UUID]

    @property
    def held(self):
        return self.api.consumers.get(UUID, NOTHING).allocations

    @property
    def path(self):
        return [event.next_step.name for event in self.history.events]


FRESH = {
    "accepted": ({}, DONE, [], 0),
    "concurrent updates": ({"writes": ["concurrent"] * 3}, DONE, ["BACKING_OFF"] * 3, 0),
    "too many of them": ({"writes": ["concurrent"] * 4}, CONTENDED, ["BACKING_OFF"] * 3, 0),
    "response lost": ({"writes": ["unanswered"]}, DONE, ["OUTCOME_UNKNOWN"], 1),
    "response timed out": ({"writes": ["timeout"]}, DONE, ["OUTCOME_UNKNOWN"], 1),
    "error after the effect": ({"writes": ["500 after"]}, DONE, ["OUTCOME_UNKNOWN"], 1),
    "page of a proxy": ({"writes": ["html"]}, DONE, ["OUTCOME_UNKNOWN", "RESENDING"], 1),
    "request lost": ({"writes": ["lost"]}, DONE, ["OUTCOME_UNKNOWN", "RESENDING"], 1),
    "in effect before it is sent again": (
        {"writes": ["late 4"]},
        DONE,
        ["OUTCOME_UNKNOWN", "RESENDING", "CONSUMER_CHANGED"],
        1,
    ),
    "a record of a lost try": (
        {"writes": ["begun 9999"]},
        DONE,
        ["OUTCOME_UNKNOWN", "RESENDING", "CONSUMER_CHANGED", "FIRST_WRITE"],
        1,
    ),
    "no room": ({"where": FULL}, REFUSED, [], 0),
    "no provider": ({"where": GONE}, Outcome.GONE, [], 0),
    "certainly not sent": ({"writes": ["unreachable"]}, UNSENT, [], 0),
    "credentials refused": ({"writes": ["403"]}, Outcome.DENIED, [], 0),
    "an empty record": (
        {"held": holding("", generation=0)},
        DONE,
        ["CONSUMER_CHANGED", "FIRST_WRITE"],
        0,
    ),
    "holds something": ({"held": holding(B)}, CHANGED, ["CONSUMER_CHANGED"], 0),
    "holds the same by another writer": ({"held": holding(A)}, CHANGED, ["CONSUMER_CHANGED"], 0),
    "changes all the time": (
        {"writes": ["conflict"] * 99},
        CHANGED,
        [*["CONSUMER_CHANGED", "FIRST_WRITE"] * 4, "CONSUMER_CHANGED"],
        0,
    ),
    "conflict, and cannot be read": ({"writes": ["conflict"], "reads": SILENT}, UNSENT, ["CONSUMER_CHANGED"], 0),
    "refused after a loss": (
        {"writes": ["lost", *["refused"] * 99]},
        REFUSED,
        ["OUTCOME_UNKNOWN", "RESENDING", *["BACKING_OFF"] * 8],
        0,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "result", "path", "lost"), FRESH.values(), ids=FRESH)
def test_a_write_for_a_new_consumer(fields, result, path, lost):
    world = World(**{name: value for name, value in fields.items() if name != "where"})
    before = world.held
    written = world.write(fields.get("where", A))
    assert (written.outcome, written.lost, world.path) == (result, lost, path)
    assert world.held == (candidate(A).allocations if result is DONE else before)
    if result is DONE:
        assert written.held == world.api.consumers[UUID]
        assert not world.api.hidden
    if result is CHANGED:
        assert written.held.allocations == before


LATER = {
    "accepted": ([], DONE, 0),
    "response lost": (["unanswered"], DONE, 1),
    "request lost": (["lost"], DONE, 0),
    "in effect late": (["late 4"], DONE, 1),
    "conflict, and nothing has changed": (["conflict"], DONE, 0),
    "conflict again and again": (["conflict"] * 99, CHANGED, 0),
    "concurrent updates": (["concurrent"], DONE, 0),
}


@pytest.mark.parametrize(("faults", "result", "lost"), LATER.values(), ids=LATER)
@pytest.mark.parametrize("releases", [False, True])
def test_a_write_with_a_generation_is_carried_out_once(releases, faults, result, lost):
    world = World(faults, held=holding(A, generation=3))
    written = world.release(3) if releases else world.write(B, 3)
    assert (written.outcome, written.lost) == (result, lost)
    if result is DONE:
        assert written.held == (NOTHING if releases else holding(B, generation=4))
        assert world.held == written.held.allocations
    world.api.settle()
    assert world.held == written.held.allocations


@pytest.mark.parametrize("writes", [[], ["lost"], ["unanswered"]], ids=str)
def test_what_another_writer_has_written_since_is_left_alone(writes):
    world = World(writes, held=holding(B, generation=4))
    written = world.write(A, 3)
    assert (written.outcome, written.held, world.held) == (
        CHANGED,
        holding(B, generation=4),
        holding(B).allocations,
    )


@pytest.mark.parametrize("fault", ["lost", "500"])
def test_a_write_without_a_response_is_sent_until_the_time_is_over(fault):
    world = World([fault] * 99)
    began = world.clock.now
    written = world.write(until=20.0)
    assert (written.outcome, world.held) == (UNKNOWN, {})
    assert written.lost == len(world.lost) > 3
    assert world.clock.now <= began + 20.0


def test_an_outage_in_the_middle_is_waited_out():
    world = World(["lost", *["unreachable"] * 3, "403", "500"], SILENT)
    assert world.write().outcome is DONE
    assert world.held == candidate(A).allocations


def test_one_try_is_made_if_the_time_is_over_before():
    world = World(["lost"])
    assert world.write(until=-math.inf).outcome is UNKNOWN
    assert world.api.calls == ["put", "read"]


def test_nothing_is_sent_after_a_refusal_of_the_caller():
    world = World(["lost"] * 9)
    write = Write.of(candidate(A), OWNER)
    stops = Refusal(Outcome.STOPPING, "it stops")
    written = world.write_all({UUID: write}, refusal=lambda: stops if world.api.calls else None)[UUID]
    assert (written.outcome, written.lost, world.api.calls) == (Outcome.STOPPING, 1, ["put", "read"])
    assert "it stops" in written.reason


def test_a_refusal_names_class_and_provider():
    written = World().write(FULL)
    assert (written.resource_class, written.provider, written.status) == ("VCPU", FULL, 409)
    assert written.reason.startswith("Placement answers 409: Unable to allocate inventory")


# -- many consumers ----------------------------------------------------------------------------------------------


def many(plan, **options):
    return {
        f"i{number}": replace(Write.of(candidate(where), OWNER), **options)
        for number, where in enumerate(plan)
    }


MANY = {
    "all at once": ([A, B, C], [], [DONE] * 3, ["post"]),
    "one too many": ([A, A, C], [], [DONE, REFUSED, DONE], ["post", "post"]),
    "missing provider": ([GONE, A, GONE, B], [], [Outcome.GONE, DONE] * 2, ["post", "post"]),
    "concurrent updates": ([A, B], ["concurrent"] * 3, [DONE] * 2, ["post"] * 4),
    "response lost": ([A, B], ["unanswered"], [DONE] * 2, ["post", "read", "read"]),
    "certainly not sent": ([A, B], ["unreachable"], [UNSENT] * 2, ["post"]),
    "twenty members of a group": ([C] * 9 + [A, B], [], [DONE] * 11, ["post"]),
}


@pytest.mark.parametrize(("plan", "faults", "results", "calls"), MANY.values(), ids=MANY)
def test_many_consumers_are_written_in_one_post_and_each_has_its_own_outcome(plan, faults, results, calls):
    world = World(faults, reads_at_once=1)
    written = world.write_all(many(plan))
    assert [one.outcome for one in written.values()] == results
    assert world.api.calls == calls
    for (uuid, one), where in zip(written.items(), plan, strict=True):
        held = world.api.shown(uuid).allocations
        assert held == (candidate(where).allocations if one.outcome is DONE else {})


def test_the_consumer_that_has_changed_is_found_and_the_others_are_written():
    world = World()
    world.api.consumers["i5"] = holding(B)
    written = world.write_all(many([C] * 8))
    assert [uuid for uuid, one in written.items() if one.outcome is not DONE] == ["i5"]
    assert written["i5"].held.allocations == candidate(B).allocations
    assert world.api.calls.count("put") <= 3, "it is found by halves"


def test_splitting_a_batch_leaves_events():
    histories = [ClaimHistory(f"i{number}", "h") for number in range(3)]
    writes = many([A, A, C])
    writes = {
        uuid: replace(one, history=histories[number]) for number, (uuid, one) in enumerate(writes.items())
    }
    World().write_all(writes)
    assert [[event.next_step for event in one.events] for one in histories] == [
        [ClaimState.BATCH_WRITE],
        [],
        [ClaimState.BATCH_WRITE],
    ]
    assert [one.attempt for one in histories] == [2, 1, 2]


@pytest.mark.parametrize(
    "faults", [[], ["lost"], ["unanswered"], ["late 3"], ["conflict"], ["500 after"]], ids=str
)
def test_all_or_none(faults):
    world = World(faults)
    for uuid in ("i0", "i1"):
        world.api.consumers[uuid] = holding(C)
    writes = {uuid: Write(candidate(C).allocations, OWNER, 1) for uuid in ("i0", "i1")}
    written = world.write_all(writes, all_or_none=True)
    assert {one.outcome for one in written.values()} == {DONE}
    assert {held.generation for held in world.api.consumers.values()} == {2}
    assert "put" not in world.api.calls


def test_none_is_written_if_one_has_changed():
    world = World()
    world.api.consumers["i0"] = holding(C)
    writes = {uuid: Write(candidate(C).allocations, OWNER, 1) for uuid in ("i0", "i1")}
    written = world.write_all(writes, all_or_none=True)
    assert {one.outcome for one in written.values()} == {CHANGED}
    assert (written["i0"].held.generation, written["i1"].held) == (1, NOTHING)


@given(
    st.lists(st.sampled_from([A, B, C, FULL, GONE]), min_size=1, max_size=6),
    st.lists(st.one_of(FAULTS, st.sampled_from(["conflict", "refused", "html"])), max_size=9),
    st.lists(READS, max_size=12),
)
def test_under_random_faults_the_outcome_is_true(plan, faults, reads):
    world = World(faults, reads)
    written = world.write_all(many(plan))
    for (uuid, one), where in zip(written.items(), plan, strict=True):
        held = world.api.shown(uuid).allocations if not world.api.read_faults else None
        if one.outcome is DONE:
            assert held in (candidate(where).allocations, None)
        elif one.outcome is not UNKNOWN:
            assert not world.api.consumers.get(uuid, NOTHING).allocations
    world.api.settle()
    for (uuid, one), where in zip(written.items(), plan, strict=True):
        if one.outcome is DONE:
            assert world.api.shown(uuid).allocations == candidate(where).allocations
        elif not one.lost:
            assert world.api.shown(uuid).allocations == {}


# -- records of consumers that hold nothing (spec: placement-and-workflow 4.5) ---------------------------------------


def test_a_consumer_is_written_of_which_a_missing_provider_left_a_record():
    world = World()
    assert world.write(GONE).outcome is Outcome.GONE
    assert world.write(A).outcome is DONE


@pytest.mark.parametrize("releases", [False, True])
def test_after_the_deadline_of_the_request_the_outcome_of_a_lost_try_is_read_too(releases):
    world = World(["unanswered"], held=holding(A, generation=3))
    with limit_to(Deadline(0.0, lambda: 1.0)):
        written = world.release(3) if releases else world.write(B, 3)
    assert (written.outcome, written.lost) == (DONE, 1)


@pytest.mark.parametrize("calls", [2, 9, 20])
def test_a_lost_try_that_is_carried_out_after_all_changes_nothing(calls):
    world = World([f"begun {calls}"])
    written = world.write(until=math.inf)
    assert (written.outcome, written.held.allocations) == (DONE, candidate(A).allocations)
    world.api.settle()
    assert world.api.consumers[UUID].allocations == candidate(A).allocations


def test_after_an_outage_a_lost_write_is_sent_soon_and_does_not_wait_for_the_record_of_the_lost_one():
    outage = 5
    world = World(["begun 9999", *["unreachable"] * outage], ["silent"] * 3)
    began = world.clock.now
    assert world.write().outcome is DONE
    policy = WritePolicy()
    reads = 2 * sum(policy.reads_after_reset)
    assert world.clock.now - began <= outage * policy.outage_delay + reads < policy.late_write_window


DELAYS = {
    "after a broken connection": (["lost"], [0.0, 1.0]),
    "after a 500": (["500"], [0.0, 1.0]),
    "after a timeout with effect": (["timeout"], [0.0]),
    "after concurrent updates": (["concurrent", "concurrent"], [0.05, 0.05]),
}


@pytest.mark.parametrize(("writes", "slept"), DELAYS.values(), ids=DELAYS)
def test_delays(writes, slept):
    world = World(writes, reads_after_reset=(0.0, 1.0), reads_after_timeout=(0.0, 2.0, 4.0))
    world.write()
    assert [pause for number, pause in enumerate(world.clock.slept) if pause or not number] == slept


# -- what is sent ------------------------------------------------------------------------------------------------

MINE = {"project_id": "project", "user_id": "user"}


class Recording:
    """A client that writes down what is sent."""

    def __init__(self, answer=Reply(204)):  # noqa: B008 - it is immutable
        self.sent, self.answer = [], answer
        self.clock = Clock(7.0)

    def get(self, path, version, context=None):
        return Reply(200, b'{"allocations": {}}')

    def write(self, method, path, version, context=None, body=None):
        self.clock.now += 3
        self.sent.append((method, path, version, context, json.loads(body)))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_one_consumer_is_put_and_several_are_posted():
    client = Recording()
    writer = AllocationWriter(client)
    claim, release = Write.of(candidate(A), OWNER), Write({}, OWNER, 5)
    writer.write({"a/b": claim}, context="context")
    writer.write({"i": claim, "j": release})
    claimed = {
        **MINE,
        "allocations": candidate(A).allocations,
        "mappings": {"": [A]},
        "consumer_generation": None,
    }
    released = {**MINE, "allocations": {}, "consumer_generation": 5}
    assert client.sent == [
        ("PUT", "/allocations/a%2Fb", "1.36", "context", claimed),
        ("POST", "/allocations", "1.36", None, {"j": released, "i": claimed}),
    ]


REFUSED_BODY = b'{"errors": [{"status": 409, "code": "placement.undefined_code", "detail": "no room"}]}'


@pytest.mark.parametrize(
    ("answer", "done"),
    [
        (Reply(204), True),
        (Reply(409, REFUSED_BODY), False),
        (Reply(502, b"<html>"), None),
        (PlacementUnreachable("refused"), False),
        (PlacementUnanswered("reset"), None),
    ],
    ids=["done", "refused", "unclear", "not sent", "no response"],
)
def test_each_try_is_reported_with_its_outcome(answer, done):
    client, told = Recording(answer), []
    timing = replace(SleepClock().timing, monotonic=client.clock)
    writer = AllocationWriter(
        client, timing=timing, written=lambda bodies, begun, *, done: told.append((list(bodies), begun, done))
    )
    writer.write({"i": Write.of(candidate(A), OWNER)}, until=-math.inf)
    assert told == [([client.sent[0][-1]], 7.0, done)]
