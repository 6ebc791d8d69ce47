import weakref

import pytest

from scheduler.request.past import SOON, Past
from scheduler.rpc.calls import LONGEST_ID, Call, Event, State
from tests.support.calls import make_call
from tests.support.held_claims import Claims

#: What becomes of claims at each event: [] for the next run of the message to find them.
CLAIMS = {
    Event.REPLIED: ["kept"],
    Event.FAILED: ["released"],
    Event.POISON: [],
    Event.NO_CALLER: [],
    Event.COUNTED: [],
    Event.RETURNED: [],
    Event.UNCONFIRMED: [],
    Event.UNKNOWN: ["left in doubt"],
    Event.CALLER_GONE: ["released"],
    Event.UNDELIVERABLE: ["released"],
}


@pytest.mark.parametrize("event", CLAIMS)
def test_claims_end_once_as_the_event_says(event):
    call, held = Call(), [Claims(), Claims()]
    for each in held:
        call.hold(each)
    call.end_claims(event)
    for later in Event:
        call.end_claims(later)
    assert [each.ends for each in held] == [CLAIMS[event]] * 2


class Broken(Claims):
    def keep(self):
        super().keep()
        raise ValueError("broken")

    def release(self):
        super().release()
        raise ValueError("broken")


@pytest.mark.parametrize("event", [Event.REPLIED, Event.CALLER_GONE])
def test_an_error_does_not_keep_the_others_from_the_outcome(event, caplog):
    call, held = Call(), [Broken(), Claims()]
    for each in held:
        call.hold(each)
    call.end_claims(event)
    assert [each.ends for each in held] == [CLAIMS[event]] * 2
    assert "broken" in caplog.text


def test_claims_are_held_while_the_reply_waits_for_its_reader():
    call, held = Call(), Claims()
    call.hold(held)
    call.end_claims(Event.UNREAD)
    assert held.ends == []
    call.end_claims(Event.REPLIED)
    assert held.ends == ["kept"]


def test_each_event_has_an_end():
    assert {*CLAIMS, Event.UNREAD} == set(Event)


@pytest.mark.parametrize(
    ("past", "waited", "may_have_left"),
    [(Past.NONE, SOON + 1.0, True), (Past.REDELIVERED, 1.0, True), (Past.NONE, SOON - 1.0, False)],
    ids=["process was frozen", "delivered before", "new"],
)
def test_the_caller_of_a_call_may_have_left(past, waited, may_have_left):
    assert Call(received=100.0, past=past).may_have_left(100.0 + waited) is may_have_left


def test_a_message_that_is_over_takes_no_memory():
    class Message:
        headers, delivery_info, acknowledged = None, {}, False

    message = Message()
    gone = weakref.ref(message)
    call = Call(raw=message)
    del message
    assert gone() is not None
    call.forget_message()
    assert gone() is None


def test_another_thread_may_forget_the_message_while_it_is_looked_at():
    """The thread that sends heartbeats, and the one that reads, look at all open calls."""

    class Message:
        headers, delivery_info, acknowledged = None, {}, False

    class Forgetful(Call):
        looks = iter([Message(), None])
        raw = property(lambda self: next(self.looks), lambda _self, _raw: None)

    assert not Forgetful(raw=Message()).is_acknowledged


# -- what is listed


@pytest.mark.parametrize(
    ("state", "step", "wait"),
    [
        (State.WAITS_FOR_THREAD, "queue", ("a free thread", 10.0)),
        (State.RUNS, "start", ("", 0.0)),
        (State.REPLIES, "reply", ("RabbitMQ, which has to confirm the reply", 2.0)),
        (State.WAITS_FOR_READER, "reply", ("reply queue reply_1, which nobody reads", 2.0)),
    ],
)
def test_what_a_call_waits_for(state, step, wait):
    context = {"_context_request_id": "req-1", "_context_auth_token": "secret"}
    call = make_call(
        {"method": "m", "args": {"instance_uuids": ["i1", "i2"]}, **context}, queue="reply_1", received=100.0
    )
    call.since, call.state = 108.0, state
    found = call.listed(110.0)
    assert (found.step, (found.waits_for, found.waited)) == (step, wait)
    assert (found.request_id, found.instances, found.age) == ("req-1", ("i1", "i2"), 10.0)
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("frame", "request_id", "uuids"),
    [
        ({}, "", ()),
        ({"args": {"instance_uuids": "abc"}, "_context_request_id": 5}, "", ()),
        ({"args": ["x"]}, "", ()),
        (
            {"args": {"instance_uuids": ["x" * 1000, 7]}, "_context_request_id": "r" * 1000},
            "r" * LONGEST_ID,
            ("x" * LONGEST_ID, ""),
        ),
    ],
)
def test_a_message_of_any_form_can_be_listed(frame, request_id, uuids):
    found = make_call(frame).listed(0.0)
    assert (found.request_id, found.instances) == (request_id, uuids)
