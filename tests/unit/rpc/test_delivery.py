import weakref

import pytest

from scheduler.rpc.delivery import Delivery, Forwarded


class Held:
    def __init__(self, notes, error=None):
        self._notes = notes
        self._error = error

    def confirm(self):
        self._end("confirmed")

    def keep(self):
        self._end("kept")

    def release(self):
        self._end("released")

    def _end(self, how):
        self._notes.append(how)
        if self._error:
            raise self._error


@pytest.mark.parametrize(
    ("report", "note"), [("confirm", "confirmed"), ("keep", "kept"), ("release", "released")]
)
def test_outcome_is_passed_to_all_that_depends_on_it_once(report, note):
    notes = []
    delivery = Delivery()
    delivery.hold(Held(notes))
    delivery.hold(Held(notes))
    getattr(delivery, report)()
    delivery.confirm()
    delivery.release()
    assert notes == [note, note]


@pytest.mark.parametrize("report", ["confirm", "keep", "release"])
def test_an_error_does_not_keep_the_others_from_the_outcome(report, caplog):
    notes = []
    delivery = Delivery()
    delivery.hold(Held(notes, ValueError("broken")))
    delivery.hold(Held(notes))
    getattr(delivery, report)()
    assert len(notes) == 2
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
    delivery = Delivery(forward=bus.send)
    with pytest.raises(Forwarded):
        delivery.forward("t1", "why")
    assert bus.sent == [("t1", "why")]


@pytest.mark.parametrize(("outcome", "maybe"), [(False, False), (True, True)])
@pytest.mark.parametrize("past", [False, True])
def test_a_message_that_may_have_been_forwarded_and_is_answered_here_has_a_past(outcome, maybe, past):
    delivery = Delivery("m", has_past=lambda: past, forward=Bus(outcome).send)
    delivery.forward("t1", "why")
    assert delivery.has_past is (past or maybe)


def test_a_message_that_is_over_takes_no_memory():
    class Message:
        def send(self, *_args):
            return False

    message = Message()
    gone = weakref.ref(message)
    delivery = Delivery(forward=message.send)
    del message
    assert gone() is not None
    delivery.end()
    assert gone() is None


def test_without_a_bus_a_message_is_answered_here():
    assert Delivery().forward("t1", "why") is None
