"""Late acknowledgement and confirmed replies on each kind of queue that an installer configures."""

import os
import pathlib
import uuid

from oslo_concurrency import lockutils
import oslo_messaging as messaging
import pytest

from scheduler.bounds.outages import Lacks
from scheduler.errors import ReturnedToBroker
from scheduler.rpc.context import RequestContext
from tests.integration.rpc.conftest import Caller, Manager
from tests.support.waiting import eventually

pytestmark = pytest.mark.rabbitmq

#: A number of calls greater than kolla's prefetch count.
MORE_THAN_PREFETCHED = 60

#: What kolla-ansible sets today.
KOLLA = {
    "use_queue_manager": True,
    "rabbit_quorum_queue": True,
    "rabbit_transient_quorum_queue": True,
    "rabbit_stream_fanout": True,
    "rabbit_qos_prefetch_count": 50,
}

#: Options, and the types of the queues of requests, of fanout messages and of replies.
KINDS = {
    "classic": ({}, ["classic", "classic", "classic"]),
    "quorum": ({"rabbit_quorum_queue": True}, ["quorum", "classic", "classic"]),
    "kolla": (KOLLA, ["quorum", "stream", "quorum"]),
}


#: The tests of deliveries run on classic queues.
REPLICATED = pytest.mark.parametrize("kind", ["quorum", "kolla"])


@pytest.fixture
def conf(conf, kind, tmp_path):
    """Options for one kind of queue; the queue manager has files for locks and for its counter."""
    # the queue manager reads when the leader of its process group began, which may have ended by now
    if not pathlib.Path(f"/proc/{os.getpgrp()}").exists():
        os.setpgrp()
    name = uuid.uuid4().hex
    for option, value in {**KINDS[kind][0], "hostname": name}.items():
        conf.set_override(option, value, "oslo_messaging_rabbit")
    lockutils.CONF.set_override("lock_path", str(tmp_path), "oslo_concurrency")
    yield conf
    lockutils.CONF.clear_override("lock_path", "oslo_concurrency")
    for counter in pathlib.Path("/dev/shm").glob(f"{name}_*_qmanager"):
        counter.unlink()


def types(rabbit, url):
    """The types of the queues of requests, of fanout messages and of replies."""
    queues = rabbit.queue_types(url.rpartition("/")[2])
    fanout = [kind for name, kind in queues.items() if name.startswith("scheduler_fanout")]
    replies = [kind for name, kind in queues.items() if name.startswith("reply_")]
    assert (len(set(fanout)), len(replies)) == (1, 1), queues
    return [queues["scheduler"], fanout[0], replies[0]]


@pytest.mark.parametrize("kind", KINDS)
def test_calls_are_answered_and_acknowledged_and_fanout_messages_reach_each_server(
    serve, bus, rabbit, url, kind
):
    managers = [Manager(), Manager()]
    for manager in managers:
        serve(manager)
    callers = [Caller(bus) for _ in range(MORE_THAN_PREFETCHED)]
    for caller in callers:
        caller.join(30)
    assert [caller.reply for caller in callers] == [[]] * MORE_THAN_PREFETCHED
    target = messaging.Target(topic="scheduler", version="4.5", fanout=True)
    messaging.get_rpc_client(bus, target).cast(RequestContext(), "update_aggregates", aggregates=[])
    assert eventually(lambda: [manager.casts for manager in managers] == [[[]], [[]]])
    assert eventually(lambda: [*managers[0].ends, *managers[1].ends] == [["kept"]] * MORE_THAN_PREFETCHED)
    assert types(rabbit, url) == KINDS[kind][1]
    assert eventually(lambda: rabbit.messages(url.rpartition("/")[2], "scheduler") == 0)


@REPLICATED
def test_a_stopping_server_returns_a_call_that_it_has_not_begun_and_another_answers_it(serve, bus, conf):
    conf.set_override("executor_thread_pool_size", 1)
    first, second = Manager(["first"]), Manager(["second"])
    first.may_answer.clear()
    stopping = serve(first)
    callers = [Caller(bus)]
    assert first.begun.acquire(timeout=30)
    callers.append(Caller(bus))
    assert eventually(lambda: len(stopping.open_calls) == 2)
    stopping.stop()
    serve(second)
    first.may_answer.set()
    for caller in callers:
        caller.join(30)
    assert [caller.reply for caller in callers] == [["first"], ["second"]]
    assert second.redelivered == [True]


class Outages:
    """Lets a test say what lowers the priority of a server."""

    def __init__(self, at_start=Lacks.NOTHING):
        self._at_start = at_start

    def follow(self, lower, threads):
        self.lower = lower
        lower(self._at_start)


@pytest.mark.parametrize("kind", KINDS)
def test_with_a_lower_priority_a_server_returns_what_it_has_not_begun_and_serves_what_nobody_else_takes(
    serve, bus, conf, rabbit, url, kind
):
    conf.set_override("executor_thread_pool_size", 1)
    first, second = Manager(["first"]), Manager(["second"])
    first.may_answer.clear()
    outages = Outages()
    lowered = serve(first, outages=outages)
    callers = [Caller(bus)]
    assert first.begun.acquire(timeout=30)
    callers.append(Caller(bus))
    assert eventually(lambda: len(lowered.open_calls) == 2)
    outages.lower(Lacks.DEPENDENCY)
    assert eventually(lambda: lowered._consumer.priority < 0)
    other = serve(second)
    assert eventually(lambda: rabbit.consumers(url.rpartition("/")[2], "scheduler") == 4)
    callers.append(Caller(bus))
    first.may_answer.set()
    for caller in callers:
        caller.join(30)
    assert sorted(str(caller.reply) for caller in callers) == ["['first']", "['second']", "['second']"]
    target = messaging.Target(topic="scheduler", version="4.5", fanout=True)
    messaging.get_rpc_client(bus, target).cast(RequestContext(), "update_aggregates", aggregates=[])
    assert eventually(lambda: first.casts == [[]])
    # what the other one has begun is not over yet: its callers must hear from somebody all the same
    second.may_answer.clear()
    last = Caller(bus)
    assert eventually(lambda: len(second.claims) == 3)
    other.stop()
    assert Caller.of(bus) == ["first"]
    outages.lower(Lacks.NOTHING)
    assert Caller.of(bus) == ["first"]
    second.may_answer.set()
    last.join(30)
    assert last.reply == ["second"]
    assert eventually(lambda: len(lowered.open_calls) == 0)


@REPLICATED
def test_a_call_that_was_returned_often_is_still_served(serve, bus, kind):
    """As by schedulers that lose Placement in turns: none of them has ended its process."""

    class Returning(Manager):
        def select_destinations(self, *arguments):
            if len(self.redelivered) < 30:
                self.redelivered.append(True)
                raise ReturnedToBroker("Placement is unavailable here")
            return super().select_destinations(*arguments)

    serve(Returning(["hosts"]))
    assert Caller.of(bus) == ["hosts"]


@pytest.mark.parametrize("kind", ["classic", "quorum", "kolla"])
def test_a_call_that_lost_its_connection_is_run_once_more_and_answered_once(serve, bus, rabbit, url):
    manager = Manager()
    manager.may_answer.clear()
    serve(manager)
    caller = Caller(bus)
    assert manager.begun.acquire(timeout=30)
    rabbit.close_connections(url.rpartition("/")[2])
    assert manager.begun.acquire(timeout=30)
    manager.may_answer.set()
    caller.join(30)
    assert caller.reply == []
    assert manager.redelivered == [False, True]
    assert eventually(lambda: manager.ends == [[], ["kept"]])


@pytest.mark.parametrize("kind", ["classic", "kolla"])
def test_requests_go_to_the_server_with_the_highest_priority_also_after_a_lost_connection(
    serve, bus, conf, rabbit, url, kind
):
    ordinary, preferred = Manager(["ordinary"]), Manager(["preferred"])
    serve(ordinary)
    conf.set_override("consumer_priority", 1, "berth")
    stopping = serve(preferred)

    def answered():
        callers = [Caller(bus) for _ in range(10)]
        for caller in callers:
            caller.join(30)
        return [caller.reply for caller in callers]

    everything = [["preferred"]] * 10
    assert eventually(lambda: answered() == everything, 30)
    rabbit.close_connections(url.rpartition("/")[2])
    assert eventually(lambda: answered() == everything, 30)
    stopping.stop()
    stopping.wait()
    assert answered() == [["ordinary"]] * 10


@pytest.mark.parametrize("kind", KINDS)
def test_calls_go_to_the_server_with_the_highest_rank_as_long_as_it_can_begin_them(
    serve, bus, conf, rabbit, url, kind
):
    conf.set_override("executor_thread_pool_size", 8)
    managers, outages = [Manager([number]) for number in range(3)], [Outages() for _ in range(3)]
    servers = [serve(managers[rank], rank=rank, outages=outages[rank]) for rank in range(3)]

    def is_preferred(number):
        for _ in range(10):
            callers = [Caller(bus) for _ in range(2)]
            for caller in callers:
                caller.join(30)
            if [caller.reply for caller in callers] != [[number]] * 2:
                return False
        return True

    assert eventually(lambda: is_preferred(2), 30)
    for each in managers:
        each.may_answer.clear()
    waiting = [Caller(bus) for _ in range(20)]
    assert eventually(lambda: [len(each.open_calls) for each in servers] == [0, 10, 10])
    waiting += [Caller(bus) for _ in range(16)]
    assert eventually(lambda: sum(len(each.open_calls) for each in servers) == 36)
    for each in managers:
        each.may_answer.set()
    for caller in waiting:
        caller.join(30)
    replies = [caller.reply[0] for caller in waiting]
    assert [replies.count(number) >= least for number, least in enumerate((8, 10, 10))] == [True] * 3
    for rank, lacks in [(2, Lacks.DEPENDENCY), (1, Lacks.SOME_HOSTS)]:
        outages[rank].lower(lacks)
    assert eventually(lambda: is_preferred(0), 30)
    rabbit.close_connections(url.rpartition("/")[2])
    # a call that is lost with its connection takes 25 s
    assert eventually(lambda: is_preferred(0), 90)
    outages[0].lower(Lacks.DEPENDENCY)
    assert eventually(lambda: is_preferred(1), 30)


@REPLICATED
def test_a_priority_that_rises_returns_no_call(serve, bus, conf, kind):
    conf.set_override("executor_thread_pool_size", 1)
    outages, manager = Outages(Lacks.DEPENDENCY), Manager()
    manager.may_answer.clear()
    serving = serve(manager, outages=outages)
    callers = [Caller(bus) for _ in range(20)]
    assert eventually(lambda: len(serving.open_calls) == 20)
    outages.lower(Lacks.NOTHING)
    # what a quorum queue is about to deliver to a consumer that is cancelled comes back to the queue
    assert eventually(lambda: serving._consumer.priority == 0)
    callers += [Caller(bus) for _ in range(20)]
    assert eventually(lambda: len(serving.open_calls) == 40)
    manager.may_answer.set()
    for caller in callers:
        caller.join(30)
    assert [caller.reply for caller in callers] == [[]] * 40
    assert manager.redelivered == [False] * 40
