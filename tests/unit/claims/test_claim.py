"""The state machine of one claim: each state, what follows it, and what it sends."""

from dataclasses import replace
from itertools import pairwise
import math

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.placement.allocations import ConsumerAllocations, claim_body
from scheduler.claims.claim import AllocationClaim, ConsumerState
from scheduler.placement.claim_events import ENDS, ClaimState
from scheduler.claims.journal import ClaimJournal
from scheduler.claims.parts import ClaimParts
from scheduler.claims.policy import ClaimPolicy
from scheduler.claims.result import Outcome, OwnWrite
from scheduler.locks import KeyedLocks
from scheduler.placement.errors import PlacementUnanswered
from tests.support.clock import Clock
from tests.unit.claims.builders import (
    FAULTS,
    GONE,
    OWNER,
    PROMPT,
    READS,
    UUID,
    A,
    B,
    C,
    SleepClock,
    candidate,
    make_request,
)
from tests.unit.claims.fake_consumers import FakeConsumers

FIRST_WRITE, REPLACING, KEEPING_SOURCE = (
    ClaimState.FIRST_WRITE,
    ClaimState.REPLACING,
    ClaimState.KEEPING_SOURCE,
)
ADOPTING = ClaimState.ADOPTING
REWRITING, RESENDING, BACKING_OFF = ClaimState.REWRITING, ClaimState.RESENDING, ClaimState.BACKING_OFF
CONSUMER_CHANGED, OUTCOME_UNKNOWN = ClaimState.CONSUMER_CHANGED, ClaimState.OUTCOME_UNKNOWN
VERIFYING, GRANTED = ClaimState.VERIFYING, ClaimState.GRANTED
NEXT_HOST, GIVEN_UP = ClaimState.NEXT_HOST, ClaimState.GIVEN_UP

WRITING = {FIRST_WRITE, REPLACING, ADOPTING, KEEPING_SOURCE, REWRITING, RESENDING, BACKING_OFF}
AFTER_WRITE = {VERIFYING, GRANTED, CONSUMER_CHANGED, BACKING_OFF, OUTCOME_UNKNOWN, NEXT_HOST, GIVEN_UP}
FROM_CONSUMER = {FIRST_WRITE, REPLACING, ADOPTING, KEEPING_SOURCE, REWRITING, GRANTED, GIVEN_UP}
TRANSITIONS = {
    **dict.fromkeys(WRITING, AFTER_WRITE),
    CONSUMER_CHANGED: FROM_CONSUMER,
    OUTCOME_UNKNOWN: {*FROM_CONSUMER, RESENDING},
    VERIFYING: {REWRITING, REPLACING, ADOPTING, KEEPING_SOURCE, GRANTED, GIVEN_UP},
}


NEW = ConsumerState()


class Journal(ClaimJournal):
    """Lists what is recorded."""

    def __init__(self):
        super().__init__()
        self.recorded = []

    def record_writes(self, writes, request=""):
        self.recorded += writes.items()


class World:
    """A claim and all that it meets."""

    def __init__(
        self, writes=(), reads=(), held=None, source=(), where=A, policy=PROMPT, known=NEW, **request
    ):
        self.api = FakeConsumers(
            {A: 1, B: 1, C: 1, "disks": 1, "full": 0}, write_faults=[*writes], read_faults=[*reads]
        )
        if held is not None:
            self.api.consumers[UUID] = held
        self.clock, self.journal, self.locks = SleepClock(), Journal(), KeyedLocks()
        self.claim = AllocationClaim(
            replace(
                make_request(where=where, evacuating_from=source, host="host 1"), nodes={A, B, C}, **request
            ),
            ClaimParts(self.api, policy, self.clock.timing, self.journal, self.locks),
            known,
        )

    def run(self):
        self.result = self.claim.claim()
        return self

    @property
    def path(self):
        """The states in order, without the first, which is always FIRST_WRITE."""
        return [event.next_step for event in self.result.events]


def holding(*where, generation=1):
    return ConsumerAllocations(candidate(*where).allocations if any(where) else {}, generation, OWNER)


def known_elsewhere(*writes):
    """Another process gives these writes back, perhaps while the claim is made."""
    return ConsumerState(unsure=True, earlier=writes, elsewhere=writes)


#: An earlier claim of ours gave the instance B.
EARLIER = ConsumerState(earlier=(OwnWrite(holding(B)),))

# -- from each state that writes, each response -------------------------------------------------------------------

#: state → how to get there
PREFIXES = {
    FIRST_WRITE: ({}, []),
    BACKING_OFF: ({"writes": ["concurrent"]}, [BACKING_OFF]),
    RESENDING: ({"writes": ["lost"]}, [OUTCOME_UNKNOWN, RESENDING]),
    REPLACING: (
        {"writes": ["ok"], "held": holding(B), "known": EARLIER},
        [CONSUMER_CHANGED, REPLACING],
    ),
    ADOPTING: ({"writes": ["ok"], "held": holding(A)}, [CONSUMER_CHANGED, ADOPTING]),
    KEEPING_SOURCE: (
        {"writes": ["ok"], "held": holding(B), "source": {B}},
        [CONSUMER_CHANGED, KEEPING_SOURCE],
    ),
    REWRITING: ({"writes": ["lost", "hidden"]}, [OUTCOME_UNKNOWN, RESENDING, VERIFYING, REWRITING]),
}
RESPONSES = {
    "concurrent": (BACKING_OFF, None),
    "conflict": (CONSUMER_CHANGED, None),
    "lost": (OUTCOME_UNKNOWN, None),
    "timeout": (OUTCOME_UNKNOWN, None),
    "500": (OUTCOME_UNKNOWN, None),
    "refused": (NEXT_HOST, Outcome.REFUSED),
    "403": (GIVEN_UP, Outcome.UNAVAILABLE),
    "unreachable": (GIVEN_UP, Outcome.UNAVAILABLE),
    "ok": (GRANTED, Outcome.CLAIMED),
}


@pytest.mark.parametrize("response", RESPONSES)
@pytest.mark.parametrize("state", PREFIXES, ids=lambda state: state.name)
def test_what_follows_a_write(state, response):
    fields, prefix = PREFIXES[state]
    world = World(**{**fields, "writes": [*fields.get("writes", ()), response]}).run()
    expected, outcome = RESPONSES[response]
    if (state, response) == (RESENDING, "ok"):
        expected = VERIFYING  # the lost write may have overlapped
    assert world.path[: len(prefix) + 1] == [*prefix, expected]
    if expected in ENDS:
        assert world.result.outcome is outcome


# -- from each state that reads ----------------------------------------------------------------------------------

SILENT = ["silent"] * 9
SENT_AGAIN = [OUTCOME_UNKNOWN, RESENDING, VERIFYING, REWRITING, GRANTED]
PATHS = {
    "consumer changed, holds the allocations": ({"held": holding(A)}, [CONSUMER_CHANGED, ADOPTING, GRANTED]),
    "consumer changed, holds those of another request": ({"held": holding(B)}, [CONSUMER_CHANGED, GIVEN_UP]),
    "consumer changed, holds those of an earlier claim": (
        {"held": holding(B), "known": EARLIER},
        [CONSUMER_CHANGED, REPLACING, GRANTED],
    ),
    "consumer changed, an earlier claim's generation has passed": (
        {"held": holding(B, generation=2), "known": EARLIER},
        [CONSUMER_CHANGED, GIVEN_UP],
    ),
    "response lost, adopted": (
        {"writes": ["ok", "unanswered"], "held": holding(A)},
        [CONSUMER_CHANGED, ADOPTING, OUTCOME_UNKNOWN, GRANTED],
    ),
    "consumer changed, holds the source": (
        {"held": holding(B), "source": {B}},
        [CONSUMER_CHANGED, KEEPING_SOURCE, GRANTED],
    ),
    "an earlier claim of another process wrote, or may yet write, the same": (
        {"known": known_elsewhere(OwnWrite(holding(A)))},
        [VERIFYING, REPLACING, VERIFYING, GRANTED],
    ),
    "an earlier claim of this process wrote, or may yet write, the same": (
        {"known": ConsumerState(unsure=True, earlier=(OwnWrite(holding(A)),))},
        [VERIFYING, GRANTED],
    ),
    "evacuated, holds the candidate already": (
        {"held": holding(A, B), "source": {B}},
        [CONSUMER_CHANGED, ADOPTING, GRANTED],
    ),
    "evacuated, holds something on another host": (
        {"held": holding(B, C), "source": {B}},
        [CONSUMER_CHANGED, GIVEN_UP],
    ),
    "evacuated, holds the candidate and something on another host": (
        {"held": holding(A, B, C), "source": {B}},
        [CONSUMER_CHANGED, GIVEN_UP],
    ),
    "evacuated, keeps what it holds on another host": (
        {"held": holding(B, C), "source": {B, C}},
        [CONSUMER_CHANGED, KEEPING_SOURCE, GRANTED],
    ),
    "evacuated, uses shared disks": (
        {"held": holding(B, "disks"), "source": {B}},
        [CONSUMER_CHANGED, KEEPING_SOURCE, GRANTED],
    ),
    "evacuated, holds the candidate by an earlier claim": (
        {
            "held": holding(A, B, generation=2),
            "source": {B},
            "known": ConsumerState(earlier=(OwnWrite(holding(A, B, generation=2), holding(B)),)),
        },
        [CONSUMER_CHANGED, KEEPING_SOURCE, GRANTED],
    ),
    "consumer changed, an empty record": (
        {"held": holding("", generation=0)},
        [CONSUMER_CHANGED, FIRST_WRITE, GRANTED],
    ),
    "consumer changed, does not exist": ({"writes": ["conflict"]}, [CONSUMER_CHANGED, FIRST_WRITE, GRANTED]),
    "consumer changed, cannot be read": (
        {"writes": ["conflict"], "reads": SILENT},
        [CONSUMER_CHANGED, GIVEN_UP],
    ),
    "consumer changes all the time": (
        {"writes": ["conflict"] * 9},
        [CONSUMER_CHANGED, FIRST_WRITE] * 4 + [CONSUMER_CHANGED, GIVEN_UP],
    ),
    "response lost, the write had its effect": ({"writes": ["unanswered"]}, [OUTCOME_UNKNOWN, GRANTED]),
    "response timed out, the write had its effect": ({"writes": ["timeout"]}, [OUTCOME_UNKNOWN, GRANTED]),
    "500 after the effect": ({"writes": ["500 after"]}, [OUTCOME_UNKNOWN, GRANTED]),
    "page of a proxy": ({"writes": ["html"]}, SENT_AGAIN),
    "no effect": ({"writes": ["lost"]}, SENT_AGAIN),
    "no effect, and the second response is lost": (
        {"writes": ["lost", "unanswered"]},
        [OUTCOME_UNKNOWN, RESENDING, OUTCOME_UNKNOWN, REWRITING, GRANTED],
    ),
    "no effect, and the response to the repetition is lost": (
        {"writes": ["lost", "ok", "unanswered"]},
        [*SENT_AGAIN[:-1], OUTCOME_UNKNOWN, GRANTED],
    ),
    "no effect, and the repetition has none": (
        {"writes": ["lost", "ok", "lost"]},
        [*SENT_AGAIN[:-1], OUTCOME_UNKNOWN, GRANTED],
    ),
    "no effect, and the repetition is refused": ({"writes": ["lost", "ok", "refused"]}, SENT_AGAIN),
    "no effect, and the repetition is not sent": ({"writes": ["lost", "ok", "unreachable"]}, SENT_AGAIN),
    "no effect, and what became of the repetition cannot be read": (
        {"writes": ["lost", "ok", "lost"], "reads": ["ok"] * 4 + SILENT},
        [*SENT_AGAIN[:-1], OUTCOME_UNKNOWN, GRANTED],
    ),
    "in effect before it is sent again": (
        {"writes": ["late 4"]},
        [OUTCOME_UNKNOWN, RESENDING, CONSUMER_CHANGED, GRANTED],
    ),
    "no effect, and others hold the consumer": (
        {"writes": ["lost"], "held": holding(B)},
        [OUTCOME_UNKNOWN, GIVEN_UP],
    ),
    "no effect on an evacuated instance": (
        {"writes": ["lost"], "held": holding(B), "source": {B}},
        [OUTCOME_UNKNOWN, KEEPING_SOURCE, VERIFYING, GRANTED],
    ),
    "no effect, again and again": (
        {"writes": ["lost"] * 9},
        [OUTCOME_UNKNOWN, RESENDING, OUTCOME_UNKNOWN, RESENDING, OUTCOME_UNKNOWN, GIVEN_UP],
    ),
    "response lost, cannot be read": ({"writes": ["lost"], "reads": SILENT}, [OUTCOME_UNKNOWN, GIVEN_UP]),
    "accepted after a loss, cannot be read": (
        {"writes": ["lost"], "reads": ["ok", "ok", "ok", *SILENT]},
        [OUTCOME_UNKNOWN, RESENDING, VERIFYING, GIVEN_UP],
    ),
    "accepted after a loss, but hidden": (
        {"writes": ["lost", "hidden"]},
        [OUTCOME_UNKNOWN, RESENDING, VERIFYING, REWRITING, GRANTED],
    ),
    "an earlier claim's write may come": ({"known": ConsumerState(unsure=True)}, [VERIFYING, GRANTED]),
    "a batch's write may come": (
        {"known": ConsumerState(lost=1)},
        [VERIFYING, REWRITING, GRANTED],
    ),
    "known to be empty": ({"known": ConsumerState(0), "held": holding("", generation=0)}, [GRANTED]),
    "host is full": ({"where": "full"}, [NEXT_HOST]),
    "provider is gone": ({"where": GONE}, [NEXT_HOST]),
    "concurrent updates end": ({"writes": ["concurrent"] * 3}, [BACKING_OFF] * 3 + [GRANTED]),
    "concurrent updates do not end": ({"writes": ["concurrent"] * 9}, [BACKING_OFF] * 3 + [NEXT_HOST]),
}


@pytest.mark.parametrize(("fields", "path"), PATHS.values(), ids=PATHS.keys())
def test_path(fields, path):
    world = World(**fields).run()
    assert world.path == path
    held = world.api.get_allocations(UUID) if not world.api.read_faults else None
    if held is not None and world.result.claimed:
        assert held.allocations == world.result.made.allocations


def test_every_state_is_reached():
    reached = {FIRST_WRITE}.union(*(path for _, path in PATHS.values()))
    of_others = {
        ClaimState.BATCH_WRITE,
        ClaimState.CLAIMED_ALONE,
        ClaimState.WITHIN_CAPACITY,
        ClaimState.OVER_CAPACITY,
    }
    assert reached == set(ClaimState) - of_others


@given(
    st.lists(st.one_of(FAULTS, st.sampled_from(["conflict", "refused", "hidden", "html"])), max_size=10),
    st.lists(READS, max_size=12),
    st.sampled_from([None, holding(A), holding(B), holding("", generation=0)]),
    st.sampled_from([(), {B}]),
)
def test_under_random_faults_only_known_transitions_are_made(writes, reads, held, source):
    path = [FIRST_WRITE, *World(writes, reads, held, source).run().path]
    wrong = [(one, other) for one, other in pairwise(path) if other not in TRANSITIONS[one]]
    assert wrong == []
    assert path[-1] in ENDS


# -- events and results ------------------------------------------------------------------------------------------


def test_events_name_try_host_status_cause_and_next_step():
    events = World(["concurrent", "lost", "500", "ok"]).run().result.events
    assert [(event.attempt, event.host, event.status, event.next_step) for event in events] == [
        (1, "host 1", 409, BACKING_OFF),
        (2, "host 1", None, OUTCOME_UNKNOWN),
        (2, "host 1", None, RESENDING),
        (3, "host 1", 500, OUTCOME_UNKNOWN),
        (3, "host 1", None, RESENDING),
        (4, "host 1", 204, VERIFYING),
        (4, "host 1", None, REWRITING),
        (5, "host 1", 204, GRANTED),
    ]
    assert [event.cause for event in events] == [
        "Another thread concurrently updated the data",
        "no clear response (lost)",
        "no clear response (lost) and no effect",
        "no clear response (deadlock)",
        "no clear response (deadlock) and no effect",
        "an earlier write may have overlapped",
        "a lost write may yet do the same",
        "Placement accepted it",
    ]


def test_a_claim_that_left_its_batch_goes_on_with_the_events_of_the_batch():
    before = World(["concurrent", "concurrent", "concurrent", "concurrent"]).run().result.events
    events = World(known=ConsumerState(events=before)).run().result.events
    assert events[:-1] == before
    assert (events[-1].attempt, events[-1].next_step) == (5, GRANTED)


UNSURE = {
    "granted at once": ({}, False, False),
    "granted after a lost response": ({"writes": ["unanswered"]}, True, False),
    "granted after a second write": ({"writes": ["lost"]}, True, True),
    "accepted, but not read back": (
        {"known": ConsumerState(unsure=True), "reads": SILENT},
        True,
        True,
    ),
    "refused": ({"where": "full"}, False, False),
    "refused after a lost response": ({"writes": ["lost", "refused"]}, True, True),
    "unreachable after an earlier unsure claim": (
        {"writes": ["unreachable"], "known": ConsumerState(unsure=True)},
        False,
        True,
    ),
}


@pytest.mark.parametrize(("fields", "unsure", "overlapped"), UNSURE.values(), ids=UNSURE.keys())
def test_whether_a_release_must_look_twice(fields, unsure, overlapped):
    result = World(**fields).run().result
    assert (result.unsure, result.overlapped) == (unsure, overlapped)
    assert (result.made is not None) == (result.claimed or unsure)


def test_a_claim_beside_the_source_is_recorded_and_puts_it_back():
    world = World(held=holding(B), source={B}).run()
    both = {**candidate(A).allocations, **candidate(B).allocations}
    ((uuid, recorded),) = world.journal.recorded
    assert (uuid, recorded.made.allocations, recorded.previous) == (UUID, both, holding(B))
    assert world.result.previous == holding(B)
    assert (world.result.made.allocations, world.result.made.generation) == (both, 2)


def test_what_an_earlier_claim_could_have_written_too_is_given_another_generation():
    known = known_elsewhere(OwnWrite(holding(A)))
    world = World(known=known).run()
    assert world.api.get_allocations(UUID).generation == world.result.made.generation == 2
    assert not known.earlier[0].is_in(world.api.get_allocations(UUID))


def test_what_several_earlier_writes_could_have_left_is_given_a_later_generation_than_all_of_them():
    known = known_elsewhere(*[OwnWrite(holding(A))] * 3)
    world = World(known=known).run()
    assert world.result.claimed
    assert world.api.get_allocations(UUID).generation == world.result.made.generation == 4


def test_what_two_overlapping_writes_left_is_ours():
    """A batch is carried out late, after the claim for the instance alone that followed it."""
    world = World(["late 1"], known=ConsumerState(lost=1))
    world.api.get_allocations = lambda uuid, context=None: holding(A, generation=2)
    world.run()
    assert (world.result.claimed, world.result.adopted) == (True, False)
    assert world.result.own_writes[0].made.generation == 2


@pytest.mark.parametrize(
    ("request_", "adopted"),
    [
        ({}, True),
        ({"alone": False}, False),
    ],
    ids=["one instance", "one of several"],
)
def test_what_another_request_claimed_for_one_of_several_instances_is_not_adopted(request_, adopted):
    """If another instance then gets no host, neither of the two requests would give it back."""
    world = World(held=holding(A), **request_).run()
    assert (world.result.claimed, world.result.adopted) == (adopted, adopted)
    assert world.api.get_allocations(UUID).generation == (2 if adopted else 1)


def test_what_an_earlier_evacuation_could_have_written_too_keeps_its_source():
    both = holding(A, B, generation=2)
    known = known_elsewhere(OwnWrite(both, holding(B)))
    world = World(held=holding(B), source={B}, known=known).run()
    assert world.result.made == replace(both, generation=3)
    assert world.result.previous == holding(B)


def test_an_evacuated_instance_that_holds_the_candidate_gets_it_once_and_keeps_the_source():
    world = World(held=holding(A, B), source={B}).run()
    assert world.api.get_allocations(UUID).allocations == candidate(A, B).allocations
    assert (world.result.claimed, world.result.adopted, world.result.own_writes) == (True, True, ())


def test_a_claim_names_what_an_evacuated_instance_holds_on_a_further_host():
    world = World(held=holding(B, C), source={B}).run()
    assert world.result.held == holding(B, C)
    assert world.api.get_allocations(UUID) == holding(B, C)


def test_an_evacuation_whose_source_disappeared_has_nothing_to_put_back():
    """Its release would otherwise write allocations without an owner, which Placement refuses."""
    world = World(held=holding(B), source={B})
    put = world.api.put_allocations

    def put_after_removal(uuid, body, context=None):
        if world.api.calls.count("put") == 1:
            del world.api.consumers[UUID]
        return put(uuid, body, context)

    world.api.put_allocations = put_after_removal
    world.run()
    assert world.path == [CONSUMER_CHANGED, KEEPING_SOURCE, CONSUMER_CHANGED, FIRST_WRITE, GRANTED]
    assert world.result.previous is None
    assert world.result.made.allocations == candidate(A).allocations


@pytest.mark.parametrize(
    ("where", "known", "left"),
    [(GONE, ConsumerState(), True), (GONE, ConsumerState(0), False), ("full", ConsumerState(), False)],
    ids=["new consumer on a missing provider", "known empty consumer", "full host"],
)
def test_only_a_new_consumer_on_a_missing_provider_leaves_an_empty_one(where, known, left):
    world = World(
        where=where, known=known, held=holding("", generation=0) if known.generation == 0 else None
    ).run()
    assert world.claim.left_empty_consumer is left


# -- bounds ------------------------------------------------------------------------------------------------------


def test_no_write_is_sent_after_the_time_of_the_claim():
    world = World()
    world.clock.now += PROMPT.claim_timeout + 1
    world.run()
    assert world.api.calls == []
    assert (world.result.outcome, world.result.reason) == (Outcome.UNAVAILABLE, "the claim took too long")


@pytest.mark.parametrize("calls", [2, 9, 20])
@pytest.mark.parametrize("of_batch", [False, True])
def test_nothing_is_written_on_the_record_of_a_write_that_is_still_at_work(of_batch, calls):
    """It would be hidden when that write is refused (spec: placement-and-workflow 4.5)."""
    known = ConsumerState(lost=1, late_until=math.inf) if of_batch else NEW
    world = World([] if of_batch else [f"begun {calls}"], policy=ClaimPolicy(), known=known)
    if of_batch:
        with pytest.raises(PlacementUnanswered):
            world.api._begun(UUID, claim_body(candidate(A), OWNER, None), calls)
    assert world.run().result.claimed
    world.api.settle()
    assert world.api.get_allocations(UUID).allocations == candidate(A).allocations


def test_a_record_without_allocations_is_used_once_no_write_can_be_at_work_any_more():
    world = World(["begun 9999"], policy=ClaimPolicy()).run()
    assert world.result.claimed
    assert world.clock.now - Clock().now >= ClaimPolicy().late_write_window


def test_the_pauses_before_a_write_that_waits_for_another_one_grow_to_a_bound():
    policy = replace(ClaimPolicy(), retry_delay=(0.25, 0.5), reads_after_reset=(0.0,))
    world = World(["begun 9999"], policy=policy).run()
    assert world.result.claimed
    pauses = [pause for pause in world.clock.slept if pause]
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert set(pauses[4:]) == {policy.longest_retry_delay}
    assert sum(pauses[:-1]) < policy.late_write_window <= sum(pauses)


def test_nothing_is_read_again_after_the_time_of_the_claim_although_no_read_was_answered():
    world = World(["lost"], ["silent"] * 9, policy=replace(ClaimPolicy(), claim_timeout=0.2)).run()
    assert (world.result.outcome, world.api.calls) == (Outcome.UNAVAILABLE, ["put", "read"])


def test_a_lock_that_is_not_free_leads_to_the_next_host(caplog):
    caplog.set_level("INFO")
    world = World(policy=replace(PROMPT, lock_timeout=0.01))
    with world.locks.hold([A], 1):
        world.run()
    assert world.api.calls == []
    assert (world.result.outcome, world.path) == (Outcome.CONTENDED, [NEXT_HOST])
    assert caplog.messages == [
        f"Claim for instance {UUID} on host host 1, try 1: its lock was not free within 0.01 s; trying the next host"
    ]


DELAYS = ClaimPolicy(
    reads_after_reset=(0.0, 1.0), reads_after_timeout=(0.0, 2.0, 4.0), retry_delay=(0.05, 0.5)
)
SLEPT = {
    "after a broken connection": (["lost"], [0.0, 1.0]),
    "after a 500": (["500"], [0.0, 1.0]),
    "after a timeout without effect": (["late 9"], [0.0, 1.0]),
    "after a timeout with effect": (["timeout"], [0.0]),
    "after concurrent updates": (["concurrent", "concurrent"], [0.05, 0.05]),
}


@pytest.mark.parametrize(("writes", "slept"), SLEPT.values(), ids=SLEPT.keys())
def test_delays(writes, slept):
    assert World(writes, policy=DELAYS).run().clock.slept == slept
