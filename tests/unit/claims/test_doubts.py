"""What a bad day left in doubt: it is settled, however long that takes."""

import time

import pytest

from scheduler.claims import doubts as doubts_module
from scheduler.claims.doubts import (
    LATE_WRITE_WINDOW,
    NOTHING_KEPT,
    PATIENCE,
    TOGETHER,
    Answered,
    Doubts,
    Kept,
)
from scheduler.request.instance_state import InstanceState
from tests.support.idle_loop import IdleLoop
from tests.unit.claims.builders import OWNER, UUID, A, B, SleepClock, candidate, holding, writer_of
from tests.unit.claims.fake_consumers import FakeConsumers

ANSWERED = {UUID: Answered("host a", candidate(A).allocations)}

WAITING, PLACED, GIVEN_UP = InstanceState.WAITING, InstanceState.PLACED, InstanceState.GIVEN_UP
MOVING = InstanceState.MOVING
DELETED, MISSING, UNKNOWN = InstanceState.DELETED, InstanceState.MISSING, InstanceState.UNKNOWN


class World:
    """Doubts that a test works through, with Placement and nova behind it."""

    def __init__(self, state=GIVEN_UP, held=None, api=None, clock=None):
        self.clock = clock or SleepClock()
        self.api = api or FakeConsumers({A: 1000, B: 1})
        self.state = state
        if held is not None:
            self.api.consumers[UUID] = held
        writer = writer_of(self.api, timing=self.clock.timing)
        self.nodes, self.coming, self.loop = {}, {UUID: "host a"}, IdleLoop()
        self.doubts = Doubts(
            writer,
            self.ask_nova,
            lambda hosts: [self.nodes[host] for host in hosts if host in self.nodes],
            lambda hosts: [uuid for uuid in hosts if hosts[uuid] == self.coming.get(uuid)],
            self.loop.take,
        )

    def ask_nova(self, uuids, hosts):
        return self.states_of(uuids, hosts)

    def states_of(self, uuids, _hosts):
        return dict.fromkeys(uuids, self.state)

    def work(self, seconds=0.0):
        """Let time pass, and do a round."""
        self.clock.now += seconds
        self.loop.work()

    @property
    def held(self):
        return sorted(self.api.shown(UUID).allocations)


STATES = {GIVEN_UP: [], DELETED: [], MISSING: [A], PLACED: [A], WAITING: [A], MOVING: [A], UNKNOWN: [A]}


NOTES = {
    "a lost write": lambda doubts: doubts.note_unknown([UUID], OWNER),
    "what another process wrote for a build": lambda doubts: doubts.note_given_up([UUID]),
}


@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_nova_decides_what_becomes_of(note, state):
    world = World(state=state, held=holding(A, generation=7))
    note(world.doubts)
    assert world.doubts.unsettled == 0
    world.work(LATE_WRITE_WINDOW)
    assert world.held == STATES[state]
    assert len(world.doubts) == world.doubts.unsettled == (state in {WAITING, MOVING, UNKNOWN})


def test_nothing_is_looked_at_while_a_late_write_may_come():
    world = World(held=holding(A))
    world.doubts.note_unknown([UUID], OWNER)
    world.work(LATE_WRITE_WINDOW - 1.0)
    assert world.api.calls == []


def test_a_waiting_instance_is_looked_at_once_no_caller_can_wait():
    world = World(state=WAITING, held=holding(A))
    world.doubts.note_unknown([UUID], OWNER)
    world.work(PATIENCE + 1.0)
    assert world.held == []


def test_a_moved_instance_keeps_what_it_holds_for_as_long_as_that_lasts():
    """A resize has its task state while the disk is copied to the host that another run replied with."""
    world = World(state=MOVING, held=holding(A))
    world.doubts.note_unknown([UUID], OWNER)
    for _ in range(100):
        world.work(600.0)
    assert world.held == [A]
    world.state = GIVEN_UP
    world.work(600.0)
    assert world.held == []


def test_a_build_that_is_given_up_while_it_is_in_doubt_has_no_hidden_rows_left():
    world = World(held=holding(A))
    world.api.hide(UUID)
    world.doubts.note_unknown([UUID], OWNER)
    world.doubts.note_given_up([UUID])
    world.work(LATE_WRITE_WINDOW)
    assert not world.api.hidden


def test_a_given_up_build_that_holds_nothing_costs_one_read_and_no_question_to_nova():
    world = World()
    world.states_of = None
    world.doubts.note_given_up([UUID])
    for _ in range(3):
        world.work(LATE_WRITE_WINDOW)
    assert world.api.calls == ["read"]


def test_an_evacuated_instance_keeps_its_source_and_what_that_shares():
    world = World()
    world.api.have({"disks": 1, f"{B}-child": 1})
    held = holding(A, B, "disks", f"{B}-child")
    held.allocations["disks"]["resources"] = {"DISK_GB": 1}
    world.api.consumers[UUID] = held
    world.doubts.note_unknown([UUID], OWNER, Kept(frozenset({B}), frozenset({"host b"})))
    world.work(LATE_WRITE_WINDOW)
    assert world.held == [B, f"{B}-child", "disks"]


def test_an_evacuated_instance_keeps_its_source_whose_cell_was_read_after_the_entry_was_made():
    world = World(held=holding(A, B))
    world.doubts.note_unknown([UUID], OWNER, Kept(hosts=frozenset({"host b"})))
    world.nodes = {"host b": B}
    world.work(LATE_WRITE_WINDOW)
    assert world.held == [B]


def test_rows_that_are_hidden_are_released():
    world = World(held=holding(A))
    world.api.hide(UUID)
    world.doubts.note_unknown([UUID], OWNER)
    world.work(LATE_WRITE_WINDOW)
    assert (world.held, len(world.doubts)) == ([], 0)
    assert not world.api.hidden


def test_what_a_deleted_instance_held_is_never_left_for_others_to_release():
    """nova-compute releases every minute what a deleted instance holds: it must not be written again for ever."""
    world = World(state=DELETED)
    world.doubts.note_unknown([UUID], OWNER)
    left = []
    for _ in range(100):
        world.work(LATE_WRITE_WINDOW)
        left += world.held
        world.api.consumers.pop(UUID, None)
    assert (left, len(world.doubts)) == ([], 0)


def test_an_instance_that_is_deleted_while_it_is_looked_at_keeps_nothing():
    world = World(state=PLACED)
    world.doubts.note_unknown([UUID], OWNER)
    world.doubts.note_answered(ANSWERED)
    world.work(LATE_WRITE_WINDOW)
    world.state = DELETED  # after its state was read, before it was written
    assert world.held == [A]
    world.work(60.0)
    assert (world.held, len(world.doubts)) == ([], 0)


def test_what_was_answered_and_does_not_show_is_written_once_more():
    world = World(state=PLACED, held=holding(A))
    world.api.hide(UUID)
    world.doubts.note_unknown([UUID], OWNER)
    world.doubts.note_answered(ANSWERED)
    world.work(LATE_WRITE_WINDOW)
    assert world.held == [A]
    assert world.api.consumers[UUID].owner == OWNER


def test_a_write_that_was_to_show_what_is_hidden_may_come_late_itself():
    world = World(state=PLACED)
    world.doubts.note_unknown([UUID], OWNER)
    world.doubts.note_answered(ANSWERED)
    world.api.write_faults = ["late 999"]
    world.work(LATE_WRITE_WINDOW)
    world.state = DELETED
    world.work(LATE_WRITE_WINDOW - 1.0)
    world.api.settle()
    world.work(LATE_WRITE_WINDOW)
    assert (world.held, len(world.doubts)) == ([], 0)


LEFT = {
    "an instance that was moved elsewhere": (PLACED, {UUID: "host b"}),
    "one that is on no host, as one that is shelved and offloaded": (GIVEN_UP, {}),
    "one that was deleted": (DELETED, {}),
}


@pytest.mark.parametrize(("state", "coming"), LEFT.values(), ids=LEFT)
def test_a_claim_is_written_again_only_for_the_host_that_nova_has_the_instance_on(state, coming):
    world = World(state=state)
    world.coming = coming
    world.doubts.note_unknown([UUID], OWNER)
    world.doubts.note_answered(ANSWERED)
    held = []
    for _ in range(10):
        world.work(LATE_WRITE_WINDOW)
        held += world.held
    assert (held, len(world.doubts)) == ([], 0)


REFUSED = {"its host is full": {A: 0}, "its host has no provider any more": {}}


@pytest.mark.parametrize("capacity", REFUSED.values(), ids=REFUSED)
def test_an_instance_that_was_given_up_is_settled_though_its_claim_would_be_refused(capacity):
    world = World(api=FakeConsumers(capacity))
    world.doubts.note_unknown([UUID], OWNER)
    world.work(LATE_WRITE_WINDOW)
    assert (world.held, len(world.doubts)) == ([], 0)


def test_a_claim_that_can_never_be_granted_is_given_up(caplog):
    world = World(state=PLACED, api=FakeConsumers({}))
    world.doubts.note_unknown([UUID], OWNER)
    world.doubts.note_answered(ANSWERED)
    world.work(LATE_WRITE_WINDOW)
    assert len(world.doubts) == 0
    assert f"Instance {UUID} is on host host a without allocations" in caplog.text


def test_a_claim_that_is_refused_for_want_of_room_is_written_once_there_is_some():
    world = World(state=PLACED, api=FakeConsumers({A: 0}))
    world.doubts.note_unknown([UUID], OWNER)
    world.doubts.note_answered(ANSWERED)
    world.work(LATE_WRITE_WINDOW)
    world.api.have({A: 1})
    world.work(600.0)
    assert world.held == [A]


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_clock_that_is_set_releases_nothing_and_keeps_nothing(step, monkeypatch):
    world = World(state=WAITING, held=holding(A))
    world.doubts.note_unknown([UUID], OWNER)
    world.work(LATE_WRITE_WINDOW)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + step)
    world.work(PATIENCE - LATE_WRITE_WINDOW - 1.0)
    assert world.held == [A]
    world.work(300.0)
    assert world.held == []


def test_a_claim_for_a_move_that_begins_while_nova_is_asked_is_not_released():
    """An instance that was given up, as one whose unshelving has failed, may be unshelved once more."""
    world = World()
    world.doubts.note_unknown([UUID], OWNER)

    def states(uuids, _ignored):
        world.api.consumers[UUID] = holding(A)
        return dict.fromkeys(uuids, GIVEN_UP)

    world.states_of = states
    world.work(LATE_WRITE_WINDOW)
    assert world.held == [A]


@pytest.mark.parametrize("answered", [True, False])
def test_what_an_instance_holds_that_nova_does_not_know_is_left_to_the_audit(caplog, answered):
    """The scheduler may read the wrong database."""
    world = World(state=MISSING, held=holding(A))
    world.doubts.note_unknown([UUID], OWNER)
    if answered:
        world.doubts.note_answered(ANSWERED)
    world.work(LATE_WRITE_WINDOW)
    assert world.held == [A]
    assert len(world.doubts) == 0
    assert f"Instance {UUID} holds allocations, and nova does not know it" in caplog.text


def test_an_error_of_one_entry_keeps_none_of_the_others_from_being_settled(caplog):
    world = World()
    others = [f"i{number}" for number in range(3)]
    world.api.consumers.update({uuid: holding(A) for uuid in others})
    world.doubts.note_unknown(["bad", *others], OWNER)
    read = world.api.get

    def fails(path, *version_and_context):
        if path.endswith("/bad"):
            raise TypeError("what is this?")
        return read(path, *version_and_context)

    world.api.get = fails
    for _ in range(3):
        world.work(LATE_WRITE_WINDOW)
    assert not world.api.consumers
    assert len(world.doubts) == 1
    assert [
        record.exc_info for record in caplog.records if "Cannot settle instance bad" in record.message
    ] == [None]
    world.api.get = read
    world.work(600.0)
    assert len(world.doubts) == 0


def test_what_cannot_be_released_is_tried_for_ever():
    world = World(held=holding(A))
    world.doubts.note_unknown([UUID], OWNER)
    world.api.write_faults = ["unreachable"] * 10_000
    for _ in range(1000):
        world.work(600.0)
    assert len(world.doubts) == 1
    world.api.write_faults = []
    world.work(600.0)
    assert world.held == []


def test_many_are_released_in_batches():
    world = World()
    uuids = [f"i{number}" for number in range(2 * TOGETHER + 1)]
    world.api.consumers.update({uuid: holding(A) for uuid in uuids})
    world.doubts.note_unknown(uuids, OWNER)
    world.work(LATE_WRITE_WINDOW)
    assert not world.api.consumers
    assert (world.api.calls.count("post"), world.api.calls.count("put")) == (2, 1)


def test_too_many_doubts_are_logged_once(monkeypatch, caplog):
    monkeypatch.setattr(doubts_module, "MOST", 2)
    world = World(state=WAITING)
    world.doubts.note_unknown(["a", "b", "c", "d"], OWNER)
    assert len(world.doubts) == 2
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_nothing_is_kept_for_an_instance_that_holds_nothing():
    world = World(state=DELETED)
    world.doubts.note_unknown([UUID], OWNER, NOTHING_KEPT)
    world.work(LATE_WRITE_WINDOW)
    assert len(world.doubts) == 0
