"""Replies that cannot be delivered, and what is known of them."""

from types import SimpleNamespace
from unittest import mock

import oslo_messaging as messaging
import pytest

from scheduler.rpc.amqp import message
from scheduler.rpc.amqp.publisher import ReplyTooLarge


class Undelivered(message.ConfirmedMessage):
    """A call whose reply meets errors, one at each attempt, before it is sent."""

    msg_id = orig_msg_id = unique_id = reply_q = "m1"

    def __init__(self, errors):
        self.errors = list(errors)
        self.listener = SimpleNamespace(driver=SimpleNamespace(missing_destination_retry_timeout=60))

    def _send_once(self, deadline, reply, failure, ending=True):
        self._note_sent()
        if self.errors:
            raise self.errors.pop(0)


@pytest.mark.parametrize(
    ("error", "maybe"),
    [
        (messaging.MessageUndeliverable(None, "", "q", None), False),
        (OSError("reset"), True),
        (ReplyTooLarge("large"), False),
        ([OSError("reset"), messaging.MessageUndeliverable(None, "", "q", None)], True),
        ([OSError("reset"), ReplyTooLarge("large")], True),
    ],
    ids=[
        "no queue",
        "connection lost: it may be there",
        "too large",
        "connection lost, then no queue",
        "connection lost, then too large",
    ],
)
def test_a_reply_counts_as_unknown_to_its_caller_only_after_the_broker_has_refused_each_attempt(
    monkeypatch, error, maybe
):
    monkeypatch.setattr(message, "RETRY_INTERVAL", 0.0)
    call = Undelivered(error if isinstance(error, list) else [error])
    call.reply("hosts")
    assert call.may_be_delivered is maybe or call.undelivered is None


def test_a_reply_to_a_missing_queue_is_not_tried_again_by_the_thread_that_others_need():
    call = Undelivered([messaging.MessageUndeliverable(None, "", "q", None)] * 9)
    call.reply("hosts")
    assert isinstance(call.undelivered, message.ReplyQueueMissing)
    assert len(call.errors) == 8


def test_a_reply_that_is_published_twice_in_one_attempt_may_be_delivered_if_the_second_is_refused(
    monkeypatch,
):
    """oslo.messaging publishes it again after a lost connection."""
    monkeypatch.setattr(message, "RETRY_INTERVAL", 0.0)
    call = Undelivered([messaging.MessageUndeliverable(None, "", "q", None)])
    once = call._note_sent
    call._note_sent = lambda: [once(), once()]
    call.reply("hosts")
    assert isinstance(call.undelivered, message.ReplyQueueMissing)
    assert call.may_be_delivered


@pytest.mark.parametrize(
    ("errors", "may_be_delivered"),
    [
        ([OSError("reset")], True),
        ([messaging.MessageUndeliverable(None, "", "q", None)], False),
        ([ReplyTooLarge("large")], False),
        ([], None),
    ],
    ids=["not confirmed", "no queue", "refused", "no connection"],
)
def test_an_undelivered_reply_may_be_delivered_if_it_was_handed_to_the_broker(errors, may_be_delivered):
    call = Undelivered(errors)
    if may_be_delivered is None:
        call._send_once = mock.Mock(side_effect=OSError("refused"))
    call.listener.driver.missing_destination_retry_timeout = 0
    call.unrefused = 1
    call.reply("hosts")
    assert (call.may_be_delivered, call.undelivered is None) == (bool(may_be_delivered), False)
