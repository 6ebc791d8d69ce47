"""The list of requests in progress."""

from types import SimpleNamespace

import pytest

from scheduler.bounds.waits import Wait, waiting_for
from scheduler.decisions.open_requests import MOST_LISTED, OpenRequest, open_requests
from scheduler.decisions.trace import Trace
from scheduler.request.scheduling_request import SchedulingRequest
from tests.support.clock import Clock
from tests.unit.filters.asking import make_spec

NOW = 100.0


def call(message_id, received_at, step="queue", wait=None, uuids=("i1",), now=NOW):
    return message_id, OpenRequest.of(f"req-{message_id}", uuids, received_at, step, wait, now)


def trace(message_id, received_at, clock):
    call = SimpleNamespace(message_id=message_id, received=received_at)
    context = SimpleNamespace(call=call, request_id=f"req-{message_id}")
    return Trace(
        SchedulingRequest.of(make_spec(), ["i1"], context, arrived_at=received_at + 5.0), clock=clock
    )


def test_requests_are_listed_with_age_step_and_wait_the_oldest_first():
    clock = Clock(90.0)
    deciding = trace("b", 80.0, clock)
    deciding.step = "placement"
    calls = [
        call("a", 99.0, wait=Wait("a free thread", 99.0)),
        call("b", 80.0, step="start"),
        call("c", 70.0, step="reply", wait=Wait(lambda: "RabbitMQ", 99.5)),
    ]
    with deciding.waits, waiting_for("Placement"):
        found = open_requests(calls, [deciding], NOW)
    assert found == [
        OpenRequest("req-c", ("i1",), 0, 30.0, "reply", "RabbitMQ", 0.5),
        OpenRequest("req-b", ("i1",), 0, 20.0, "placement", "Placement", 10.0),
        OpenRequest("req-a", ("i1",), 0, 1.0, "queue", "a free thread", 1.0),
    ]


def test_a_decision_that_waits_for_nothing():
    (found,) = open_requests([], [trace("a", 80.0, Clock(90.0))], NOW)
    assert (found.step, found.waits_for, found.waited) == ("query", "", 0.0)


def test_a_decision_without_a_message_is_as_old_as_its_record():
    deciding = Trace(SchedulingRequest.of(make_spec(), ["i1"]), clock=Clock(90.0))
    (found,) = open_requests([], [deciding], NOW)
    assert (found.request_id, found.age) == ("", 10.0)


def test_a_list_is_bounded():
    calls = [call(str(number), number, uuids=tuple("abcde"), now=200.0) for number in range(MOST_LISTED + 1)]
    found = open_requests(calls, [], 200.0)
    assert len(found) == MOST_LISTED
    assert found[-1].age == 200.0 - MOST_LISTED + 1
    assert (found[0].instances, found[0].more_instances) == (("a", "b", "c"), 2)


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (
            OpenRequest("req-1", ("a", "b"), 2, 12.0, "placement", "Placement (GET /x)", 11.5),
            (
                "req-1: age 12.0 s, step placement, for 11.5 s waiting for Placement (GET /x); "
                "instances: a, b and 2 more"
            ),
        ),
        (
            OpenRequest("", ("a\x1b[2J",), 0, 0.0, "selection", "", 0.0),
            "request without id: age 0.0 s, step selection, not waiting; instances: a\\x1b[2J",
        ),
    ],
    ids=["waiting", "deciding"],
)
def test_a_request_as_a_line(request_, line):
    assert str(request_) == line
