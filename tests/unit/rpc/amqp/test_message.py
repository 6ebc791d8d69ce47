"""Replies that cannot be delivered, and what is known of them."""

from types import SimpleNamespace

import oslo_messaging as messaging
import pytest

from scheduler.rpc.amqp import message
from scheduler.rpc.amqp.publisher import ReplyTooLarge

NO_QUEUE = messaging.MessageUndeliverable(None, "", "q", None)


class Undelivered(message.ConfirmedMessage):
    """A call whose reply meets errors, one at each attempt, before it is sent."""

    msg_id = orig_msg_id = unique_id = reply_q = "m1"

    def __init__(self, errors, patience=60):
        self.errors = list(errors)
        self.listener = SimpleNamespace(driver=SimpleNamespace(missing_destination_retry_timeout=patience))

    def _send_once(self, deadline, reply, failure, ending=True):
        if self.errors:
            raise self.errors.pop(0)


@pytest.mark.parametrize(
    ("errors", "patience", "maybe"),
    [
        ([NO_QUEUE], 60, False),
        ([ReplyTooLarge("large")], 60, False),
        ([OSError("reset")], 0, True),
        ([OSError("reset"), NO_QUEUE], 60, True),
        ([OSError("reset"), ReplyTooLarge("large")], 60, True),
    ],
    ids=[
        "no queue",
        "too large",
        "not confirmed in time",
        "connection lost, then no queue",
        "connection lost, then too large",
    ],
)
def test_a_reply_may_be_delivered_unless_the_broker_has_refused_each_attempt(
    monkeypatch, errors, patience, maybe
):
    monkeypatch.setattr(message, "RETRY_INTERVAL", 0.0)
    call = Undelivered(errors, patience)
    call.may_be_delivered = True
    call.reply("hosts")
    assert (call.may_be_delivered, call.undelivered is None) == (maybe, False)


def test_a_reply_to_a_missing_queue_is_not_tried_again_by_the_thread_that_others_need():
    call = Undelivered([NO_QUEUE] * 9)
    call.reply("hosts")
    assert isinstance(call.undelivered, message.ReplyQueueMissing)
    assert len(call.errors) == 8
