import weakref

import pytest

from scheduler.request.past import SOON, Past
from scheduler.rpc.calls import ENDS, Call, Event
from tests.support.held_claims import Claims

#: What becomes of claims at each event: [] for the next run of the message to find them.
CLAIMS = {
    Event.REPLIED: ["kept"],
    Event.FAILED: ["released"],
    Event.POISON: [],
    Event.NOT_BEGUN: [],
    Event.NO_CALLER: [],
    Event.COUNTED: [],
    Event.RETURNED: [],
    Event.LOST: [],
    Event.UNCONFIRMED: [],
    Event.UNKNOWN: ["left in doubt"],
    Event.UNSENT: [],
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
    assert {*CLAIMS, Event.UNREAD} == set(ENDS) == set(Event)


@pytest.mark.parametrize(
    ("past", "waited", "may_have_left"),
    [(Past.NONE, SOON + 1.0, True), (Past.REDELIVERED, 1.0, True), (Past.NONE, SOON - 1.0, False)],
    ids=["process was frozen", "delivered before", "new"],
)
def test_the_caller_of_a_call_may_have_left(past, waited, may_have_left):
    assert Call(received=100.0, past=past).may_have_left(100.0 + waited) is may_have_left


def test_a_message_that_is_over_takes_no_memory():
    class Message:
        is_acknowledged, is_current = False, True

    message = Message()
    gone = weakref.ref(message)
    call = Call(delivery=message)
    del message
    assert gone() is not None
    call.forget_message()
    assert gone() is None
