"""What a given-up build holds is released, whoever wrote it; and nothing else."""

import pytest

from scheduler.claims.sweep import MOST, Sweep
from scheduler.request.instance_state import InstanceState
from tests.unit.claims.builders import UUID, A, SleepClock, holding, writer_of
from tests.unit.claims.fake_consumers import FakeConsumers

GIVEN_UP = InstanceState.GIVEN_UP


class World:
    """A sweep, with Placement and nova behind it."""

    def __init__(self, *builds):
        self.clock = SleepClock()
        self.api = FakeConsumers({A: 1000})
        self.api.consumers.update({uuid: holding(A, generation=7) for uuid in builds})
        self.found, self.states = [list(builds)], {}
        writer = writer_of(self.api, timing=self.clock.timing)
        self.sweep = Sweep(writer, self.states_of, lambda: self.found.pop(0) if self.found else [])

    def states_of(self, uuids, _hosts):
        return {uuid: self.states.get(uuid, GIVEN_UP) for uuid in uuids}

    def run(self, rounds=1):
        for _ in range(rounds):
            self.sweep.run()

    @property
    def held(self):
        return sorted(self.api.consumers)


def test_what_a_build_holds_is_released_once_no_late_write_is_expected():
    world = World(UUID)
    world.run()
    assert world.held == [UUID]
    world.run()
    assert world.held == []


@pytest.mark.parametrize("state", [one for one in InstanceState if one is not GIVEN_UP])
def test_what_nova_has_not_given_up_keeps_what_it_holds(state):
    """The database of cell0 may be that of a cell as well."""
    world = World(UUID)
    world.states[UUID] = state
    world.run(2)
    assert world.held == [UUID]
    world.states[UUID] = GIVEN_UP
    world.run()
    assert world.held == ([] if state is InstanceState.UNKNOWN else [UUID])


def test_what_is_written_while_nova_is_asked_is_not_released():
    world = World(UUID)
    ask = world.states_of

    def states_of(uuids, hosts):
        world.api.consumers[UUID] = holding(A, generation=8)
        return ask(uuids, hosts)

    world.sweep._states_of = states_of
    world.run(2)
    assert world.api.consumers[UUID].generation == 8


FAILURES = {"no answer to a read": ("read_faults", "silent"), "to a write": ("write_faults", "unreachable")}


@pytest.mark.parametrize(("faults", "fault"), FAILURES.values(), ids=FAILURES)
def test_what_cannot_be_released_is_released_in_a_later_round(faults, fault):
    world = World("a", "b")
    getattr(world.api, faults).extend([fault] * 50)
    world.run(2)
    assert world.held == ["a", "b"]
    setattr(world.api, faults, [])
    world.run()
    assert world.held == []


def test_a_round_has_a_bound_and_no_build_keeps_the_others_waiting():
    builds = [f"i{number:03}" for number in range(2 * MOST + 1)]
    world = World(*builds)
    world.states[builds[0]] = InstanceState.UNKNOWN
    world.run(2)
    assert world.held == [builds[0], *builds[MOST:]]
    world.run(2)
    assert world.held == [builds[0]]


def test_a_build_that_holds_nothing_is_looked_at_once():
    world = World()
    world.found = [[UUID]]
    world.run(5)
    assert world.api.calls == ["read"]


def test_a_scheduler_that_is_not_the_first_releases_nothing():
    world = World(UUID)
    world.found.append(None)
    world.run(5)
    assert world.held == [UUID]
