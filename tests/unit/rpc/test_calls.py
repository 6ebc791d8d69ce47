import weakref

import pytest

from scheduler.request.past import Past
from scheduler.rpc.calls import Call, Event, Forwarded
from tests.support.held_claims import Claims

#: What becomes of claims at each event: [] for the next run of the message to find them.
CLAIMS = {
    Event.REPLIED: ["kept"],
    Event.FAILED: ["released"],
    Event.POISON: [],
    Event.NOT_BEGUN: [],
    Event.NO_CALLER: [],
    Event.FORWARDED: [],
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


class Bus:
    """Sends messages on, with the outcome that it is told."""

    def __init__(self, outcome):
        self.outcome, self.sent = outcome, []

    def send(self, topic, reason):
        self.sent.append((topic, reason))
        if isinstance(self.outcome, Forwarded):
            raise self.outcome
        return self.outcome


def test_a_message_that_is_forwarded_is_not_answered_here():
    bus = Bus(Forwarded())
    call = Call(forward=bus.send)
    with pytest.raises(Forwarded):
        call.forward("t1", "why")
    assert bus.sent == [("t1", "why")]


@pytest.mark.parametrize("outcome", [False, True])
@pytest.mark.parametrize("past", Past)
def test_a_message_that_may_have_been_forwarded_and_is_answered_here_has_a_past(outcome, past):
    call = Call("m", past=lambda: past, forward=Bus(outcome).send)
    call.forward("t1", "why")
    assert call.past is (past or (Past.ELSEWHERE if outcome else Past.NONE))


def test_a_message_that_is_over_takes_no_memory():
    class Message:
        def send(self, *_args):
            return False

    message = Message()
    gone = weakref.ref(message)
    call = Call(forward=message.send)
    del message
    assert gone() is not None
    call.forget_message()
    assert gone() is None


def test_without_a_bus_a_message_is_answered_here():
    assert Call().forward("t1", "why") is None
