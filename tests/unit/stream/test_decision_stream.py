import contextlib
import logging
import math
import time

import pytest

from scheduler.hosts.pending import LIFETIME, PendingPlacements
from scheduler.stream import decision_stream
from scheduler.stream.decision_stream import DecisionStream, NoStream, make_stream
from scheduler.stream.records import Kind, decode, encode
from scheduler.stream.shared_decisions import LocalState
from tests.builders import make_host, make_table, uuid_of
from tests.support.options import make_conf
from tests.support.stream_records import record
from tests.support.waiting import eventually
from tests.unit.stream.fake_broker import FakeBroker
from tests.unit.stream.test_shared_decisions import ONE, Mirror

H1 = uuid_of("h1")


class Scheduler:
    def __init__(self, broker, name, **options):
        self.table = make_table([make_host(host) for host in ("h1", "h2")])
        self.pending, self.mirror = PendingPlacements(), Mirror()
        state = LocalState(self.pending, lambda: self.table, self.mirror)
        self.stream = DecisionStream(broker, state, name, options.pop("host", name), **options)

    def alive(self):
        return self.stream.membership.alive()


@pytest.fixture
def broker():
    return FakeBroker()


@pytest.fixture
def start(broker):
    with contextlib.ExitStack() as stack:

        def make(name, **options):
            made = Scheduler(broker, name, **options)
            stack.callback(made.stream.stop)
            made.stream.start()
            assert made.stream.wait_until_caught_up(10)
            return made

        yield make


def bodies(*records):
    return [body for body, _ in encode(records)]


@pytest.fixture
def idle(broker):
    """A scheduler that is not started; a test hands it messages."""
    return Scheduler(broker, "own")


def test_schedulers_see_each_other_and_what_they_decide(start):
    one, another = start("a"), start("b")
    assert eventually(lambda: one.alive() == another.alive() == ["a", "b"])
    one.pending.add("i1", one.table, 0, ONE)
    assert eventually(lambda: another.pending.node_of("i1") == H1)
    another.pending.add("i2", another.table, 1, ONE)
    assert eventually(lambda: one.pending.node_of("i2") == uuid_of("h2"))
    one.pending.remove(["i1"])
    assert eventually(lambda: another.pending.node_of("i1") is None)
    assert one.stream.status().in_step
    assert (one.stream.status().schedulers, one.stream.status().lost) == (2, 0)


def test_one_that_stops_is_gone_at_once(start):
    one, another = start("b"), start("a")
    assert eventually(lambda: len(one.alive()) == 2)
    another.stream.stop()
    assert eventually(lambda: one.alive() == ["b"])


def test_a_scheduler_that_is_started_again_is_not_taken_for_two_also_after_a_kill(broker, start):
    """Its predecessor said no goodbye."""
    broker.bodies = bodies(record(Kind.HELLO, "old"), record(Kind.BEAT, "old", counter=1))
    assert start("new", host="old").alive() == ["new"]
    assert start("other").alive() == ["new", "other"]


def test_a_scheduler_that_stops_says_so_however_much_waits(broker, start):
    one = start("a")
    for number in range(5000):
        one.stream.sharing.gone(f"i{number}")
    one.stream.stop()
    assert decode(broker.bodies[-1]).records[-1].kind == Kind.BYE


def test_one_that_starts_knows_what_was_decided_before(broker, start):
    broker.bodies = bodies(record(instance="i1"), record(counter=1, instance="i2"))
    one = start("a")
    assert sorted(one.pending.node_of(instance) for instance in ("i1", "i2")) == [H1, H1]


def test_old_records_have_no_effect_when_they_are_read_again(broker, start):
    long_ago = time.time() - LIFETIME - 1
    broker.bodies = bodies(
        record(at=long_ago, instance="i1"),
        record(Kind.BEAT, counter=1, at=time.time() - 20),
        record(counter=2, at=time.time() - 16, instance="i2"),
    )
    one = start("a")
    assert [one.pending.node_of(instance) for instance in ("i1", "i2")] == [None, H1]
    assert one.alive() == ["a"]


def test_new_records_count_from_their_arrival_whatever_the_clock_of_their_sender(start):
    one = start("a")
    for body in bodies(record(at=0), record(Kind.BEAT, counter=1, at=1e10)):
        one.stream.receive(body)
    assert one.pending.node_of("i1") == H1
    assert one.alive() == ["a", "other"]


def test_a_start_waits_for_a_stream_that_is_away_for_a_bounded_time(broker, caplog):
    broker.away = True
    scheduler = Scheduler(broker, "a")
    scheduler.stream.start()
    assert not scheduler.stream.wait_until_caught_up(0.05)
    scheduler.stream.stop()
    assert "Reading the decision stream timed out" in caplog.text
    assert caplog.text.count(decision_stream.UNAVAILABLE) == 1
    assert not scheduler.stream.status().in_step


def test_a_start_does_not_wait_for_a_broker_that_refuses(broker, monkeypatch):
    monkeypatch.setattr("scheduler.stream.loops.RETRY_INTERVAL", 0.01)
    broker.away = broker.refuses = True
    scheduler = Scheduler(broker, "a")
    scheduler.stream.start()
    assert not scheduler.stream.wait_until_caught_up(10_000)
    broker.away = False
    assert eventually(lambda: scheduler.stream.status().in_step)
    assert scheduler.stream.wait_until_caught_up(0)
    scheduler.stream.stop()


def test_an_outage_is_said_once_and_so_is_its_end(broker, start, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("scheduler.stream.loops.RETRY_INTERVAL", 0.01)
    one, another = start("a"), start("b")
    broker.away = True
    assert eventually(lambda: caplog.text.count(decision_stream.UNAVAILABLE) == 2)  # once by each of them
    one.pending.add("i1", one.table, 0, ONE)
    broker.away = False
    assert eventually(lambda: another.pending.node_of("i1") == H1)
    assert eventually(lambda: caplog.text.count(decision_stream.AVAILABLE) == 2)
    assert caplog.text.count(decision_stream.UNAVAILABLE) == 2


def test_the_end_of_an_outage_of_the_writer_alone_is_said(broker, start, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("scheduler.stream.loops.RETRY_INTERVAL", 0.01)
    one = start("a")
    broker.unconfirmed = 1
    one.pending.add("i1", one.table, 0, ONE)
    assert eventually(lambda: decision_stream.AVAILABLE in caplog.text)
    assert caplog.text.count(decision_stream.UNAVAILABLE) == 1


def test_a_record_that_was_written_twice_is_applied_once(idle):
    entry = {"resources": {"VCPU": 1}}
    for body in bodies(record(Kind.CLAIMED, **entry)) * 2:
        idle.stream.receive(body)
    assert len(idle.mirror.seen) == 1


def test_missing_records_are_counted_and_said_once(idle, caplog):
    for counter in (5, 6, 9, 20):
        idle.stream.receive(*bodies(record(counter=counter)))
    assert idle.stream.status().lost == 2 + 10
    assert caplog.text.count("are missing in the decision stream: 2") == 1
    assert caplog.text.count("are missing") == 1


def test_a_counter_that_leaps_is_not_believed(idle):
    for counter, instance in ((1, "i1"), (1 << 40, "i2"), (2, "i3")):
        idle.stream.receive(*bodies(record(counter=counter, instance=instance)))
    assert [idle.pending.node_of(one) for one in ("i1", "i2", "i3")] == [H1, None, H1]
    assert idle.stream.status().lost == 0


def test_a_sender_whose_counter_begins_anew_is_believed(idle):
    for counter, instance in ((900_000, "i1"), (0, "i2"), (1, "i3")):
        idle.stream.receive(*bodies(record(counter=counter, instance=instance)))
    assert len(idle.pending) == 3


def test_others_cannot_speak_for_this_scheduler(idle):
    forged = [record(sender="own", counter=1 << 40), record(Kind.BYE, sender="own", counter=1)]
    for body in bodies(*forged):
        idle.stream.receive(body)
    assert len(idle.pending) == 0
    assert idle.alive() == ["own"]
    assert not idle.stream.status().in_step


@pytest.mark.parametrize(
    "hostile",
    [b"\x00" * 100, b"[{}]", b"[" * 50_000, b'"%s"' % (b"x" * 70_000), b"[null, 7]" * 3],
    ids=["bytes", "empty record", "nested", "too large", "no json"],
)
def test_hostile_messages_cost_one_log_line(idle, hostile, caplog):
    for _ in range(50):
        idle.stream.receive(hostile)
    assert len(caplog.records) == 1
    assert len(caplog.text) < 500
    assert idle.stream.status().unreadable >= 50


def test_a_transport_other_than_rabbitmq_has_no_stream(caplog):
    caplog.set_level(logging.INFO)
    stream = make_stream(make_conf(_transport_url="fake://"), None)
    assert isinstance(stream, NoStream)
    assert caplog.text.count("the transport is not RabbitMQ") == 1


def test_without_a_stream_a_scheduler_is_alone():
    stream = NoStream()
    stream.start()
    assert stream.wait_until_caught_up(math.inf)
    stream.sharing.gone("i1")
    assert not stream.status().wanted
    stream.stop()


def test_a_stream_that_was_read_is_in_step(idle, start):
    for scheduler, expected in [(idle, False), (start("a"), True)]:
        assert scheduler.stream.status().in_step is expected
