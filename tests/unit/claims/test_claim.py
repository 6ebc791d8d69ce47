"""One claim: who holds what after it, what its caller is told, and what is given back."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.claims.claim import Claim, claim_all
from scheduler.claims.claim_request import NEW, ConsumerState
from scheduler.claims.journal import ClaimJournal
from scheduler.claims.parts import ClaimParts
from scheduler.claims.result import Outcome, OwnWrite, Refusal
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.claim_events import ENDS
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
    writer_of,
)
from tests.unit.claims.fake_consumers import FakeConsumers

CLAIMED, CONFLICT, UNAVAILABLE = Outcome.CLAIMED, Outcome.CONFLICT, Outcome.UNAVAILABLE


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
            {A: 1, B: 1, C: 1, "disks": 1, "f011": 0}, write_faults=[*writes], read_faults=[*reads]
        )
        if held is not None:
            self.api.consumers[UUID] = held
        self.clock, self.journal = SleepClock(), Journal()
        self.parts = ClaimParts(writer_of(self.api, policy, self.clock.timing), policy.claims, self.journal)
        request = replace(
            make_request(where=where, evacuating_from=source, host="host 1"), nodes={A, B, C}, **request
        )
        self.claim = Claim(request, self.parts, known)

    def run(self, refusal=lambda: None):
        until = self.clock.now + 60.0
        self.result = claim_all([self.claim], self.parts, refusal, until)[UUID]
        return self

    @property
    def path(self):
        """The states in order, without the first, which is always FIRST_WRITE."""
        return [event.next_step.name for event in self.result.events]

    @property
    def held(self):
        return self.api.get_allocations(UUID)


def holding(*where, generation=1):
    return ConsumerAllocations(candidate(*where).allocations if any(where) else {}, generation, OWNER)


def known_elsewhere(*writes):
    """Another process gives these writes back, perhaps while the claim is made."""
    return ConsumerState(late_until=1e9, earlier=writes, elsewhere=writes)


#: An earlier claim of ours gave the instance B.
EARLIER = ConsumerState(earlier=(OwnWrite(holding(B)),))

CHANGED = "CONSUMER_CHANGED"
CASES = {
    "holds nothing": ({}, CLAIMED, [A], ["GRANTED"]),
    "holds the same by another request": (
        {"held": holding(A)}, CLAIMED, [A], [CHANGED, "ADOPTING", "GRANTED"],
    ),
    "holds others by another request": ({"held": holding(B)}, CONFLICT, [B], [CHANGED, "GIVEN_UP"]),
    "holds those of an earlier claim": (
        {"held": holding(B), "known": EARLIER}, CLAIMED, [A], [CHANGED, "REPLACING", "GRANTED"],
    ),
    "an earlier claim's generation has passed": (
        {"held": holding(B, generation=2), "known": EARLIER}, CONFLICT, [B], [CHANGED, "GIVEN_UP"],
    ),
    "adopted, response lost": (
        {"writes": ["ok", "unanswered"], "held": holding(A)}, CLAIMED, [A],
        [CHANGED, "ADOPTING", "OUTCOME_UNKNOWN", "GRANTED"],
    ),
    "an earlier claim of another process may yet write the same": (
        {"known": known_elsewhere(OwnWrite(holding(A)))}, CLAIMED, [A],
        ["VERIFYING", "REPLACING", "GRANTED"],
    ),
    "an earlier claim of this process may yet write the same": (
        {"known": ConsumerState(late_until=1e9, earlier=(OwnWrite(holding(A)),))}, CLAIMED, [A],
        ["VERIFYING", "GRANTED"],
    ),
    "evacuated, holds the source": (
        {"held": holding(B), "source": {B}}, CLAIMED, [A, B], [CHANGED, "KEEPING_SOURCE", "GRANTED"],
    ),
    "evacuated, holds the candidate already": (
        {"held": holding(A, B), "source": {B}}, CLAIMED, [A, B], [CHANGED, "ADOPTING", "GRANTED"],
    ),
    "evacuated, holds something on another host": (
        {"held": holding(B, C), "source": {B}}, CONFLICT, [B, C], [CHANGED, "GIVEN_UP"],
    ),
    "evacuated, holds the candidate and something on another host": (
        {"held": holding(A, B, C), "source": {B}}, CONFLICT, [A, B, C], [CHANGED, "GIVEN_UP"],
    ),
    "evacuated, keeps what it holds on two hosts": (
        {"held": holding(B, C), "source": {B, C}}, CLAIMED, [A, B, C],
        [CHANGED, "KEEPING_SOURCE", "GRANTED"],
    ),
    "evacuated, uses shared disks": (
        {"held": holding(B, "disks"), "source": {B}}, CLAIMED, [A, B, "disks"],
        [CHANGED, "KEEPING_SOURCE", "GRANTED"],
    ),
    "evacuated, holds the candidate by an earlier claim": (
        {
            "held": holding(A, B, generation=2),
            "source": {B},
            "known": ConsumerState(earlier=(OwnWrite(holding(A, B, generation=2), holding(B)),)),
        },
        CLAIMED, [A, B], [CHANGED, "KEEPING_SOURCE", "GRANTED"],
    ),
    "evacuated, a lost write": (
        {"writes": ["lost"], "held": holding(B), "source": {B}}, CLAIMED, [A, B],
        ["OUTCOME_UNKNOWN", "KEEPING_SOURCE", "GRANTED"],
    ),
    "a lost write for a new consumer": (
        {"writes": ["lost"]}, CLAIMED, [A],
        ["OUTCOME_UNKNOWN", "RESENDING", "VERIFYING", "REWRITING", "GRANTED"],
    ),
    "redelivered": ({"redelivered": True}, CLAIMED, [A], ["REWRITING", "GRANTED"]),
    "changes all the time": (
        {"writes": ["conflict"] * 99}, CONFLICT, [], [*[CHANGED, "FIRST_WRITE"] * 4, CHANGED, "GIVEN_UP"],
    ),
    "cannot be read": (
        {"writes": ["conflict"], "reads": ["silent"]}, UNAVAILABLE, [], [CHANGED, "GIVEN_UP"],
    ),
    "full host": ({"where": "f011"}, Outcome.REFUSED, [], ["NEXT_HOST"]),
    "missing provider": ({"where": GONE}, Outcome.GONE, [], ["NEXT_HOST"]),
    "concurrent updates": (
        {"writes": ["concurrent"] * 4}, Outcome.CONTENDED, [], [*["BACKING_OFF"] * 3, "NEXT_HOST"],
    ),
    "credentials refused": ({"writes": ["403"]}, UNAVAILABLE, [], ["GIVEN_UP"]),
    "not sent": ({"writes": ["unreachable"]}, UNAVAILABLE, [], ["GIVEN_UP"]),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "outcome", "held", "path"), CASES.values(), ids=CASES)
def test_a_claim(fields, outcome, held, path):
    world = World(**fields).run()
    assert (world.result.outcome, world.path) == (outcome, path)
    assert world.held.allocations == (candidate(*held).allocations if held else {})
    if world.result.claimed:
        assert world.result.made.allocations == world.held.allocations
        assert world.result.made.generation == world.held.generation


@given(
    st.lists(st.one_of(FAULTS, st.sampled_from(["conflict", "refused", "html"])), max_size=10),
    st.lists(READS, max_size=12),
    st.sampled_from([None, holding(A), holding(B), holding("", generation=0)]),
    st.sampled_from([(), {B}]),
)
def test_under_random_faults_a_claim_ends_and_holds_what_it_says(writes, reads, held, source):
    world = World(writes, reads, held, source).run()
    steps = [event.next_step for event in world.result.events]
    assert [step in ENDS for step in steps] == [*[False] * (len(steps) - 1), True]
    world.api.settle()
    if world.result.claimed:
        assert world.result.made.allocations == world.held.allocations


def test_events_name_try_host_status_cause_and_next_step():
    events = World(["concurrent", "lost", "500", "ok"]).run().result.events
    assert [(event.attempt, event.host, event.status, event.next_step.name) for event in events] == [
        (1, "host 1", 409, "BACKING_OFF"),
        (2, "host 1", None, "OUTCOME_UNKNOWN"),
        (2, "host 1", None, "RESENDING"),
        (3, "host 1", 500, "OUTCOME_UNKNOWN"),
        (3, "host 1", None, "RESENDING"),
        (4, "host 1", 204, "VERIFYING"),
        (4, "host 1", None, "REWRITING"),
        (5, "host 1", 204, "GRANTED"),
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


LOST = {
    "granted at once": ({}, 0),
    "granted after a lost response": ({"writes": ["unanswered"]}, 0),
    "granted after a lost request, which may come later": ({"writes": ["lost"]}, 1),
    "refused": ({"where": "f011"}, 0),
    "lost, and nothing else gets through": ({"writes": ["lost"] * 999}, None),
}


@pytest.mark.parametrize(("fields", "lost"), LOST.values(), ids=LOST)
def test_what_may_yet_come_is_known(fields, lost):
    world = World(policy=PROMPT.but(reads_after_reset=(0.0, 1.0)), **fields).run()
    assert world.result.unsure == (lost != 0)
    assert len(world.result.lost) == (world.api.calls.count("put") if lost is None else lost)


def test_nothing_is_sent_after_a_refusal():
    world = World().run(lambda: Refusal(Outcome.STOPPING, "it stops"))
    assert (world.result.outcome, world.result.reason, world.api.calls) == (Outcome.STOPPING, "it stops", [])


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
    assert world.path == [CHANGED, "KEEPING_SOURCE", CHANGED, "FIRST_WRITE", "GRANTED"]
    assert world.result.previous is None
    assert world.result.made.allocations == candidate(A).allocations
