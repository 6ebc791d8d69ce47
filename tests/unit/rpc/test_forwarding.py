"""What ``scheduler.rpc.forwarding`` decides, without a broker."""

import time
from types import SimpleNamespace

import oslo_messaging as messaging
from oslo_messaging._drivers import impl_rabbit
import pytest

from scheduler.request.past import Past
from scheduler.rpc import forwarding
from scheduler.rpc.calls import Forwarded
from scheduler.rpc.forwarding import FORWARDED
from scheduler.stream import membership


class RabbitConnection:
    """Declares queues, or is refused."""

    rabbit_ha_queues = False
    enable_cancel_on_failover = False
    rabbit_quorum_queue_config = impl_rabbit.QuorumMemConfig(0, 0, 0)

    def __init__(self, quorum=False, error=None):
        self.rabbit_quorum_queue = quorum
        self.error = error
        self.declared = []

    def declare_consumer(self, consumer):
        if self.error:
            raise self.error
        self.declared.append(consumer)


def listener(**fields):
    deliveries = SimpleNamespace(forwarding_queues=frozenset())
    return SimpleNamespace(conn=RabbitConnection(**fields), deliveries=deliveries)


@pytest.mark.parametrize(
    ("quorum", "more"),
    [
        (False, {}),
        (
            True,
            {
                "x-queue-type": "quorum",
                "x-dead-letter-strategy": "at-least-once",
                "x-overflow": "reject-publish",
            },
        ),
    ],
)
def test_the_queue_of_a_topic_moves_calls_back_to_the_queue_of_all_schedulers(quorum, more):
    made = listener(quorum=quorum)
    assert forwarding.read_from(made, "t1", "scheduler")
    consumer = made.conn.declared[0]
    assert consumer.queue_arguments == more | {
        "x-expires": 600_000,
        "x-message-ttl": 5_000,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "scheduler",
    }
    assert (consumer.queue_name, consumer.exchange_name, consumer.durable) == ("t1", "", True)
    assert made.deliveries.forwarding_queues == {"t1"}


def refusal():
    error = messaging.MessageDeliveryFailure("Unable to connect")
    error.__cause__ = impl_rabbit.amqp_ex.PreconditionFailed("inequivalent arg")
    return error


def test_a_server_whose_broker_refuses_the_queue_works_without(caplog):
    made = listener(error=refusal())
    assert not forwarding.read_from(made, "t1", "scheduler")
    assert made.deliveries.forwarding_queues == frozenset()
    assert "cannot forward calls to t1: RabbitMQ refuses" in caplog.text


def test_another_error_of_the_broker_ends_the_start():
    with pytest.raises(messaging.MessageDeliveryFailure):
        forwarding.read_from(listener(error=messaging.MessageDeliveryFailure("away")), "t1", "scheduler")


def test_each_start_has_a_topic_of_its_own_that_others_take_for_one_of_the_host():
    topics = {forwarding.new_topic("ctl1") for _ in range(20)}
    assert len(topics) == 20
    assert {membership.is_of_host(topic, "ctl1") for topic in topics} == {True}


@pytest.mark.parametrize(("length", "has_one"), [(230, True), (249, False)])
def test_a_host_has_a_topic_unless_its_name_is_too_long_for_a_queue(length, has_one):
    assert bool(forwarding.new_topic("h" * length)) is has_one


class Call:
    """A call whose queue exists or does not."""

    msg_id = "m1"

    def __init__(self, error=None, past=Past.NONE, waited=0.0):
        self.error, self.past, self.sent = error, past, []
        self.received = time.monotonic() - waited

    def forward(self, queue, headers, timeout):
        self.sent.append((queue, headers, timeout))
        if self.error:
            raise self.error


SENT = "sent"


def forward(call, counts):
    """Return what became of a call."""
    try:
        return forwarding.forward(call, counts.append, "t1", "why")
    except Forwarded:
        return SENT


UNROUTABLE = messaging.MessageUndeliverable(None, "", "t1", None)


@pytest.mark.parametrize(
    ("error", "outcome", "counted"),
    [(None, SENT, ["why"]), (UNROUTABLE, False, []), (OSError("reset"), True, [])],
    ids=["confirmed", "no queue", "connection lost"],
)
def test_a_call_is_sent_on_if_the_broker_confirms_it(error, outcome, counted):
    counts, call = [], Call(error)
    assert forward(call, counts) is outcome
    assert call.sent == [("t1", {FORWARDED: True, "berth-redelivered": False}, forwarding.SEND_TIMEOUT)]
    assert counts == counted


@pytest.mark.parametrize(
    "call", [Call(past=Past.QUEUED), Call(waited=60.0)], ids=["delivered before", "process was frozen"]
)
def test_another_scheduler_learns_that_the_caller_may_have_left(call):
    assert forward(call, []) is SENT
    assert call.sent[0][1]["berth-redelivered"] is True
