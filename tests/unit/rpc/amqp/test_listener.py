"""What a listener does with the messages that a driver hands it, without a broker."""

from contextlib import nullcontext
from types import SimpleNamespace

from amqp.spec import Basic
import pytest

from scheduler.request.past import Past
from scheduler.rpc.amqp import backlog, library, message
from scheduler.rpc.amqp import listener as late_listener


class Channel:
    """A channel that notes which methods it sends."""

    def __init__(self):
        self.sent = []

    def send_method(self, *method):
        self.sent.append(method)


CHANNEL = Channel()


class RawMessage(dict):
    """A message as the driver hands it to a listener."""

    def __init__(
        self, number, msg_id, queue="scheduler", tag=None, headers=None, identity=None, channel=None
    ):
        identity = f"unique-{number}" if identity is None else identity
        super().__init__(_msg_id=msg_id, _unique_id=identity, method="m", args={}, version="1.0")
        self.ends = []
        self._raw_message = SimpleNamespace(
            delivery_tag=tag or number,
            acknowledged=False,
            delivery_info={"routing_key": queue},
            headers=headers,
            body=b"",
            content_type="application/json",
            content_encoding="utf-8",
        )
        self.acknowledge = lambda: self.ends.append("acknowledged")
        self._raw_message.channel = channel or CHANNEL


def make_listener():
    return late_listener.LateListener(
        SimpleNamespace(prefetch_size=1), SimpleNamespace(channel=CHANNEL), 1000
    )


def run_operations(listener):
    listener._message_operations_handler.process()


def test_a_call_that_comes_again_after_its_reply_is_acknowledged_and_not_taken():
    listener, again = make_listener(), RawMessage(1, "call", tag=2)
    listener(RawMessage(1, "call"))
    listener.incoming.pop().settle()
    listener(again)
    assert (listener.incoming, again.ends) == ([], ["acknowledged"])


def test_casts_are_not_remembered_after_they_were_carried_out():
    """Hundreds of computes cast every few minutes: that would only fill the memory."""
    listener = make_listener()
    listener(RawMessage(1, None))
    (cast,) = listener.incoming
    cast.settle()
    assert listener.deliveries.add(cast)


@pytest.mark.parametrize("msg_id", [None, "call"], ids=["cast", "call"])
@pytest.mark.parametrize("identity", ["\ud800", ["x"], 2**70, "", "x" * 256], ids=repr)
def test_a_message_whose_identity_cannot_be_recorded_has_none(identity, msg_id):
    listener, raw = make_listener(), RawMessage(1, msg_id, identity=identity)
    listener(raw)
    (message,) = listener.incoming
    assert not message.unique_id
    message.settle()
    run_operations(listener)
    assert "acknowledged" in raw.ends
    assert len(listener.deliveries) == 0


def test_a_call_is_acknowledged_once_it_was_published_elsewhere():
    listener, raw, seen = make_listener(), RawMessage(1, "call"), []
    listener(raw)
    listener.deliveries.hand_over(
        listener.incoming[0], lambda: (run_operations(listener), seen.extend(raw.ends))
    )
    assert seen == []
    run_operations(listener)
    assert raw.ends == ["acknowledged"]
    assert len(listener.deliveries) == 0
    assert take(listener, 1, tag=2), "it may come back at once"


def test_a_copy_that_comes_before_the_call_is_acknowledged_is_taken_after_that():
    """The run of the copy may end this process at once: the broker would have both."""
    listener, raw, again = make_listener(), RawMessage(1, "call"), RawMessage(1, "call", tag=2)
    listener(raw)
    listener.deliveries.hand_over(listener.incoming.pop(), lambda: listener(again))
    assert (len(listener.incoming), raw.ends) == (0, [])
    run_operations(listener)
    assert (len(listener.incoming), raw.ends, again.ends) == (1, ["acknowledged"], [])


def test_a_call_that_cannot_be_published_elsewhere_is_still_to_be_answered():
    listener, raw = make_listener(), RawMessage(1, "call")
    listener(raw)

    def fail():
        raise OSError

    with pytest.raises(OSError):
        listener.deliveries.hand_over(listener.incoming[0], fail)
    run_operations(listener)
    assert (len(listener.deliveries), raw.ends) == (1, [])
    listener.incoming[0].settle()
    run_operations(listener)
    assert raw.ends == ["acknowledged"]


def test_a_call_that_is_returned_to_the_common_queue_does_not_count_as_a_failed_delivery():
    """Quorum queues drop a message that is rejected too often."""
    listener, channel = make_listener(), Channel()
    listener.conn.channel = channel
    raw = RawMessage(1, "call", channel=channel)
    listener(raw)
    listener.incoming[0].requeue()
    run_operations(listener)
    assert (raw.ends, channel.sent) == ([], [(Basic.Nack, "Lbb", (1, False, True))])


@pytest.mark.parametrize(
    ("headers", "redelivered", "runs"),
    [
        (None, False, 0),
        (None, True, 1),
        ({"berth-runs": 2}, False, 2),
        ({"berth-runs": 2}, True, 3),
        ({"berth-runs": "many"}, True, 1),
    ],
)
def test_the_message_counts_the_schedulers_that_did_not_answer_it(headers, redelivered, runs):
    listener, raw = make_listener(), RawMessage(1, "call", headers=headers)
    raw._raw_message.delivery_info["redelivered"] = redelivered
    listener(raw)
    assert listener.incoming[0].runs == runs


class Broker:
    """Takes what is published, and says how often the call was acknowledged by then."""

    def __init__(self, raw, *, takes):
        self.raw, self.takes, self.published = raw, takes, []

    def __call__(self, connection, deadline, largest):
        return self

    def send(self, queue, body, headers, **_properties):
        self.published.append((queue, headers, list(self.raw.ends)))
        if not self.takes:
            raise OSError("reset")


@pytest.mark.parametrize("takes", [True, False])
@pytest.mark.parametrize("act", ["requeue", "publish_again"])
def test_a_call_is_published_once_more_with_its_runs_and_acknowledged_after_that(monkeypatch, act, takes):
    listener, raw = make_listener(), RawMessage(1, "call", "scheduler", headers={"berth-runs": 1})
    broker = Broker(raw, takes=takes)
    monkeypatch.setattr(message, "BoundedPublisher", broker)
    monkeypatch.setattr(library, "connection_to_send", lambda _: nullcontext(SimpleNamespace(durable=True)))
    listener.conn.channel.sent.clear()
    listener(raw)
    getattr(listener.incoming[0], act)()
    run_operations(listener)
    assert broker.published == [("scheduler", {"berth-redelivered": True, "berth-runs": 1}, [])]
    assert raw.ends == ["acknowledged"] * takes
    assert len(listener.deliveries) == (act == "publish_again" and not takes)


def test_a_call_with_the_identity_of_a_cast_is_taken():
    """Anyone on the bus can write it: the call that was taken before must not be taken for this one."""
    listener = make_listener()
    for number, msg_id, identity in ((1, "first", "a"), (2, None, "b"), (3, "second", "b")):
        listener(RawMessage(number, msg_id, identity=identity))
    assert [each.orig_msg_id for each in listener.incoming] == ["first", None, "second"]
    assert not any(each.is_lost for each in listener.incoming)


@pytest.mark.parametrize(("priority", "outranked"), [(-1, True), (0, False), (1, False)])
def test_a_call_is_outranked_if_it_came_before_the_priority_was_lowered(priority, outranked):
    listener = make_listener()
    before = take(listener, 1)
    listener.use_priority(priority)
    assert not before.outranked, "the reading thread consumes with the old priority"
    run_operations(listener)
    assert (before.outranked, take(listener, 2).outranked) == (outranked, False)


@pytest.mark.parametrize(
    ("headers", "redelivered"),
    [
        (None, False),
        ({"berth-redelivered": False}, False),
        ({"berth-redelivered": True}, True),
    ],
    ids=["none", "new", "redelivered"],
)
def test_a_call_that_was_delivered_elsewhere_before_counts_as_redelivered(headers, redelivered):
    listener = make_listener()
    listener(RawMessage(1, "call", headers=headers))
    assert (listener.incoming[0].past is Past.REDELIVERED) is redelivered


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        (SimpleNamespace(connected=True), True),
        (SimpleNamespace(connected=False), False),
        (None, False),
    ],
    ids=["connected", "lost", "being replaced"],
)
def test_a_listener_is_connected_if_kombu_s_connection_is(connection, expected):
    """The reading thread goes round while it reconnects, so that this alone shows nothing."""
    place = SimpleNamespace(channel=None, connection=SimpleNamespace(connection=connection))
    listener = late_listener.LateListener(SimpleNamespace(prefetch_size=1), place, 1000)
    assert listener.connected is expected


def test_a_listener_whose_thread_is_stuck_is_not_connected(monkeypatch):
    connection = SimpleNamespace(connection=SimpleNamespace(connected=True))
    place = SimpleNamespace(channel=None, connection=connection)
    listener = late_listener.LateListener(SimpleNamespace(prefetch_size=1), place, 1000)
    monkeypatch.setattr(backlog, "SILENT", -1.0)
    assert not listener.connected


def test_after_a_message_calls_are_acknowledged_without_many_looks_at_the_connection():
    waits, arriving = [], iter([RawMessage(1, "call"), None, None, RawMessage(2, "call")])

    def consume(timeout):
        waits.append(timeout)
        raw = next(arriving)
        if raw is None:
            raise library.Timeout
        listener(raw)

    listener = late_listener.LateListener(
        SimpleNamespace(prefetch_size=1), SimpleNamespace(channel=None, consume=consume), 1000
    )
    assert [listener.poll()[0].unique_id for _ in range(2)] == ["unique-1", "unique-2"]
    shortest = late_listener.ACKNOWLEDGE_AFTER
    assert waits == [shortest, shortest, 2 * shortest, 4 * shortest]


# -- calls with a past


def take(listener, number, **fields):
    """Receive a call, and return it as the server sees it; None if it is a repetition."""
    before = len(listener.incoming)
    listener(RawMessage(number, "call", channel=listener.conn.channel, **fields))
    return listener.incoming[-1] if len(listener.incoming) > before else None


def lose_channel(listener):
    listener.conn.channel = Channel()


def test_as_many_calls_as_were_in_the_queue_at_the_beginning_have_a_past():
    listener = make_listener()
    listener.backlog.expect(2)
    pasts = [take(listener, number).past for number in (1, 2, 3)]
    assert pasts == [Past.QUEUED, Past.QUEUED, Past.NONE]


def test_after_a_quiet_time_nothing_is_left_of_the_queue(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(backlog.time, "monotonic", lambda: now[0])
    listener = make_listener()
    listener.backlog.look()
    listener.backlog.expect(9)
    for _ in range(3):
        now[0] += 2.0
        run_operations(listener)
    assert not take(listener, 1).past


def test_what_is_received_after_this_process_was_frozen_has_a_past(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(backlog.time, "monotonic", lambda: now[0])
    listener = make_listener()
    run_operations(listener)
    now[0] += backlog.FROZEN + 1.0
    assert take(listener, 1).past is Past.QUEUED
    for _ in range(40):
        now[0] += 1.0
        run_operations(listener)
    assert not take(listener, 2).past


def test_a_listener_does_not_take_its_own_waits_for_a_frost(monkeypatch):
    now, rounds = [1000.0], iter(range(40))
    monkeypatch.setattr(backlog.time, "monotonic", lambda: now[0])

    def consume(timeout):
        now[0] += timeout + 0.01
        if next(rounds) < 39:
            raise library.Timeout
        listener(RawMessage(1, "call"))

    connection = SimpleNamespace(channel=CHANNEL, consume=consume)
    listener = late_listener.LateListener(SimpleNamespace(prefetch_size=1), connection, 1000)
    assert not listener.poll()[0].past


def test_a_call_whose_channel_was_lost_is_with_the_broker_again():
    listener = make_listener()
    call = take(listener, 1)
    assert (call.is_lost, call.past) == (False, Past.NONE)
    lose_channel(listener)
    assert call.is_lost
    assert call.past is Past.LOST


def test_a_call_that_comes_again_while_it_is_run_is_not_lost_and_has_a_past():
    listener = make_listener()
    call = take(listener, 1)
    lose_channel(listener)
    assert take(listener, 2, identity="unique-1") is None
    assert not call.is_lost
    assert call.past


def test_a_call_that_was_acknowledged_before_its_reply_is_not_delivered_again():
    listener = make_listener()
    call = take(listener, 1)
    library.raw_of(call.message).acknowledged = True
    lose_channel(listener)
    assert not call.is_lost
    assert not listener.deliveries.can_requeue(call)
