"""The traps of the model of Placement, and its connection; what it answers is compared with Placement's elsewhere."""

import orjson
import pytest

from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent, PlacementUnanswered, PlacementUnreachable
from scheduler.placement.outcomes import Outcome, outcome_of
from scheduler.placement.session import Timeouts
from tools.simulation.http import FAULTS, Adapter, Faults, Server, Weather
from tools.simulation.placement import Placement, Provider
from tools.simulation.runtime import Runtime

ROOM = {"VCPU": {"total": 2}}


def body(hosts, generation=None):
    allocations = {host: {"resources": {"VCPU": 1}} for host in hosts}
    return {
        "allocations": allocations,
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": generation,
    }


def write(placement, uuid, *hosts, generation=None):
    return placement.write("PUT", f"/allocations/{uuid}", orjson.dumps(body(hosts, generation)))


def finish(placement, one, start=0):
    for moment in placement.moments[start:]:
        if one.answer is None:
            moment(one)
    return one.answer.status


@pytest.fixture
def placement():
    return Placement([Provider(name, ROOM) for name in ("a", "b")])


def test_a_missing_provider_leaves_the_record_of_its_consumer(placement):
    assert finish(placement, write(placement, "i", "nowhere")) == 400
    conflict = write(placement, "i", "a")
    assert finish(placement, conflict) == 409
    assert b"expected 0 but got None" in conflict.answer.body
    assert finish(placement, write(placement, "i", "a", generation=0)) == 204


def test_the_loser_of_two_writes_for_a_new_consumer_can_hide_the_winner_s_rows(placement):
    loser, winner = write(placement, "i", "a"), write(placement, "i", "b")
    placement.look(loser)
    placement.look(winner)
    placement.make_records(loser)
    assert finish(placement, winner, 1) == 204
    assert finish(placement, loser, 2) == 409
    assert b"Another thread" in loser.answer.body
    assert placement.held("i") == {"b": {"VCPU": 1}}
    assert placement.shown("i") == {}
    assert placement.delete("i").status == 404
    assert finish(placement, write(placement, "i", "b")) == 204
    assert placement.shown("i") == {"b": {"VCPU": 1}}


def test_the_other_order_loses_nothing(placement):
    first, second = write(placement, "i", "a"), write(placement, "i", "b")
    placement.look(first)
    placement.look(second)
    assert finish(placement, first, 1) == 204
    assert finish(placement, second, 1) == 204
    assert placement.shown("i") == {"b": {"VCPU": 1}}


def test_all_consumers_of_a_post_are_written_or_none(placement):
    bodies = {name: body(["a"]) for name in "ijk"}
    post = placement.write("POST", "/allocations", orjson.dumps(bodies))
    assert finish(placement, post) == 409
    assert not any(placement.held(name) for name in "ijk")
    assert not placement.consumers


# -- the connection ------------------------------------------------------------------------------------------


def ask(kind, action, *, seed=1, until=100.0):
    """Let the product's client act while every request meets one kind of fault; what came of it, and Placement."""
    result = []
    with Runtime(seed) as runtime:
        placement = Placement([Provider("a", ROOM)])
        server = Server(runtime, placement, seed, lambda _text: None)
        faults = Faults(Weather(1.0 if kind else 0.0, (kind,) if kind else ()), seed)
        client = PlacementClient(Adapter(runtime, server, faults, lambda _text: None), Timeouts(1, 3, 3))

        def work():
            try:
                result.append(action(client))
            except PlacementSilent as error:
                result.append(error)

        runtime.spawn(runtime.process("p"), "t", work)
        runtime.run(until)
    return result[0], placement.held("i")


def put(client):
    return client.write("PUT", "/allocations/i", "1.36", None, orjson.dumps(body(["a"])))


HELD = {"a": {"VCPU": 1}}


def test_without_faults_a_claim_is_granted():
    reply, held = ask("", put)
    assert (outcome_of(reply), held) == (Outcome.DONE, HELD)


@pytest.mark.parametrize("kind", ["refused", "keystone"])
def test_what_was_not_sent_is_told_apart(kind):
    error, held = ask(kind, put)
    assert isinstance(error, PlacementUnreachable)
    assert held == {}


@pytest.mark.parametrize(("kind", "done"), [("reset before", {}), ("reset after", HELD)])
def test_a_broken_connection_leaves_the_outcome_open(kind, done):
    error, held = ask(kind, put)
    assert isinstance(error, PlacementUnanswered)
    assert not error.timed_out
    assert held == done


def test_a_server_that_hangs_does_nothing():
    error, held = ask("hang", put)
    assert isinstance(error, PlacementUnanswered)
    assert error.timed_out
    assert held == {}


def test_a_slow_server_goes_on_after_the_client_s_timeout():
    outcomes = [ask("slow", put, seed=seed) for seed in range(30)]
    late = [error for error, _ in outcomes if isinstance(error, PlacementUnanswered)]
    assert 0 < len(late) < 30
    assert all(error.timed_out for error in late)
    assert all(held == HELD for _, held in outcomes)


@pytest.mark.parametrize(
    ("kind", "verdict", "done"),
    [
        ("500 before", Outcome.UNKNOWN, {}),
        ("500 after", Outcome.UNKNOWN, HELD),
        ("html before", Outcome.UNKNOWN, {}),
        ("html after", Outcome.UNKNOWN, HELD),
        ("garbage", Outcome.UNKNOWN, HELD),
        ("concurrent", Outcome.CONTENDED, {}),
        ("denied", Outcome.DENIED, {}),
    ],
)
def test_answers_mean_what_they_are_to_mean(kind, verdict, done):
    reply, held = ask(kind, put)
    assert (outcome_of(reply), held) == (verdict, done)


def test_every_fault_is_known():
    assert set(FAULTS) == {
        "refused", "keystone", "reset before", "reset after", "slow", "hang", "500 before", "500 after", "html before",
        "html after", "garbage", "concurrent", "denied",
    }  # fmt: skip
