from types import SimpleNamespace
import weakref

import pytest

from scheduler.rpc.delivery import Delivery, Elsewhere, Forwarded, Receipt, Sent


class Held:
    def __init__(self, notes, error=None):
        self._notes = notes
        self._error = error

    def confirm(self):
        self._end("confirmed")

    def give_back(self):
        self._end("given back")

    def _end(self, how):
        self._notes.append(how)
        if self._error:
            raise self._error


@pytest.mark.parametrize(
    ("report", "note"), [("confirm", "confirmed"), ("keep", "confirmed"), ("give_back", "given back")]
)
def test_outcome_is_passed_to_all_that_depends_on_it_once(report, note):
    notes = []
    delivery = Delivery()
    delivery.hold(Held(notes))
    delivery.hold(Held(notes))
    getattr(delivery, report)()
    delivery.confirm()
    delivery.give_back()
    assert notes == [note, note]


@pytest.mark.parametrize("before", [False, True])
def test_what_an_earlier_run_may_have_replied_is_recorded_also_if_this_one_cannot_reply(before):
    withdrawn = []
    replies = SimpleNamespace(withdraw_reply=withdrawn.append)
    delivery = Delivery(Receipt("m1", may_be_answered=before), replies=replies)
    delivery.withdraw_reply()
    delivery.give_back()
    assert withdrawn == ([] if before else ["m1", "m1"])


@pytest.mark.parametrize("report", ["confirm", "keep", "give_back"])
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
        return self.outcome


def test_a_message_that_is_sent_on_is_not_answered_here():
    bus = Bus(Sent.YES)
    delivery = Delivery(elsewhere=Elsewhere(forward=bus.send))
    with pytest.raises(Forwarded):
        delivery.forward("t1", "why")
    assert bus.sent == [("t1", "why")]


@pytest.mark.parametrize(("outcome", "maybe"), [(Sent.NO, False), (Sent.UNKNOWN, True)])
@pytest.mark.parametrize("redelivered", [False, True])
def test_a_message_that_may_have_been_sent_on_and_is_answered_here_counts_as_redelivered(
    outcome, maybe, redelivered
):
    delivery = Delivery(Receipt("m", redelivered), Elsewhere(forward=Bus(outcome).send))
    delivery.forward("t1", "why")
    assert delivery.redelivered is (redelivered or maybe)


def test_a_message_whose_caller_may_have_an_answer_is_not_sent_on():
    bus = Bus(Sent.YES)
    delivery = Delivery(Receipt(may_be_answered=True), Elsewhere(forward=bus.send))
    delivery.forward("t1", "why")
    assert bus.sent == []


def test_a_message_that_is_over_takes_no_memory():
    class Message:
        def send(self, *_args):
            return Sent.NO

    message = Message()
    gone = weakref.ref(message)
    delivery = Delivery(elsewhere=Elsewhere(forward=message.send))
    del message
    assert gone() is not None
    delivery.end()
    assert gone() is None


def test_without_a_bus_a_message_is_answered_here():
    assert Delivery().forward("t1", "why") is None
