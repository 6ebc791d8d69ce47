"""What conductors and computes write to Placement, and what becomes of it."""

import json

import pytest

from conductor_client.claims import Allocations
from scheduler import errors
from scheduler.placement.allocations import Owner
from tests.unit.claims.builders import SleepClock, holding, writer_of
from tests.unit.claims.fake_consumers import FakeConsumers
from tests.unit.conductor_client.doubles import make_selection, make_spec


class World:
    """Allocations, with Placement behind them."""

    def __init__(self, faults=(), reads=(), **held):
        self.selection = make_selection("a")
        self.chosen = self.selection.compute_node_uuid
        capacity = {self.chosen: 1, "old": 9, "x": 9, "y": 9}
        self.api = FakeConsumers(capacity, dict(held), [*faults], [*reads])
        self.allocations = Allocations(writer_of(self.api, timing=SleepClock().timing))

    def claim(self):
        return self.allocations.claim("i", self.selection, make_spec())

    @property
    def held(self):
        return {uuid: sorted(one.allocations) for uuid, one in self.api.consumers.items() if one.allocations}


def test_a_claim_gives_what_the_selection_says():
    world = World()
    assert world.claim()
    (held,) = world.api.consumers.values()
    assert held.allocations == json.loads(world.selection.allocation_request)["allocations"]
    assert held.owner == Owner("p", "u")


def test_what_is_held_already_is_kept():
    world = World(i=holding("old", generation=7))
    assert world.claim()
    assert world.held == {"i": sorted(["old", world.chosen])}


@pytest.mark.parametrize("text", ["", "null", None])
def test_nothing_to_claim_needs_no_request(text):
    world = World()
    world.selection.allocation_request = text
    assert world.claim()
    assert not world.api.calls


FAULTS = {
    "carried out": ([], True),
    "full": (["refused"], False),
    "a race for the provider": (["concurrent"], True),
    "races without an end": (["concurrent"] * 20, False),
    "the answer is lost": (["unanswered"], True),
    "an answer of a proxy": (["html"], True),
    "credentials are refused": (["403"], False),
}


@pytest.mark.parametrize(("faults", "claimed"), FAULTS.values(), ids=FAULTS)
def test_answers_of_placement(faults, claimed):
    world = World(faults)
    assert world.claim() is claimed
    assert world.held == ({"i": [world.chosen]} if claimed else {})


def test_a_consumer_that_changed_is_an_error():
    world = World(i=holding("old", generation=7))
    read = world.api.get

    def read_and_change(*asked):
        held = read(*asked)
        world.api.consumers["i"] = holding("x", generation=8)
        return held

    world.api.get = read_and_change
    with pytest.raises(errors.AllocationUpdateFailed):
        world.claim()


def test_what_cannot_be_read_is_not_claimed():
    assert World(reads=["silent"]).claim() is False


@pytest.mark.parametrize("replaced", [{}, {"m": holding("y", generation=3)}])
def test_a_move_is_one_request_for_both_consumers(replaced):
    world = World(i=holding("old", "x", generation=7), **replaced)
    assert world.allocations.move("i", "m")
    assert world.held == {"m": ["old", "x"]}
    assert world.api.calls.count("post") == 1


def test_there_is_nothing_to_move():
    assert not World().allocations.move("i", "m")


OPERATIONS = {
    "move": (lambda one: one.move("i", "m"), {"m": ["old", "x"]}),
    "drop": (lambda one: one.drop("i", "old"), {"i": ["x"]}),
    "remove": (lambda one: one.remove("i"), {}),
}


@pytest.mark.parametrize(("operation", "after"), OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize(("fault", "done"), [("ok", True), ("concurrent", True), ("403", False)])
def test_what_was_not_done_is_told(operation, after, fault, done):
    world = World([fault], i=holding("old", "x", generation=7))
    assert operation(world.allocations) is done
    assert world.held == (after if done else {"i": ["old", "x"]})


@pytest.mark.parametrize("operation", [one for one, _ in OPERATIONS.values()], ids=OPERATIONS)
def test_a_placement_that_is_away_changes_nothing(operation):
    world = World(reads=["silent"], i=holding("old", "x", generation=7))
    assert operation(world.allocations) is False
    assert world.held == {"i": ["old", "x"]}


def test_nothing_is_left_to_remove():
    assert World().allocations.remove("i")


def test_a_removal_takes_what_was_written_meanwhile():
    world = World(i=holding("old", generation=7))
    read, changes = world.api.get, [8, 9]

    def read_and_change(*asked):
        held = read(*asked)
        if changes:
            world.api.consumers["i"] = holding("x", generation=changes.pop(0))
        return held

    world.api.get = read_and_change
    assert world.allocations.remove("i")
    assert world.held == {}
