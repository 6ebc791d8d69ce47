"""What a consumer does with the messages that a connection hands it, without a broker."""

from types import SimpleNamespace

from amqp.spec import Basic
import pytest

from scheduler.request.past import Past
from scheduler.rpc import consumer, library
from scheduler.rpc.calls import Call
from scheduler.rpc.consumer import Consumer
from tests.support.waiting import eventually


class Channel:
    """A channel that notes which methods it sends."""

    def __init__(self):
        self.sent = []

    def send_method(self, *method):
        self.sent.append(method)


class Raw:
    """A message of kombu's."""

    def __init__(self, number, channel, headers=None, *, redelivered=False):
        self.delivery_tag, self.channel, self.headers = number, channel, headers
        self.delivery_info = {"routing_key": "scheduler", "redelivered": redelivered}
        self.acknowledged = False
        self.ends = []

    def ack(self):
        self.acknowledged = True
        self.ends.append("acknowledged")


class Bus:
    """Takes what is published once more, and says how often the call was acknowledged by then."""

    def __init__(self):
        self.takes, self.published, self.meanwhile = True, [], lambda: None

    def publish_again(self, raw, _deadline, headers):
        self.published.append((headers, list(raw.ends)))
        self.meanwhile()
        if not self.takes:
            raise OSError("reset")


class World:
    """A consumer whose thread is that of the test.

    Attributes:
        calls: What it has received.
    """

    def __init__(self, monkeypatch):
        monkeypatch.setattr(consumer.Message, "ack", Raw.ack)
        self.bus, self.channel, self.calls, self.casts = Bus(), Channel(), [], []
        take = lambda *received: self.calls.append(Call(*received))  # noqa: E731
        self.consumer = Consumer(self.bus, take, self.casts.append)
        self.connection = SimpleNamespace(losses=0)
        self.consumer._connection = self.connection

    def receive(self, number, msg_id="call", identity=None, headers=None, *, redelivered=False):
        raw = Raw(number, self.channel, headers, redelivered=redelivered)
        message = library.RabbitMessage.__new__(library.RabbitMessage)
        identity = f"unique-{number}" if identity is None else identity
        message.update(_msg_id=msg_id, _reply_q="reply", _unique_id=identity, method="m", args={})
        message._raw_message = raw
        self.consumer.receive(message)
        return raw

    def take(self, number, **fields):
        """Receive a call, and return it; None if it is not taken."""
        before = len(self.calls)
        self.receive(number, **fields)
        return self.calls[-1] if len(self.calls) > before else None

    def lose_channel(self):
        self.connection.losses += 1


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_a_cast_is_acknowledged_on_receipt_and_a_call_after_its_reply(world):
    cast, raw = world.receive(1, msg_id=None), world.receive(2)
    assert (len(world.casts), len(world.calls)) == (1, 1)
    assert (cast.ends, raw.ends) == (["acknowledged"], [])
    world.calls[0].acknowledge()
    assert raw.ends == [], "the thread that reads does it"
    world.consumer.do_tasks()
    assert raw.ends == ["acknowledged"]


@pytest.mark.parametrize("msg_id", [None, "call"], ids=["cast", "call"])
@pytest.mark.parametrize("identity", ["\ud800", ["x"], 2**70, "", "x" * 256], ids=repr)
def test_a_message_whose_identity_cannot_be_recorded_has_none(world, identity, msg_id):
    world.receive(1, msg_id, identity)
    (frame,) = world.casts or [call.frame for call in world.calls]
    assert frame.identity == ""


@pytest.mark.parametrize(
    ("headers", "redelivered", "runs", "past"),
    [
        (None, False, 0, Past.NONE),
        (None, True, 1, Past.REDELIVERED),
        ({"berth-runs": 2}, False, 2, Past.NONE),
        ({"berth-runs": 2}, True, 3, Past.REDELIVERED),
        ({"berth-runs": "many"}, True, 1, Past.REDELIVERED),
        ({"berth-redelivered": False}, False, 0, Past.NONE),
        ({"berth-redelivered": True}, False, 0, Past.REDELIVERED),
    ],
)
def test_the_message_counts_the_schedulers_that_did_not_answer_it(world, headers, redelivered, runs, past):
    call = world.take(1, headers=headers, redelivered=redelivered)
    assert (call.runs, call.is_redelivery, call.past) == (runs, redelivered, past)


@pytest.mark.parametrize("takes", [True, False])
@pytest.mark.parametrize("act", ["requeue", "publish_again"])
def test_a_call_is_published_once_more_with_its_runs_and_acknowledged_after_that(world, act, takes):
    world.bus.takes = takes
    raw = world.receive(1, headers={"berth-runs": 1})
    getattr(world.calls[0], act)()
    world.consumer.do_tasks()
    assert world.bus.published == [({"berth-redelivered": True, "berth-runs": 1}, [])]
    assert raw.ends == ["acknowledged"] * takes
    returned = act == "requeue" and not takes
    # not by reject: quorum queues drop a message that is rejected too often
    assert world.channel.sent == [(Basic.Nack, "Lbb", (1, False, True))] * returned


@pytest.mark.parametrize("takes", [True, False])
def test_a_copy_that_comes_before_the_call_is_acknowledged_is_taken_after_that(world, takes):
    """The run of the copy may end this process at once: the broker would have both."""
    first = world.take(1, identity="same")
    world.bus.takes = takes
    world.bus.meanwhile = lambda: world.receive(2, identity="same")
    first.publish_again()
    assert len(world.calls) == 1
    world.consumer.do_tasks()
    assert (len(world.calls), first.raw.ends) == (2, ["acknowledged"] * takes)
    assert world.take(3, identity="same"), "it may come back"


def test_a_call_whose_channel_was_lost_is_with_the_broker_again(world):
    call = world.take(1)
    assert (call.is_lost, call.past) == (False, Past.NONE)
    world.lose_channel()
    assert (call.is_lost, call.past) == (True, Past.LOST)
    call.acknowledge()
    call.requeue()
    world.consumer.do_tasks()
    assert (call.raw.ends, world.channel.sent, world.bus.published) == ([], [], [])
    assert world.take(2, identity="unique-1"), "its next delivery is a run of its own"


def test_a_call_that_was_acknowledged_before_its_reply_is_not_delivered_again(world):
    call = world.take(1)
    call.acknowledge()
    world.consumer.do_tasks()
    world.lose_channel()
    assert not call.is_lost
    assert call.is_acknowledged
    assert call.past is Past.NONE


def test_what_comes_to_a_consumer_that_stops_is_returned_but_for_casts(world):
    world.consumer.stop()
    world.receive(1)
    world.receive(2, msg_id=None)
    assert (len(world.calls), len(world.casts)) == (0, 1)
    assert world.channel.sent == [(Basic.Nack, "Lbb", (1, False, True))]


@pytest.mark.parametrize(("priority", "outranked"), [(-1, True), (0, False), (1, False)])
def test_a_call_is_outranked_if_it_came_before_the_priority_was_lowered(world, priority, outranked):
    before = world.take(1)
    world.consumer.use_priority(priority)
    assert not before.outranked, "the thread that reads consumes with the old priority"
    world.consumer.do_tasks()
    assert (before.outranked, world.take(2).outranked) == (outranked, False)


@pytest.mark.parametrize(
    ("broker", "expected"),
    [(SimpleNamespace(connected=True), True), (SimpleNamespace(connected=False), False), (None, False)],
    ids=["connected", "lost", "being replaced"],
)
def test_a_consumer_is_connected_if_kombu_s_connection_is(world, broker, expected):
    """The thread that reads goes round while it reconnects, so that this alone shows nothing."""
    world.connection.connection = broker
    assert world.consumer.connected is expected


def test_a_consumer_whose_thread_is_stuck_is_not_connected(world, monkeypatch):
    world.connection.connection = SimpleNamespace(connected=True)
    monkeypatch.setattr(consumer, "SILENT", -1.0)
    assert not world.consumer.connected


class Reader:
    """A connection on which reading goes as the test says."""

    losses = 0
    consumers = []

    def __init__(self, steps):
        self.steps, self.waits, self.is_closed = list(steps), [], False

    def declare_topic_consumer(self, exchange, topic, callback):
        self.add(SimpleNamespace(another=SimpleNamespace))

    def add(self, consumer):
        self.consumers = [*self.consumers, consumer]

    def cancel(self, consumer):
        self.consumers = [each for each in self.consumers if each is not consumer]

    def consume(self, timeout):
        self.waits.append(timeout)
        step = self.steps.pop(0) if self.steps else library.Timeout()
        if isinstance(step, Exception):
            raise step

    def close(self):
        self.is_closed = True


def test_the_thread_looks_soon_after_a_message_and_then_seldom_and_reads_after_any_error(monkeypatch, caplog):
    monkeypatch.setattr(consumer, "PAUSE_AFTER_ERROR", 0.0)
    late = [library.Timeout() for _ in range(8)]
    reader = Reader([None, *late, None, ValueError("an error of ours"), None])
    reading = Consumer(SimpleNamespace(reader=lambda: reader, exchange="nova"), list, list)
    reading.start("t", "me")
    assert eventually(lambda: not reader.steps)
    reading.stop()
    assert reader.consumers == []
    reading.close()
    assert reader.is_closed
    shortest, longest = consumer.SHORTEST_WAIT, consumer.LONGEST_WAIT
    expected = [shortest, *(min(shortest * 2**n, longest) for n in range(9)), shortest]
    assert reader.waits[: len(expected)] == expected
    assert "an error of ours" in caplog.text


# -- calls with a past


def test_the_time_before_the_start_is_no_frost(monkeypatch):
    """The hosts are read then, and decisions of others."""
    now, seen = [1000.0], []
    monkeypatch.setattr(consumer.time, "monotonic", lambda: now[0])

    class Declaring(Reader):
        def declare_topic_consumer(self, exchange, topic, callback):
            seen.append(reading.backlog.receive())
            raise OSError("refused")

    reading = Consumer(SimpleNamespace(reader=lambda: Declaring([]), exchange="nova"), list, list)
    now[0] += 60.0
    with pytest.raises(OSError, match="refused"):
        reading.start("t", "me")
    assert seen == [(1060.0, False)]


def test_as_many_calls_as_were_in_the_queue_at_the_beginning_have_a_past(world):
    world.consumer.backlog.expect(2)
    assert [world.take(number).past for number in (1, 2, 3)] == [Past.QUEUED, Past.QUEUED, Past.NONE]


def test_after_a_quiet_time_nothing_is_left_of_the_queue(world, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(consumer.time, "monotonic", lambda: now[0])
    world.consumer.backlog.look()
    world.consumer.backlog.expect(9)
    for _ in range(3):
        now[0] += 2.0
        world.consumer.do_tasks()
    world.consumer.backlog._frozen_until = 0.0
    assert not world.take(1).past


def test_what_is_received_after_this_process_was_frozen_has_a_past(world, monkeypatch):
    now = [world.consumer.backlog._read_at]
    monkeypatch.setattr(consumer.time, "monotonic", lambda: now[0])
    world.consumer.do_tasks()
    now[0] += consumer.FROZEN + 1.0
    assert world.take(1).past is Past.QUEUED
    for _ in range(40):
        now[0] += 1.0
        world.consumer.do_tasks()
    assert not world.take(2).past
