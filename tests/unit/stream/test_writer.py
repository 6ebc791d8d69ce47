import pytest

from scheduler.stream import loops
from scheduler.stream.loops import BEAT_INTERVAL, StreamWriter
from scheduler.stream.records import Entry, Kind, decode
from tests.support.clock import Clock
from tests.support.waiting import eventually
from tests.unit.stream.fake_broker import FakeBroker


class World:
    def __init__(self):
        self.broker, self.failures = FakeBroker(), []
        self.clock, self.monotonic = Clock(5000.0), Clock()
        self.writer = StreamWriter(
            lambda: self.broker.connect("writer"),
            "s1",
            "c1",
            self.failures.append,
            clock=self.clock,
            monotonic=self.monotonic,
        )

    def pass_time(self, seconds):
        self.clock.now += seconds
        self.monotonic.now += seconds

    @property
    def written(self):
        return [record for body in self.broker.bodies for record in decode(body).records]

    def intents(self):
        return [record.counter for record in self.written if record.kind == Kind.INTENT]


@pytest.fixture
def world():
    made = World()
    made.writer.run_round()
    return made


def entry(number=1):
    return Entry(instance=f"i{number}", node="n")


def test_a_record_is_written_with_sender_counter_and_time(world):
    world.clock.now = 6000.0
    counter = world.writer.publish(Kind.INTENT, entry())
    world.writer.run_round()
    (record,) = world.written[1:]
    assert (record.sender, record.counter, record.time) == ("s1", counter, 6000.0)
    assert record.entries == (entry(),)


def test_what_waits_goes_into_one_message(world):
    for number in range(20):
        world.writer.publish(Kind.INTENT, entry(number))
    world.writer.run_round()
    assert len(world.broker.bodies) == 2
    assert world.intents() == list(range(1, 21))


CAN_WAIT = [Kind.CLAIMED, Kind.RELEASED, Kind.GONE]


@pytest.mark.parametrize("kind", CAN_WAIT)
def test_what_becomes_of_a_claim_waits_for_a_moment(world, kind):
    world.writer.publish(kind, entry())
    assert world.writer.run_round() == pytest.approx(loops.LINGER)
    assert len(world.written) == 1
    world.pass_time(loops.LINGER)
    assert world.writer.run_round() == pytest.approx(BEAT_INTERVAL - loops.LINGER)
    assert [record.kind for record in world.written[1:]] == [kind]


def test_what_waits_is_written_with_the_next_intent(world):
    world.writer.publish(Kind.CLAIMED, entry(1))
    world.writer.run_round()
    world.writer.publish(Kind.INTENT, entry(2))
    world.writer.publish(Kind.GONE, entry(3))
    world.writer.run_round()
    assert [record.kind for record in world.written[1:]] == [Kind.CLAIMED, Kind.INTENT, Kind.GONE]
    assert len(world.broker.bodies) == 2


def test_what_waits_does_not_put_off_a_beat(world):
    world.pass_time(BEAT_INTERVAL - 0.01)
    world.writer.publish(Kind.CLAIMED, entry())
    assert world.writer.run_round() == pytest.approx(0.01)


def test_what_could_not_be_written_is_still_due(world):
    world.broker.unconfirmed = 1
    world.writer.publish(Kind.INTENT, entry())
    world.writer.run_round()
    world.pass_time(loops.RETRY_INTERVAL)
    assert world.writer.run_round() > loops.LINGER
    assert world.intents() == [1, 1]


def test_a_beat_is_written_every_interval(world):
    assert world.writer.run_round() == BEAT_INTERVAL
    world.pass_time(BEAT_INTERVAL - 1)
    assert world.writer.run_round() == 1
    world.pass_time(1)
    world.writer.run_round()
    assert [record.kind for record in world.written] == [Kind.BEAT] * 2
    assert (world.written[0].sender, world.written[0].host) == ("s1", "c1")


def test_what_is_not_confirmed_is_written_again_in_order(world):
    world.broker.unconfirmed = 1
    for number in range(3):
        world.writer.publish(Kind.INTENT, entry(number))
    world.writer.run_round()
    world.pass_time(loops.RETRY_INTERVAL)
    world.writer.run_round()
    assert world.intents() == [1, 2, 3, 1, 2, 3]
    assert [str(one) for one in world.failures] == ["broker test: not confirmed"]
    assert world.broker.purposes == ["writer", "writer"]


def test_while_the_broker_is_away_it_is_tried_once_an_interval(world):
    world.broker.away = True
    for _ in range(5):
        world.writer.publish(Kind.INTENT, entry())
        assert 0 < world.writer.run_round() <= loops.RETRY_INTERVAL
    assert len(world.failures) == 1
    world.broker.away = False
    world.pass_time(loops.RETRY_INTERVAL)
    world.writer.run_round()
    assert len(world.intents()) == 5


def test_the_oldest_are_dropped_if_too_many_wait(monkeypatch):
    monkeypatch.setattr(loops, "MOST_WAITING", 10)
    world = World()
    for number in range(25):
        world.writer.publish(Kind.INTENT, entry(number))
    world.writer.run_round()
    assert world.intents() == list(range(16, 25))
    assert world.writer.dropped == 16  # one of them for the beat


def test_what_waited_for_too_long_is_dropped(world):
    world.broker.away = True
    world.writer.publish(Kind.INTENT, entry())
    world.writer.run_round()
    world.broker.away = False
    world.pass_time(loops.STALE_AFTER + 1)
    world.writer.publish(Kind.INTENT, entry())
    world.writer.run_round()
    assert (world.intents(), world.writer.dropped) == ([2], 1)


def test_a_record_that_cannot_be_encoded_holds_up_no_other(world):
    world.writer.publish(Kind.GONE, Entry(instance="\ud800"))
    world.writer.publish(Kind.INTENT, entry())
    world.writer.run_round()
    assert [record.counter for record in world.written] == [0, 2]


def test_a_writer_that_stops_writes_what_waits_and_says_bye():
    world = World()
    world.writer.publish(Kind.INTENT, entry())
    world.writer.start()
    world.writer.stop(10)
    assert {record.kind for record in world.written} == {Kind.INTENT, Kind.BYE, Kind.BEAT}


def test_a_writer_that_stops_while_the_broker_is_away_does_not_wait_for_it():
    world = World()
    world.broker.away = True
    world.writer.start()
    assert eventually(lambda: world.failures)
    world.writer.stop(10_000)
    assert world.written == []


def test_one_that_was_stopped_does_not_start_again():
    """The reader starts the writer at each subscription."""
    world = World()
    world.writer.stop(0)
    world.writer.start()
    assert not world.writer.running
