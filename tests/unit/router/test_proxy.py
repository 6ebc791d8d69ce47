import pytest

from scheduler import objects
from scheduler.conf.partitions import Partition
from scheduler.errors import PartitionUnreachable, ReturnedToBroker
from scheduler.router import proxy
from scheduler.router.proxy import MOST_TRIES, WAIT_FOR_SILENT, Router
from scheduler.rpc.client import ErrorReply, NoReply
from tests.support.clock import Clock
from tests.unit.selection.requests import make_spec

PLACED = [["host"]]


def refusal(name="NoValidHost", **kwargs):
    return ErrorReply(name, "nova.exception", f"{name} here", kwargs)


NO_HOST = refusal()
SILENT = NoReply("not heard")


class Caller:
    """Replies for each topic what it is told to, in turn; the last one again and again."""

    def __init__(self, clock, **replies):
        self.clock = clock
        self.replies = {f"topic.{name}": list(each) for name, each in replies.items()}
        self.calls = []
        self.pings = []
        self.answers_pings = False

    def call(self, topic, message, silence, total, heard, *, again=False):
        if message["method"] == "ping":
            self.pings.append(topic)
            if self.answers_pings:
                heard()
                return None
        else:
            self.calls.append((topic.removeprefix("topic."), again))
        waiting = self.replies[topic]
        reply = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if isinstance(reply, Exception):
            self.clock.now += min(silence, total)
            raise reply
        heard()
        return reply


class World:
    def __init__(self, monkeypatch, **replies):
        self.clock = Clock(1000.0)
        self.caller = Caller(self.clock, **replies)
        partitions = [Partition(name, f"topic.{name}", flavors=frozenset({name})) for name in replies]
        self.partitions = partitions
        self.router = Router(partitions, self.caller, lambda: 60.0, self.clock)
        self.waits = []
        self.find = self.router.presence.wait_for_one_of
        monkeypatch.setattr(self.router.presence, "wait_for_one_of", self.wait)

    def wait(self, partitions, timeout):
        """As the product, but without a thread: time passes at once, and a ping follows."""
        found = self.find(partitions, 0.0)
        if found is not None or timeout <= 0:
            return found
        self.waits.append(timeout)
        self.router.presence.look()
        return self.find(partitions, 0.0)

    def ask(self, patience=600.0, again=False, flavor="a"):
        spec = make_spec(flavor=objects.Flavor(name=flavor, flavorid=flavor)).obj_to_primitive()
        message = {"method": "select_destinations", "args": {"spec_obj": spec, "instance_uuids": ["i1"]}}
        return self.router.reply_to(message, patience, again=again)


@pytest.fixture
def make_world(monkeypatch):
    return lambda **replies: World(monkeypatch, **replies)


def test_the_first_partition_replies(make_world):
    world = make_world(a=[PLACED], b=[PLACED])
    assert world.ask() == PLACED
    assert world.ask(flavor="b", again=True) == PLACED
    assert world.caller.calls == [("a", False), ("b", True)]


@pytest.mark.parametrize("name", ["NoValidHost", "CellTimeout", "AllocationUpdateFailed"])
def test_without_a_host_the_next_partition_is_called(make_world, name):
    world = make_world(a=[refusal(name)], b=[PLACED])
    assert world.ask() == PLACED
    assert world.caller.calls == [("a", False), ("b", False)]


@pytest.mark.parametrize(
    "reply", [refusal(final=True), refusal("Invalid"), refusal("PlacementAPIConnectFailure")]
)
def test_what_holds_for_all_partitions_is_replied_at_once(make_world, reply):
    world = make_world(a=[reply], b=[PLACED])
    assert world.ask() == reply
    assert world.caller.calls == [("a", False)]


def test_the_last_partition_refuses(make_world):
    last = refusal(reason="the last")
    world = make_world(a=[NO_HOST], b=[last])
    assert world.ask() == last


def test_a_partition_that_does_not_know_outweighs_one_without_a_host(make_world):
    unsure = refusal("CellTimeout")
    assert make_world(a=[unsure], b=[NO_HOST]).ask() == unsure


def test_a_silent_partition_is_left_out_until_it_answers_a_ping(make_world, caplog):
    world = make_world(a=[SILENT], b=[PLACED])
    assert world.ask() == PLACED
    assert world.caller.calls == [("a", False), ("b", True)], "b may find what a has claimed"
    assert world.ask() == PLACED
    assert world.caller.calls[2:] == [("b", False)]
    assert "Partition a is unavailable; skipping it until it answers" in caplog.text
    world.caller.replies["topic.a"] = [PLACED]
    world.router.presence.look()
    assert world.ask() == PLACED
    assert world.caller.calls[3:] == [("a", False)]


def test_a_frozen_partition_costs_at_most_ten_seconds(make_world):
    world = make_world(a=[SILENT], b=[PLACED])
    world.ask()
    assert world.clock.now - 1000.0 <= 10.0


def test_a_silent_partition_is_called_once_more_if_the_others_have_no_host(make_world):
    world = make_world(a=[SILENT, PLACED], b=[NO_HOST])
    assert world.ask() == PLACED
    assert world.caller.calls == [("a", False), ("b", True), ("a", True)]
    assert world.waits == [WAIT_FOR_SILENT]


def test_if_it_does_not_answer_then_either_it_is_not_known_whether_there_is_a_host(make_world, caplog):
    world = make_world(a=[SILENT], b=[NO_HOST])
    with pytest.raises(PartitionUnreachable) as raised:
        world.ask()
    assert raised.value.nova_name == "CellTimeout"
    assert "No host found, and partitions did not answer: a" in caplog.text
    assert world.caller.calls == [("a", False), ("b", True)]


def test_a_partition_that_answers_pings_alone_is_not_called_for_ever(make_world):
    world = make_world(a=[SILENT], b=[NO_HOST])
    world.caller.answers_pings = True
    with pytest.raises(PartitionUnreachable):
        world.ask()
    assert [name for name, _ in world.caller.calls] == ["a", "b"] + ["a"] * (MOST_TRIES - 1)


def test_while_no_partition_answers_requests_wait_as_for_other_outages(make_world):
    world = make_world(a=[SILENT], b=[SILENT, PLACED, PLACED])
    assert world.ask() == PLACED
    assert world.waits == [60.0]


def test_the_time_of_the_caller_is_one_for_all_partitions(make_world):
    world = make_world(a=[SILENT], b=[SILENT])
    with pytest.raises(PartitionUnreachable):
        world.ask(patience=5.0)
    assert world.clock.now == 1005.0
    assert (world.caller.calls, world.waits) == ([("a", False)], [])


def test_a_broker_that_is_away_is_no_answer_of_a_partition(make_world):
    with pytest.raises(ReturnedToBroker):
        make_world(a=[ReturnedToBroker("no connection")], b=[PLACED]).ask()


def test_each_sign_of_a_partition_is_told(make_world):
    world, told = make_world(a=[PLACED]), []
    world.router.on_sign = lambda: told.append(1)
    world.ask()
    assert told == [1]


def test_any_sign_of_a_partition_ends_its_silence(make_world):
    world = make_world(a=[PLACED], b=[PLACED])
    (a, _) = world.partitions
    world.router.presence.miss(a)
    world.router.presence.look()
    assert world.find([a], 0.0) == a


def test_a_request_that_cannot_be_read_is_for_a_scheduler_to_refuse(make_world):
    world = make_world(a=[PLACED])
    for arguments in ({}, {"spec_obj": 1, "instance_uuids": "x"}):
        assert world.router.reply_to({"method": "x", "args": arguments}, 600.0, again=False) == PLACED


def test_silence_and_waits_keep_within_ten_seconds():
    assert proxy.SILENCE < 10.0 >= proxy.WAIT_FOR_SILENT
