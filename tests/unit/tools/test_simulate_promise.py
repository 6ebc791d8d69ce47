"""The checks of the promise, and the model of the broker that they look at."""

from oslo_messaging import MessageDeliveryFailure, MessageUndeliverable
import pytest

from scheduler.rpc.amqp import message as amqp_message
from scheduler.rpc.amqp.message import DELIVERED_BEFORE, ReplyQueueMissing
from scheduler.rpc.amqp.publisher import ReplyTimeout, ReplyTooLarge
from scheduler.rpc.delivery import Forwarded
from tools.simulation import threads
from tools.simulation.broker import Broker, Listener, Message
from tools.simulation.callers import Call, Instance
from tools.simulation.placement import Consumer, Placement, Provider
from tools.simulation.promise import check_allocations, check_calls, check_waits
from tools.simulation.runtime import Runtime

AMOUNTS = {"VCPU": 1}
HOSTS = [f"a0000000-0000-4000-8000-{number:012d}" for number in range(3)]
A, B, SOURCE = HOSTS
OLD = {SOURCE: {"VCPU": 5}}


def rows(*hosts):
    return {host: dict(AMOUNTS) for host in hosts}


def kinds(held, *, shown=True, **instance):
    """The kinds of violations of one instance that holds these rows."""
    placement = Placement([Provider(host, {"VCPU": 9}) for host in HOSTS])
    if held:
        placement.rows["i"] = held
        if shown:
            placement.consumers["i"] = Consumer(1, "p", "u", 0)
    return [found.kind for found in check_allocations(placement, [Instance(1, "i", **instance)], AMOUNTS)]


@pytest.mark.parametrize(
    ("held", "instance"),
    [
        pytest.param({}, {}, id="nobody was told, nothing is held"),
        pytest.param(rows(A), {"host": A}, id="what the caller was told"),
        pytest.param({**rows(A), **OLD}, {"host": A, "source": OLD}, id="an evacuation"),
        pytest.param(OLD, {"source": OLD}, id="an evacuation that failed"),
        pytest.param({}, {"source": OLD, "deleted": True}, id="an evacuation, then deleted"),
        pytest.param({}, {"late": {A}}, id="a late answer, nothing is held"),
        pytest.param(rows(A), {"late": {A, B}}, id="a late answer, held"),
        pytest.param(rows(B), {"late": {A, B}, "deleted": True}, id="a late answer for a deleted instance"),
    ],
)
def test_the_promise_holds(held, instance):
    assert kinds(held, **instance) == []


@pytest.mark.parametrize(
    ("held", "instance", "kind"),
    [
        (rows(A), {}, "leak"),
        (rows(A), {"deleted": True}, "leak"),
        ({}, {"host": A}, "lost"),
        (rows(B), {"host": A}, "moved"),
        (rows(A, B), {"host": A}, "doubled"),
        (rows(A, B), {"late": {A, B}}, "leak"),
        (rows(B), {"host": A, "late": {B}}, "moved"),
        ({A: {"VCPU": 2}}, {"host": A}, "doubled"),
        (OLD, {"host": A, "source": OLD}, "lost"),
        (rows(A), {"host": A, "source": OLD}, "source lost"),
        ({}, {"source": OLD}, "source lost"),
        ({**rows(A), **OLD}, {"source": OLD}, "leak"),
        (OLD, {"source": OLD, "deleted": True}, "source restored"),
    ],
)
def test_a_violation_has_its_kind(held, instance, kind):
    assert kinds(held, **instance) == [kind]


def test_rows_that_placement_does_not_show_are_found():
    assert kinds(rows(A), shown=False, host=A) == ["hidden"]


def message(number=1, **fields):
    return Message(number, {}, {}, "replies", 60, **fields)


def processes():
    with Runtime(1) as runtime:
        alive, dead = runtime.process("alive"), runtime.process("dead")
        runtime.kill(dead)
    return alive, dead


def test_calls_without_a_reply_are_found():
    alive, dead = processes()
    working, killed, answered, queued = (
        message(1, working={alive}),
        message(2, working={dead}),
        message(3, replies=[1.0]),
        message(4),
    )
    calls = [Call(each) for each in (working, killed, answered, queued)]
    assert [found.kind for found in check_calls(calls, [queued])] == ["stuck", "unanswered"]


def test_calls_whose_conductor_is_gone_need_no_reply():
    assert not list(check_calls([Call(message(), orphaned=True)], []))


def test_calls_whose_caller_has_given_up_need_no_reply():
    calls = [Call(message(abandoned=[70.0]), ended=ended) for ended in (60.0, 80.0)]
    assert [found.kind for found in check_calls(calls, [])] == ["unanswered"]


def test_waits_beyond_the_caller_s_are_found():
    calls = [Call(message(waits=[1.0, 500.0])), Call(message(waits=[100.0])), Call(message())]
    assert [found.kind for found in check_waits(calls, 60.0, 0.0)] == ["slow"]
    assert not list(check_waits(calls, 60.0, 400.0))


# -- the broker ----------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def virtual_time(monkeypatch):
    monkeypatch.setattr(amqp_message, "time", threads.MODULES["time"])


class Worker:
    """A process that receives messages and acts on each, as the product's server does."""

    def __init__(self, runtime, broker, act):
        self.process = runtime.process("worker")
        self.got = []
        self.broker = broker
        self.act = act
        self.outcomes = []
        runtime.spawn(self.process, "poll", self.run)

    def run(self):
        listener = Listener(self.broker)
        while True:
            (incoming,) = listener.poll()
            self.got.append((incoming.msg_id, incoming.redelivered))
            incoming.acknowledge()
            try:
                self.act(incoming)
            except Forwarded:
                continue
            self.outcomes.append((type(incoming.undelivered), incoming.caller_waits))
            incoming.settle()


def play(act, *, events=(), workers=1, until=200.0):
    """Publish one call at 1 s; the workers, the replies that arrived, and the message."""
    arrived = []
    with Runtime(1) as runtime:
        broker = Broker(runtime, 1, lambda _text: None)
        broker.queues["replies"] = lambda reply: arrived.append((reply.result, reply.failure))
        serving = [Worker(runtime, broker, act) for _ in range(workers)]
        conductor = runtime.process("conductor")

        def publish():
            runtime.sleep(1.0)
            broker.publish({}, {}, "replies", 60)

        runtime.spawn(conductor, "call", publish)
        for at, event in events:
            runtime.after(at, event, runtime, broker, serving)
        runtime.run(until)
        return serving, arrived, broker.messages[0]


def received(workers):
    return sorted(each.got for each in workers)


def working(seconds, reply=(1,)):
    def act(incoming):
        Runtime.active.sleep(seconds)
        incoming.reply(list(reply))

    return act


def kill_first(runtime, _broker, workers):
    killed = next(each for each in workers if each.got)
    runtime.kill(killed.process)


def setting(name, value):
    return lambda _runtime, broker, _workers: setattr(broker, name, value)


def test_a_call_is_received_once_and_answered():
    workers, arrived, sent = play(working(1.0), workers=2)
    assert received(workers) == [[], [("1", False)]]
    assert arrived == [([1], None)]
    assert sent.acknowledged
    assert sent.waits == [1.0]


def test_a_call_of_a_killed_worker_comes_once_more():
    workers, arrived, sent = play(working(5.0), workers=2, events=[(3.0, kill_first)])
    assert received(workers) == [[("1", False)], [("1", True)]]
    assert arrived == [([1], None)]
    assert sent.acknowledged


REPEATED = [(0.0, setting("redelivery", 1.0)), (1.5, setting("redelivery", 0.0))]


def test_one_worker_does_not_answer_a_repeated_call_again():
    workers, arrived, _ = play(working(0.1), events=REPEATED)
    assert received(workers) == [[("1", False)]]
    assert len(arrived) == 1


def test_another_worker_gets_a_repeated_call():
    seen = [received(play(working(0.1), workers=2, events=REPEATED)[0])]
    assert seen[0] in ([[], [("1", False)]], [[("1", False)], [("1", True)]])


def test_a_reply_waits_for_the_broker():
    outage = [(2.0, lambda _runtime, broker, _workers: broker.stop()),
              (50.0, lambda _runtime, broker, _workers: broker.start())]  # fmt: skip
    workers, arrived, sent = play(working(2.0), events=outage)
    assert ([1], None) in arrived
    assert sent.replies[0] > 50.0
    assert workers[0].outcomes[0] == (type(None), False)


def test_a_reply_to_a_queue_that_is_gone_is_not_tried_again_by_its_thread():
    gone = (1.5, lambda _runtime, broker, _workers: broker.queues.clear())
    workers, arrived, sent = play(working(1.0), events=[gone])
    assert arrived == []
    assert 2.0 <= sent.replies[0] < 3.0
    assert workers[0].outcomes == [(ReplyQueueMissing, False)]


def test_of_a_reply_that_is_too_large_another_may_be_sent():
    workers, arrived, sent = play(working(1.0, "x" * 200), events=[(0.0, setting("largest", 100))])
    assert arrived == sent.replies == []
    assert workers[0].outcomes == [(ReplyTooLarge, True)]


def sending_on(incoming):
    if not incoming.redelivered:
        incoming.send_on("other", {DELIVERED_BEFORE: False}, 3.0)
        raise Forwarded
    incoming.reply([1])


LIFETIMES = (0.0, setting("lifetimes", {"other": 10.0}))


def test_a_call_that_is_sent_on_and_not_taken_moves_back():
    workers, arrived, sent = play(sending_on, events=[LIFETIMES])
    assert received(workers) == [[("1", False), ("1", True)]]
    assert arrived == [([1], None)]
    assert sent.acknowledged
    assert 11.0 < sent.replies[0] < 12.0


def test_a_call_cannot_be_sent_on_to_a_queue_that_is_missing():
    failed = []

    def act(incoming):
        with pytest.raises(MessageUndeliverable) as error:
            incoming.send_on("other", {}, 3.0)
        failed.append(error)
        incoming.reply([2])

    _, arrived, _ = play(act)
    assert (len(failed), arrived) == (1, [([2], None)])


def test_a_call_that_is_lost_on_its_way_is_still_to_be_answered():
    def act(incoming):
        try:
            sending_on(incoming)
        except (MessageUndeliverable, MessageDeliveryFailure, ReplyTimeout):
            incoming.reply([3])

    fault = (0.0, setting("unsent", 1.0))
    _, arrived, sent = play(act, events=[LIFETIMES, fault])
    assert ([3], None) in arrived
    assert sent.acknowledged
