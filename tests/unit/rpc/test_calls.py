import weakref

import pytest

from scheduler.request.past import Past
from scheduler.rpc.calls import Call, Event
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
    Event.CALLER_GONE: ["released"],
    Event.UNDELIVERABLE: ["released"],
}


@pytest.mark.parametrize("event", Event)
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


def test_a_message_that_is_over_takes_no_memory():
    class Message:
        def past(self):
            return Past.NONE

    message = Message()
    gone = weakref.ref(message)
    call = Call(past=message.past)
    del message
    assert gone() is not None
    call.forget_message()
    assert gone() is None
