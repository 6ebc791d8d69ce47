"""What becomes of requests while their scheduler cannot decide: who waits, for how long, and what ends it."""

import logging
import math
import threading
from types import SimpleNamespace

import pytest

from scheduler.bounds.outages import GRACE, IDLE_INTERVAL, LOOK_INTERVAL, Lacks, Outages
from scheduler.errors import HostsUnknown, NoValidHost, PlacementUnavailable, ReturnedToBroker
from tests.support.clock import Clock
from tests.support.idle_loop import IdleLoop

PATIENCE = 60.0
REFUSED = PlacementUnavailable("no connection")
SLOW = PlacementUnavailable("timed out", timed_out=True)


class Request:
    """A request that came at a moment."""

    is_rebuild = False

    def __init__(self, clock, deadline=1800.0, call=None):
        self.received_at = clock.now if call is None else min(clock.now, call.received)
        self.deadline = clock.now + deadline
        self.call = call

    def restarted(self):
        return self


class World:
    """Outages whose looks happen while a request waits, on one clock.

    ``problem`` is what a look finds, or a function of the time that returns it.
    """

    def __init__(self):
        self.clock = Clock(0.0)
        self.problem = None
        self.lacks_hosts = False
        self.lacks = []
        self.patience, self.loop = PATIENCE, IdleLoop()
        self.outages = Outages(
            self.find, lambda: self.patience, lambda: self.lacks_hosts, self.clock, self.wait, self.loop.take
        )
        self.outages.start()
        self.outages.follow(self.lacks.append, threads=4)
        self.meanwhile = lambda: None
        self.tries = []
        self.suspects = []
        self.next_look = 0.0

    def find(self, suspect):
        self.suspects.append(suspect)
        return self.problem(self.clock.now) if callable(self.problem) else self.problem

    def wait(self, _condition, seconds):
        self.clock.now += seconds
        self.meanwhile()
        if self.clock.now >= self.next_look or self.loop.woken:
            self.loop.woken = False
            self.next_look = self.clock.now + self.outages.look()

    def run(self, attempt, **values):
        request = Request(self.clock, **values)

        def trying(_request):
            self.tries.append(self.clock.now)
            outcome = attempt(self.clock.now)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return self.outages.run(trying, request)


@pytest.fixture
def world():
    return World()


def until(moment, error, then="hosts"):
    """What is found, or comes of a request, at a time."""
    return lambda now: error if now < moment else then


def test_a_request_that_meets_an_outage_is_served_once_that_is_over(world):
    world.problem = until(30.0, REFUSED, None)
    assert world.run(until(30.0, REFUSED)) == "hosts"
    assert world.tries[0] == 0.0
    assert len(world.tries) == 2
    assert world.tries[1] <= 30.0 + 3.0


def test_a_request_that_comes_during_an_outage_is_not_tried_before_its_end(world):
    world.problem = REFUSED
    world.outages.look()
    world.clock.now = 5.0
    world.problem = until(20.0, REFUSED, None)
    assert world.run(until(20.0, REFUSED)) == "hosts"
    assert len(world.tries) == 1


def test_a_rebuild_check_does_not_wait_for_placement(world):
    world.problem = REFUSED
    world.outages.look()
    request = Request(world.clock)
    request.is_rebuild = True
    assert world.outages.run(lambda _request: "checked", request) == "checked"


def test_one_failure_without_an_outage_is_tried_again(world):
    assert world.run(until(0.5, REFUSED)) == "hosts"
    assert world.suspects == [REFUSED]


@pytest.mark.parametrize(("deadline", "expected"), [(1800.0, PATIENCE), (20.0, 20.0)])
def test_after_its_patience_a_request_ends_with_an_error_that_names_the_dependency(world, deadline, expected):
    world.problem = REFUSED
    with pytest.raises(PlacementUnavailable, match="Placement is unavailable") as caught:
        world.run(lambda _now: REFUSED, deadline=deadline)
    assert not isinstance(caught.value, NoValidHost)
    assert expected <= world.clock.now <= expected + 2 * LOOK_INTERVAL
    assert len(world.tries) == 1


def test_a_request_that_no_look_explains_is_tried_a_bounded_number_of_times(world):
    """As with a policy of Placement that forbids queries and allows what a look asks for."""
    with pytest.raises(PlacementUnavailable):
        world.run(lambda _now: REFUSED)
    assert PATIENCE <= world.clock.now <= PATIENCE + 3.0
    assert len(world.tries) < PATIENCE


def test_while_placement_is_slow_and_answers_others_the_patience_of_the_caller_counts(world):
    def slow(now):
        world.clock.now += 60.0
        return SLOW if now < 600.0 else "hosts"

    assert world.run(slow) == "hosts"
    assert world.clock.now > 600.0


def test_a_request_that_has_waited_for_a_thread_has_no_more_patience_than_others(world):
    world.problem = REFUSED
    world.outages.look()
    world.clock.now = 70.0
    delivery = SimpleNamespace(received=0.0, outranked=False)
    with pytest.raises(PlacementUnavailable):
        world.run(lambda _now: "hosts", call=delivery)
    assert world.clock.now == 70.0
    assert world.tries == []


def test_without_patience_nothing_waits(world):
    world.patience = 0.0
    for error in (REFUSED, SLOW):
        with pytest.raises(PlacementUnavailable):
            world.run(lambda _now, error=error: error)
    assert world.clock.now == 0.0


def test_other_errors_are_not_waited_for(world):
    with pytest.raises(NoValidHost):
        world.run(lambda _now: NoValidHost("no room"))
    assert world.suspects == []


def test_before_the_start_nothing_is_waited_for(world):
    world.loop.running = False
    with pytest.raises(PlacementUnavailable):
        world.run(lambda _now: REFUSED)
    assert world.clock.now == 0.0


def test_a_stop_ends_the_wait(world):
    world.problem = REFUSED
    world.meanwhile = world.outages.stop
    with pytest.raises(ReturnedToBroker):
        world.run(lambda _now: REFUSED)


def test_requests_that_fail_while_the_process_stops_are_returned_as_well(world):
    world.outages.stop()
    with pytest.raises(ReturnedToBroker):
        world.run(lambda _now: REFUSED)


def test_requests_do_not_keep_each_other_in_memory(world):
    """An error that is raised keeps the frames that it went through, and with them a request."""
    world.problem = REFUSED
    world.outages.look()
    raised = []
    for _ in range(2):
        with pytest.raises(PlacementUnavailable) as caught:
            world.run(lambda _now: "hosts", deadline=1.0)
        raised.append(caught.value)
    assert raised[0] is not raised[1]
    assert [str(error) for error in raised] == [str(REFUSED)] * 2
    assert REFUSED not in raised


# -- other schedulers --------------------------------------------------------------------------------------


class Call:
    """A call that came with the full priority; ``world`` has one now that it may have lowered."""

    received = math.inf

    def __init__(self, world):
        self._world, self._at_receipt = world, world.lacks[-1:]

    @property
    def outranked(self):
        return self._world.lacks[-1:] > (self._at_receipt or [Lacks.NOTHING])


def test_in_an_outage_the_priority_is_lowered_and_what_came_before_goes_back_to_the_broker(world):
    world.problem = REFUSED
    with pytest.raises(ReturnedToBroker):
        world.run(lambda _now: REFUSED, call=Call(world))
    assert world.lacks == [Lacks.DEPENDENCY]
    assert GRACE <= world.clock.now <= 3.0
    world.problem = None
    world.outages.look()
    assert world.lacks == [Lacks.DEPENDENCY, Lacks.NOTHING]


def test_what_comes_in_an_outage_waits_since_nobody_else_is_there_to_take_it(world):
    """The broker gives calls to the schedulers with a low priority if no other one consumes."""
    world.problem = REFUSED
    for world.clock.now in (0.0, 2.0):
        world.outages.look()
    world.problem = until(30.0, REFUSED, None)
    assert world.run(until(30.0, REFUSED), call=Call(world)) == "hosts"
    assert world.clock.now >= 30.0


def test_an_outage_that_is_over_at_once_moves_no_request(world):
    world.problem = REFUSED
    world.outages.look()
    world.problem = None
    world.clock.now += GRACE / 2
    world.outages.look()
    assert world.lacks == []


def test_a_listener_that_starts_during_an_outage_has_the_low_priority_at_once(world):
    world.problem = REFUSED
    for world.clock.now in (0.0, 2.0):
        world.outages.look()
    later = []
    world.outages.follow(later.append, threads=4)
    assert later == [Lacks.DEPENDENCY]


def test_requests_for_a_cell_that_this_scheduler_alone_cannot_read_go_back_to_the_broker(world):
    """Also if too many wait for cells already: they would fail where another scheduler places them."""
    world.lacks_hosts = True
    world.outages.waiting = 2  # of four threads
    with pytest.raises(ReturnedToBroker, match="cell2"):
        world.run(lambda _now: HostsUnknown(["cell2"]), call=Call(world))
    assert world.lacks == [Lacks.SOME_HOSTS]
    assert world.clock.now <= 3.0
    world.lacks_hosts = False
    assert world.outages.look() == IDLE_INTERVAL
    assert world.lacks == [Lacks.SOME_HOSTS, Lacks.NOTHING]


def test_a_scheduler_without_placement_lacks_more_than_one_without_a_cell(world):
    world.lacks_hosts = True
    assert world.outages.look() == LOOK_INTERVAL
    world.problem = REFUSED
    for world.clock.now in (1.0, 3.0):
        world.outages.look()
    assert world.lacks == [Lacks.SOME_HOSTS, Lacks.DEPENDENCY]
    assert world.lacks == sorted(world.lacks)


# -- cells -------------------------------------------------------------------------------------------------


def test_a_request_for_hosts_of_an_unreadable_cell_is_tried_every_two_seconds(world):
    unknown = HostsUnknown(["cell2"])
    assert world.run(until(30.0, unknown)) == "hosts"
    assert world.clock.now <= 33.0
    assert len(world.tries) >= 10


def test_requests_for_one_unreadable_cell_leave_threads_to_others(world):
    unknown = HostsUnknown(["cell2"])
    world.outages.waiting = 2  # of four threads
    with pytest.raises(HostsUnknown, match="cell2"):
        world.run(lambda _now: unknown)
    assert world.clock.now < 5.0


# -- start, log --------------------------------------------------------------------------------------------


def test_a_worker_is_able_once_a_look_has_found_no_outage(world):
    world.problem = REFUSED
    assert not world.outages.wait_until_able(1.0)
    world.problem = None
    world.next_look = 0.0
    assert world.outages.wait_until_able(1.0)


def test_an_outage_is_one_line_at_its_begin_one_a_minute_and_one_at_its_end(world, caplog):
    caplog.set_level(logging.INFO)
    world.problem = REFUSED
    world.outages.waiting = 3
    for world.clock.now in range(150):
        world.outages.look()
    world.problem = None
    world.outages.look()
    assert [record.getMessage() for record in caplog.records] == [
        "Placement is unavailable (no connection); requests wait for it at most 60 s",
        "Placement has been unavailable for 60 s (no connection); requests waiting: 3",
        "Placement has been unavailable for 120 s (no connection); requests waiting: 3",
        "Placement is available again after 149 s; requests resumed: 3",
    ]


def test_without_an_outage_looks_are_rare(world):
    assert world.outages.look() == IDLE_INTERVAL
    world.problem = REFUSED
    assert world.outages.look() == LOOK_INTERVAL


def test_all_that_wait_go_on_after_one_look():
    problem = [REFUSED]
    outages = Outages(lambda _suspect: problem[0], lambda: PATIENCE, lambda: False)
    outages.start()
    clock = SimpleNamespace(now=0.0)
    request = Request(clock)
    request.received_at, request.deadline = -math.inf, math.inf
    served = []

    def attempt(_request):
        if problem[0]:
            raise problem[0]
        return "hosts"

    threads = [
        threading.Thread(target=lambda: served.append(outages.run(attempt, request))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    problem[0] = None
    for thread in threads:
        thread.join(20)
    outages.stop()
    assert served == ["hosts"] * 8
    assert outages.waiting == 0
