"""What a request for several instances is answered with that a scheduler of another host, or of this one, had claimed."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from scheduler.placement.allocations import ConsumerAllocations
from scheduler.claims.fence import HeldClaim
from scheduler.placement.claim_events import ClaimState
from scheduler.claims.result import Outcome
from tests.unit.claims.builders import FAULTS, READS, A, B, Host, candidate, make_request
from tests.unit.claims.fake_consumers import FakeConsumers

UUIDS = ["i0", "i1", "i2"]
PLACES = dict(zip(UUIDS, [A, B, A], strict=True))

# One read at a time, so that calls have an order.
POLICY = {"reads_at_once": 1}


class Killed(BaseException):
    """The process ends here."""


def requests_for(uuids=UUIDS, **changes):
    told = {"message_id": "m1", "alone": False, **changes}
    return [replace(make_request(uuid, PLACES[uuid]), **told) for uuid in uuids]


class World:
    """Two hosts with journals of their own. A process of the one has claimed for all instances, and died."""

    def __init__(self, directory):
        self.api = FakeConsumers({A: 9, B: 9})
        self.one, self.other = Host(directory / "one", self.api), Host(directory / "other", self.api)
        claimer, page, _ = self.one.start(**POLICY)
        assert all(result.claimed for result in claimer.claim_many(requests_for()).values())
        page.close()
        self.api.calls.clear()

    def confirm(self, claimer, uuids=UUIDS, then=lambda: None, **changes):
        """Confirm what the instances hold; ``then`` happens right after it was read."""
        held = claimer.get_held_many(uuids)
        then()
        self.api.calls.clear()
        return claimer.confirm_many(
            [HeldClaim(one, held[one.uuid]) for one in requests_for(uuids, **changes)]
        )

    def killed(self, *_arguments):
        """A fault of a write: its process is killed before Placement has it."""
        raise Killed

    def give_back(self, host=None):
        """The successor of the dead process gives back what is left of its claims."""
        claimer, page, _ = (host or self.one).start(**POLICY)
        assert claimer.drain(5) == []
        page.close()

    @property
    def generations(self):
        return [self.api.get_allocations(uuid).generation for uuid in UUIDS]

    @property
    def holds(self):
        return {uuid: held.allocations for uuid, held in self.api.consumers.items() if held.allocations}


ALL = {uuid: candidate(where).allocations for uuid, where in PLACES.items()}


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def outcomes(results):
    return {result.outcome for result in results.values()}


READ_ALL = ["read"] * 3
CASES = {
    "accepted": ([], [], Outcome.CLAIMED, ["post"], 2),
    "concurrent updates": (["concurrent"] * 3, [], Outcome.CLAIMED, ["post"] * 4, 2),
    "too many of them": (["concurrent"] * 4, [], Outcome.CONFLICT, ["post"] * 4, 1),
    "response lost": (["unanswered"], [], Outcome.CLAIMED, ["post", "read", *READ_ALL, "post"], 3),
    "request lost": (["lost"], [], Outcome.CLAIMED, ["post", *["read"] * 3, *READ_ALL, "post"], 2),
    "in effect late": (["late 2"], [], Outcome.CLAIMED, ["post", *["read"] * 2, *READ_ALL, "post"], 3),
    "in effect after it was read": (
        ["late 7"], [], Outcome.CLAIMED, ["post", *["read"] * 3, *READ_ALL, "post", *READ_ALL, "post"], 3,
    ),
    "error of the server": (["500 after"], [], Outcome.CLAIMED, ["post", "read", *READ_ALL, "post"], 3),
    "conflict, and nothing has changed": (["conflict"], [], Outcome.CLAIMED, ["post", *READ_ALL, "post"], 2),
    "conflicts again and again": (
        ["conflict"] * 5, [], Outcome.CONFLICT, [*["post", *READ_ALL] * 4, "post"], 1,
    ),
    "lost again and again": (
        ["lost"] * 3, [], Outcome.UNAVAILABLE, [*["post", *["read"] * 3, *READ_ALL] * 2, "post", *["read"] * 3], 1,
    ),
    "certainly not sent": (["unreachable"], [], Outcome.UNAVAILABLE, ["post"], 1),
    "denied": (["403"], [], Outcome.UNAVAILABLE, ["post"], 1),
    "refused": (["refused"], [], Outcome.REFUSED, ["post"], 1),
    "lost, and no read is answered": (
        ["lost"], ["silent"] * 3, Outcome.UNAVAILABLE, ["post", *["read"] * 3], 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("writes", "reads", "outcome", "calls", "generation"), CASES.values(), ids=CASES)
def test_all_instances_are_confirmed_in_one_request_or_none(world, writes, reads, outcome, calls, generation):
    claimer, _, _ = world.other.start(**POLICY)

    def begin_faults():
        world.api.write_faults, world.api.read_faults = list(writes), list(reads)

    results = world.confirm(claimer, then=begin_faults)
    assert (outcomes(results), world.api.calls) == ({outcome}, calls)
    assert world.generations == [generation] * 3
    world.give_back()
    assert world.holds == (ALL if outcome is Outcome.CLAIMED else {})


def test_nothing_is_confirmed_once_one_instance_was_given_back(world):
    """The successor of the dead process has begun to give its claims back."""
    claimer, page, _ = world.other.start(**POLICY)
    results = world.confirm(claimer, then=lambda: world.api.consumers.pop("i1"))
    assert outcomes(results) == {Outcome.CONFLICT}
    assert ["another instance" in results[uuid].reason for uuid in UUIDS] == [True, False, True]
    assert world.generations == [1, None, 1]
    world.give_back()
    assert (world.holds, claimer.pending_cleanups()) == ({}, 0)
    page.close()
    world.give_back(world.other)
    assert world.holds == {}


def test_what_was_confirmed_is_not_given_back_by_the_successor_of_whom_it_was_claimed_by(world):
    claimer, page, _ = world.other.start(**POLICY)
    results = world.confirm(claimer)
    assert all(result.adopted for result in results.values())
    world.give_back()
    claimer.release_many(results)  # its reply cannot be delivered: the first one may have been
    assert (world.holds, claimer.drain(5)) == (ALL, [])
    page.close()
    world.give_back(world.other)
    assert world.holds == ALL


def test_two_hosts_confirm_the_same_at_once(world, tmp_path):
    third, _, _ = Host(tmp_path / "third", world.api).start(**POLICY)
    claimer, _, _ = world.other.start(**POLICY)
    results = world.confirm(claimer, then=lambda: world.confirm(third))
    assert world.api.calls == ["post", *READ_ALL, "post"]
    assert (outcomes(results), world.generations) == ({Outcome.CLAIMED}, [3] * 3)
    steps = [event.next_step for event in results["i2"].events]
    assert steps == [ClaimState.CONSUMER_CHANGED, ClaimState.GRANTED]


@pytest.mark.parametrize("ending", ["answered", "not answered", "killed", "killed while it answers"])
def test_what_a_process_of_the_same_daemon_claimed_is_of_the_request_that_confirms_it(world, ending):
    claimer, page, _ = world.one.start(**POLICY)
    results = world.confirm(claimer)
    assert (outcomes(results), world.generations) == ({Outcome.CLAIMED}, [2] * 3)
    assert not any(result.adopted for result in results.values())
    if ending == "answered":
        claimer.confirm_claims(UUIDS)
    elif ending == "not answered":
        claimer.release_many(results)
    elif ending == "killed while it answers":
        page.messages.begin_reply("m1", failed=False)
    page.close()
    world.give_back()
    assert world.holds == (ALL if "answer" in ending and ending != "not answered" else {})


def test_what_was_confirmed_last_is_kept_although_two_processes_of_another_host_had_it(world):
    """The second process confirms what the first has claimed, and is killed too."""
    _, page, _ = second = world.one.start(**POLICY)
    world.confirm(second[0])
    page.close()
    claimer, _, _ = world.other.start(**POLICY)
    assert outcomes(world.confirm(claimer)) == {Outcome.CLAIMED}
    world.give_back()
    assert (world.holds, world.generations) == (ALL, [3] * 3)


def test_what_was_confirmed_is_not_taken_for_a_confirmation_that_was_recorded_and_not_carried_out(world):
    """The second process of the other host is killed while it sends it."""
    world.api._killed = world.killed
    claimer, page, _ = world.one.start(**POLICY)
    with pytest.raises(Killed):
        world.confirm(claimer, then=lambda: world.api.write_faults.append("killed"), redelivered=True)
    page.close()
    claimer, _, _ = world.other.start(**POLICY)
    assert outcomes(world.confirm(claimer, redelivered=True)) == {Outcome.CLAIMED}
    assert world.api.calls == ["post", "post"]
    world.give_back()
    assert (world.holds, world.generations) == (ALL, [3] * 3)


def test_what_another_host_confirmed_is_not_taken_for_a_confirmation_that_was_refused(world):
    """The second process of the one host is killed after the refusal."""
    other, _, _ = world.other.start(**POLICY)

    def confirmed_elsewhere():
        assert outcomes(world.confirm(other)) == {Outcome.CLAIMED}
        world.api.read_faults.append("silent")

    claimer, page, _ = world.one.start(**POLICY)
    results = world.confirm(claimer, then=confirmed_elsewhere)
    assert (outcomes(results), world.api.calls) == ({Outcome.UNAVAILABLE}, ["post", "read"])
    page.close()
    world.give_back()
    assert (world.holds, world.generations) == (ALL, [2] * 3)


def test_what_another_host_confirmed_is_not_taken_for_a_confirmation_that_was_not_sent(world):
    claimer, page, _ = world.one.start(**POLICY)
    results = world.confirm(claimer, then=lambda: world.api.write_faults.append("unreachable"))
    assert outcomes(results) == {Outcome.UNAVAILABLE}
    page.close()
    other, _, _ = world.other.start(**POLICY)
    assert outcomes(world.confirm(other)) == {Outcome.CLAIMED}
    world.give_back()
    assert (world.holds, world.generations) == (ALL, [2] * 3)


@pytest.mark.parametrize("same_daemon", [False, True])
@pytest.mark.parametrize(
    "faults", [["unreachable"], ["403"], ["concurrent"] * 9, ["lost"] * 9, ["unanswered"] * 9], ids=str
)
def test_what_was_written_once_stays_confirmed_whatever_becomes_of_the_second_write(
    world, same_daemon, faults
):
    claimer, page, _ = (world.one if same_daemon else world.other).start(**POLICY)
    results = world.confirm(
        claimer, then=lambda: world.api.write_faults.extend(["ok", *faults]), redelivered=True
    )
    assert (outcomes(results), world.holds) == ({Outcome.CLAIMED}, ALL)
    world.api.settle()
    claimer.release_many(results)
    assert claimer.drain(5) == []
    page.close()
    world.give_back()
    assert world.holds == ({} if same_daemon else ALL)


def test_nothing_is_confirmed_if_one_instance_is_deleted_between_both_writes(world):
    claimer, _, _ = world.one.start(**POLICY)
    write = world.api._concurrent

    def delete(*arguments):
        world.api.consumers.pop("i1", None)
        return write(*arguments)

    world.api._concurrent = delete
    results = world.confirm(
        claimer, then=lambda: world.api.write_faults.extend(["ok", "concurrent"]), redelivered=True
    )
    assert outcomes(results) == {Outcome.CONFLICT}
    assert (claimer.drain(5), world.holds) == ([], {})


def test_some_are_of_this_daemon_and_others_are_not(world):
    claimer, page, _ = world.other.start(**POLICY)
    world.api.consumers.pop("i2")
    claimer.claim(requests_for(["i2"])[0])
    page.close()
    claimer, _, _ = world.other.start(**POLICY)
    results = world.confirm(claimer)
    assert [results[uuid].adopted for uuid in UUIDS] == [True, True, False]
    claimer.release_many(results)
    assert set(world.holds) == {"i0", "i1"}


def test_many_are_confirmed_in_pieces_up_to_the_first_that_fails(world):
    for faults, outcome, calls in (
        ([], Outcome.CLAIMED, ["post", "put"]),
        (["unreachable"], Outcome.UNAVAILABLE, ["post"]),
    ):
        claimer, page, _ = world.other.start(**POLICY, confirm_size=2)
        world.api.write_faults = list(faults)
        results = world.confirm(claimer)
        assert (outcomes(results), world.api.calls) == ({outcome}, calls)
        assert list(results) == UUIDS
        page.close()


def test_nothing_is_confirmed_after_sigterm(world):
    claimer, _, _ = world.other.start(**POLICY)
    results = world.confirm(claimer, then=claimer.stop_claiming)
    assert (outcomes(results), world.api.calls) == ({Outcome.STOPPING}, [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(st.lists(FAULTS, max_size=6), st.lists(READS, max_size=9), st.booleans(), st.booleans(), st.booleans())
def test_under_random_faults_all_or_none_are_confirmed(
    tmp_path_factory, writes, reads, same_daemon, release, redelivered
):
    world = World(tmp_path_factory.mktemp("world"))
    host = world.one if same_daemon else world.other
    claimer, page, _ = host.start(**POLICY)

    def begin_faults():
        world.api.write_faults, world.api.read_faults = list(writes), list(reads)

    results = world.confirm(claimer, then=begin_faults, redelivered=redelivered)
    (outcome,) = outcomes(results)
    world.api.settle()
    if release:
        claimer.release_many(results)
    elif outcome is Outcome.CLAIMED:
        claimer.confirm_claims(UUIDS)
    assert claimer.drain(5) == []
    page.close()
    world.give_back()
    kept = outcome is Outcome.CLAIMED and not (release and same_daemon)
    if same_daemon:
        assert world.holds == (ALL if kept else {})
    else:
        assert world.holds in ((ALL,) if kept else (ALL, {}))


# -- reading what instances hold -----------------------------------------------------------------------------


SOMETHING = ConsumerAllocations(candidate(A).allocations, 1)
