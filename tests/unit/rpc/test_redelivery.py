"""What becomes of a redelivered call while another process runs it."""

import pytest

from scheduler.message_runs import NoRuns, RecordedReply
from scheduler.rpc.redelivery import MOST_INTERRUPTED, Fate, Redeliveries
from tests.support.clock import Clock

PATIENCE = 60.0


class Call:
    """A redelivered call; from a time on its listener has stopped."""

    unique_id = msg_id = "m1"
    redelivered = True
    delivery_count = 0
    received = 0.0

    def __init__(self, stopped=lambda: False):
        self.hand_back = stopped


class Runs(NoRuns):
    """The records of this process and of another one, which runs the call until a time, or has answered it."""

    def __init__(self, clock, until=0.0, interrupted=0, reply=None):
        self.clock, self.until, self.interrupted, self.reply, self.own = (
            clock,
            until,
            interrupted,
            reply,
            False,
        )

    def begin_run(self, message_id):
        self.own = True

    def interrupted_runs(self, message_id):
        return self.interrupted

    def was_run_elsewhere(self, message_id):
        return self.runs_elsewhere(message_id) or self.reply is not None

    def reply_to(self, message_id):
        return self.reply

    def leave_run(self, message_id):
        self.own = False

    end_run = leave_run

    def runs_elsewhere(self, message_id):
        return self.clock.now < self.until


class UnnoticedEnd(Runs):
    """As ``Runs``; that a process has ended while it ran the call shows when its runs are looked for."""

    def runs_elsewhere(self, message_id):
        self.interrupted = MOST_INTERRUPTED + 1
        return False


class World:
    def __init__(self, runs=Runs, **fields):
        self.clock = Clock(0.0)
        self.runs = runs(self.clock, **fields)
        self.redeliveries = Redeliveries(
            self.runs, lambda: PATIENCE, self.clock, self.sleep, lambda low, high: high
        )

    def sleep(self, seconds):
        assert not self.runs.own, "a call that waits must not be recorded as running"
        self.clock.now += seconds


def test_a_call_waits_until_no_other_process_runs_it():
    world = World(until=20.0)
    assert world.redeliveries.decide(Call()).fate is Fate.RUN
    assert 20.0 <= world.clock.now < 22.0
    assert world.runs.own


def test_a_call_that_waits_is_returned_when_the_listener_stops():
    world = World(until=20.0)
    assert world.redeliveries.decide(Call(lambda: world.clock.now > 5.0)).fate is Fate.RETURNED
    assert world.clock.now < 8.0
    assert not world.runs.own


def test_a_call_waits_no_longer_than_its_caller():
    world = World(until=1e9)
    fate, reason = world.redeliveries.decide(Call())
    assert (fate, reason) == (Fate.REFUSED, "another scheduler has served it for too long")
    assert world.clock.now < PATIENCE + 2.0
    assert not world.runs.own


def test_a_run_that_ended_with_its_process_counts_though_nobody_has_noticed_before():
    world = World(UnnoticedEnd, interrupted=MOST_INTERRUPTED)
    fate, reason = world.redeliveries.decide(Call())
    assert (fate, reason) == (Fate.REFUSED, f"{MOST_INTERRUPTED + 1} schedulers ended while they served it")


@pytest.mark.parametrize("changes", [{"redelivered": False}, {"unique_id": ""}], ids=["first", "no identity"])
def test_a_call_that_was_not_delivered_before_waits_for_nothing(changes):
    world, call = World(until=1e9, interrupted=MOST_INTERRUPTED + 1), Call()
    vars(call).update(changes)
    assert world.redeliveries.decide(call).fate is Fate.RUN
    assert world.clock.now == 0.0


@pytest.mark.parametrize("waited", [0.0, 5.0])
@pytest.mark.parametrize(
    ("fields", "fate", "again"),
    [
        ({"reply": RecordedReply(failed=True, confirmed=True)}, Fate.DROPPED, True),
        ({"reply": RecordedReply(failed=False, confirmed=False)}, Fate.RUN_ANSWERED, True),
        ({"until": 20.0}, Fate.RUN, True),
        ({}, Fate.RUN, False),
    ],
    ids=["was answered", "may have been answered", "is being run", "is unknown"],
)
def test_a_call_that_waited_for_a_thread_may_have_been_delivered_to_another_process_meanwhile(
    waited, fields, fate, again
):
    world, call = World(**fields), Call()
    call.redelivered = False
    world.clock.now = waited
    assert world.redeliveries.decide(call).fate is (fate if waited else Fate.RUN)
    assert getattr(call, "was_run_elsewhere", False) == (again and waited > 0)
    assert world.runs.own == (fate is not Fate.DROPPED or not waited)


def test_a_call_that_is_sent_on_is_not_recorded_as_running_until_it_turns_out_to_stay():
    world = World()
    world.redeliveries.decide(Call())
    world.redeliveries.pause(Call())
    assert not world.runs.own
    world.redeliveries.resume(Call())
    assert world.runs.own
