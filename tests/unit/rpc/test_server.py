"""The whole life of a call, but for its channel: what is replied, and what becomes of message and claims."""

import copy
import gc
import logging
import threading
from types import SimpleNamespace
import weakref

import pytest

from scheduler import errors
from scheduler.request.past import Past
from scheduler.rpc import server
from scheduler.rpc.bus import MessageTooLarge, NobodyReads
from scheduler.rpc.calls import State
from scheduler.rpc.server import Server
from tests.support.calls import Bus, make_call
from tests.support.held_claims import Claims
from tests.support.idle_loop import IdleLoop
from tests.support.waiting import eventually
from tests.support.wire_examples import spec
from tests.unit.rpc.conftest import boot


class Running:
    """A server whose calls are served by the thread of the test, and what came of it."""

    def __init__(self, conf, methods, clock):
        self.bus = Bus()
        self.counted, self.claims = [], []
        self.server = Server(conf, self.bus, methods, clock=clock, make_loop=IdleLoop)
        self.server.count = self.counted.append
        self.server._pool = self
        self.clock = clock

    def submit(self, function, *arguments):
        function(*arguments)

    def serve(self, frame=None, **fields):
        """Receive and serve a call; returns what becomes of it."""
        call = make_call(frame or boot(), self.bus, **{"received": self.clock.now, **fields})
        ends = call.ends
        self.call = call
        self.server.take(call)
        return ends

    def look(self):
        """Do what is due."""
        self.server.open_calls._senders = self
        self.server.open_calls.look()


@pytest.fixture
def running(conf, methods, clock, monkeypatch):
    monkeypatch.setattr(server, "RETRY_INTERVAL", 0.0)
    return Running(conf, methods, clock)


@pytest.fixture
def claiming(running, manager):
    """Let each request claim something, and return what is told, or raise it."""

    def claiming(result=()):
        def answer(context, *_):
            running.claims.append(Claims())
            context.call.hold(running.claims[-1])
            if isinstance(result, BaseException):
                raise result
            return list(result)

        manager.answer = answer
        return running

    return claiming


@pytest.mark.parametrize(
    ("result", "ends", "claims"),
    [
        ([], ["hosts", "acknowledged"], "kept"),
        (ValueError("late"), ["ValueError", "acknowledged"], "released"),
        (errors.ReturnedToBroker("the scheduler is stopping"), ["requeued"], "released"),
        ([b"\xff"], ["InternalError", "acknowledged"], "released"),
    ],
    ids=["reply", "error after the claims", "stop", "no JSON"],
)
def test_claims_are_kept_only_if_a_reply_names_them(claiming, result, ends, claims):
    running = claiming(result)
    assert running.serve() == ends
    assert [each.ends for each in running.claims] == [[claims]]
    assert len(running.server.open_calls) == 0


@pytest.mark.parametrize(
    ("runs", "is_redelivery", "can_be_published", "ends"),
    [
        (0, False, True, ["hosts", "acknowledged"]),
        (1, True, True, ["published again"]),
        (1, True, False, ["hosts", "acknowledged"]),
        (server.MOST_RUNS - 1, False, True, ["hosts", "acknowledged"]),
        (server.MOST_RUNS - 1, True, True, ["published again"]),
        (server.MOST_RUNS, True, True, ["InternalError", "acknowledged"]),
        (server.MOST_RUNS, False, True, ["InternalError", "acknowledged"]),
    ],
)
def test_a_call_that_ends_each_process_that_runs_it_is_answered_with_an_error_after_some_runs(
    claiming, caplog, runs, is_redelivery, can_be_published, ends
):
    state = {"runs": runs, "is_redelivery": is_redelivery, "can_be_published": can_be_published}
    assert claiming().serve(past=Past.REDELIVERED, **state) == ends
    assert caplog.text.count("with an error instead of serving it again") == (ends[0] == "InternalError")


@pytest.mark.parametrize(
    ("identity", "state", "ends"),
    [
        ({}, {}, ["acknowledged"]),
        ({}, {"is_current": False}, ["hosts", "acknowledged"]),
        ({}, {"is_acknowledged": True}, ["hosts", "acknowledged"]),
        ({"_unique_id": "another"}, {}, ["hosts", "acknowledged"]),
    ],
    ids=["held", "the broker has it again", "acknowledged as overdue", "another message"],
)
def test_of_a_message_that_is_in_its_queue_twice_one_delivery_is_served(claiming, identity, state, ends):
    running, frame = claiming(), {**boot(), "_unique_id": "a message"}
    first = make_call({**frame, **identity}, running.bus, **state)
    running.server.open_calls.add(first)
    assert running.serve(frame, past=Past.REDELIVERED) == ends


@pytest.mark.parametrize("past", Past)
def test_a_request_knows_whether_its_call_has_a_past_and_when_it_was_received(running, manager, past):
    told = []
    manager.answer = lambda context, *_: told.append((context.call.past, context.call.received)) or []
    running.serve(past=past, received=95.0)
    assert told == [(past, 95.0)]


@pytest.mark.parametrize("when", ["before", "during", "during an error"])
def test_a_call_that_the_broker_has_again_ends_without_a_reply(running, manager, when):
    claims = Claims()

    def answer(context, *_):
        context.call.hold(claims)
        context.call.is_current = False
        if when == "during an error":
            raise ValueError("late")
        return []

    manager.answer = answer
    assert running.serve(is_current=when != "before") == ["requeued"]
    assert claims.ends == (["released"] if when == "during an error" else [])


def test_calls_whose_callers_have_left_are_counted_and_one_line_of_the_log(running, manager, caplog):
    def answer(context, *_):
        context.call.dropped = "their instances were given up"
        raise errors.CallerLeft("their instances were given up")

    manager.answer = answer
    for _ in range(20):
        assert running.serve() == ["NoValidHost", "acknowledged"]
    assert running.counted == ["dropped"] * 20
    assert caplog.text.count("Dropped a call without serving it: their instances were given up") == 1


def test_messages_that_come_to_nothing_are_counted(running):
    running.bus.errors = [MessageTooLarge("large")]
    running.serve({"method": "no such method", "args": {}})
    assert running.counted == ["refused", "undelivered"]
    assert running.server.open_calls.in_flight == 0


# -- replies


@pytest.mark.parametrize("failed", [False, True], ids=["hosts", "an error"])
@pytest.mark.parametrize("is_acknowledged", [False, True], ids=["requeued", "acknowledged as overdue"])
@pytest.mark.parametrize("then", [None, MessageTooLarge("large"), NobodyReads("gone")], ids=repr)
def test_what_an_unconfirmed_reply_names_is_kept(claiming, caplog, failed, is_acknowledged, then):
    """Its caller may have it, even if the broker refuses the next attempt to send it."""
    running = claiming(ValueError("no") if failed else [])
    running.bus.errors = [OSError("not confirmed"), *filter(None, [then])]
    if then is None:
        running.bus.patience = 0.0
    ends = running.serve(is_acknowledged=is_acknowledged)
    assert ends[-1] == ("acknowledged" if is_acknowledged else "requeued")
    assert len(ends) == 2 + bool(then)
    kept = ["left in doubt"] if is_acknowledged else []
    assert running.claims[0].ends == (["released"] if failed else kept)
    assert "not confirmed; keeping its claims" in caplog.text


def test_a_reply_that_is_confirmed_at_the_second_attempt_is_a_reply(claiming):
    running = claiming()
    running.bus.errors = [OSError("reset")]
    assert running.serve() == ["hosts", "hosts", "acknowledged"]
    assert running.claims[0].ends == ["kept"]


def test_a_reply_that_the_broker_never_takes_becomes_an_error(claiming):
    running = claiming()
    running.bus.errors = [MessageTooLarge("large")]
    assert running.serve() == ["hosts", "InternalError", "acknowledged"]
    assert running.claims[0].ends == ["released"]


def test_a_call_that_was_acknowledged_as_overdue_is_answered_with_an_error_by_the_stop(running, manager):
    """The broker does not deliver it again: its caller would time out."""
    manager.answer = errors.ReturnedToBroker("the scheduler is stopping")
    for stopping in (False, True):
        running.server._stopping = stopping
        first, last = running.serve(is_acknowledged=True)
        assert (first in {"hosts", "NoValidHost"}, last) == (False, "acknowledged")


@pytest.mark.parametrize("state", ["stop", "lower priority"])
def test_a_call_that_another_scheduler_can_run_is_returned_before_it_is_run(running, manager, state):
    manager.answer = lambda *_: pytest.fail("it was run")
    running.server._stopping = state == "stop"
    assert running.serve(outranked=state == "lower priority") == ["requeued"]


# -- callers that read nothing


def test_a_call_whose_reply_nobody_reads_keeps_its_reply_and_no_thread(claiming):
    running = claiming()
    running.bus.unread = {"reply"}
    assert running.serve() == []
    assert running.claims[0].ends == []
    assert (running.server.open_calls.in_flight, len(running.server.open_calls)) == (0, 1)
    assert running.counted == ["undelivered"]


def test_it_gets_the_same_reply_once_its_queue_is_read(claiming, manager):
    running = claiming()
    running.bus.unread = {"reply"}
    ends = running.serve()
    running.look()
    assert ends == []
    running.bus.unread.clear()
    running.look()
    assert ends == ["hosts", "acknowledged"]
    assert len(manager.asked) == 1, "it is not run again"
    assert running.claims[0].ends == ["kept"]


def test_its_claims_are_released_once_its_caller_is_given_up(claiming, caplog):
    running = claiming()
    running.bus.unread = {"reply"}
    ends = running.serve()
    running.clock.now += 59.0
    running.look()
    assert (ends, running.claims[0].ends) == ([], [])
    running.clock.now += 1.0
    running.look()
    assert (ends, running.claims[0].ends) == (["acknowledged"], ["released"])
    assert "Nobody reads reply queue reply; calls dropped: 1" in caplog.text


def test_it_is_left_to_its_next_run_if_the_broker_has_it_again(claiming):
    running = claiming()
    running.bus.unread = {"reply"}
    ends = running.serve()
    running.call.is_current = False
    running.look()
    assert (ends, running.claims[0].ends) == (["requeued"], [])


@pytest.mark.parametrize(
    ("is_acknowledged", "ends", "claims"),
    [(False, ["requeued"], []), (True, ["acknowledged"], ["left in doubt"])],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_reply_that_waits_when_the_process_stops_is_left_to_the_next_run(
    claiming, is_acknowledged, ends, claims, when
):
    running = claiming()
    running.bus.unread = {"reply"}
    if when == "before":
        running.server._stopping = True
        running.server._not_run = lambda _call: None
    done = running.serve(is_acknowledged=is_acknowledged)
    running.server.stop()
    assert (done, running.claims[0].ends) == (ends, claims)
    assert len(running.server.open_calls) == 0


@pytest.mark.parametrize("waited", [0.0, 5.0], ids=["known before", "had to wait"])
def test_no_hosts_are_claimed_for_a_call_whose_reply_queue_is_found_unread(claiming, waited):
    running = claiming()
    running.bus.unread = {"reply"}
    if not waited:
        running.serve()
        running.claims.clear()
    ends = running.serve(received=running.clock.now - waited)
    assert (ends, running.claims) == ([], [])
    running.bus.unread.clear()
    running.look()
    assert ends == ["hosts", "acknowledged"]


def test_a_redelivered_call_is_run_without_its_caller_and_gives_back_what_an_earlier_run_left(claiming):
    running = claiming()
    running.bus.unread = {"reply"}
    running.serve(past=Past.REDELIVERED, received=0.0)
    assert len(running.claims) == 1


# -- threads and memory


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_an_exception_that_ends_threads_is_answered_and_every_thread_lives(conf, manager, methods, raised):
    conf.set_override("executor_thread_pool_size", 2)
    bus = Bus()
    serving = Server(conf, bus, methods, make_loop=IdleLoop)
    manager.answer = raised
    for _ in range(5):
        serving.take(make_call(boot(), bus))
    assert eventually(lambda: len(bus.sent) == 5)
    manager.answer = []
    serving.take(make_call(boot(), bus))
    assert eventually(lambda: len(bus.sent) == 6)
    assert bus.sent[-1]["result"] == []
    serving.wait()


def test_a_call_is_answered_after_the_system_has_run_out_of_threads(conf, manager, methods, monkeypatch):
    def no_thread(self):
        raise RuntimeError("can't start new thread")

    conf.set_override("executor_thread_pool_size", 2)
    manager.answer, bus = [], Bus()
    reading = SimpleNamespace(start=lambda *_: None, stop=list, close=list)
    monkeypatch.setattr(server, "Consumer", lambda *_: reading)
    serving = Server(conf, bus, methods, make_loop=IdleLoop)
    serving.start()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        for _ in range(3):
            serving.take(make_call(boot(), bus))
        assert eventually(lambda: len(bus.sent) == 3)
    serving.stop()
    serving.wait()


def test_a_server_without_threads_does_not_start(conf, methods, monkeypatch):
    def no_thread(self):
        raise RuntimeError("can't start new thread")

    serving = Server(conf, Bus(), methods)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(RuntimeError):
        serving.start()


class Payload(dict):
    """An argument that can be watched until it is freed."""


def hostile(**data):
    return {"nova_object.name": "RequestSpec", "nova_object.namespace": "nova", **data}


REFUSED = {
    "version of an object": {"args": {"spec_obj": Payload(hostile(**{"nova_object.version": "9.9"}))}},
    "no object": {"args": {"spec_obj": Payload(hostile(**{"nova_object.data": 5}))}},
    "another argument": {"args": {"unheard_of": Payload(x=1)}},
    "wrong type": {"args": {"spec_obj": Payload(x=1)}},
    "unknown method": {"method": "unheard_of", "args": {"spec_obj": Payload(x=1)}},
    "unknown version": {"version": "7.0", "args": {"spec_obj": Payload(x=1)}},
    "no frame": {"version": "x", "args": {"spec_obj": Payload(x=1)}},
    "error of a rule": {"args": {"spec_obj": Payload(spec("boot_two_instances"))}},
}


@pytest.mark.parametrize("frame", REFUSED.values(), ids=REFUSED)
def test_a_refused_message_is_freed_at_once(running, manager, frame):
    """The collector is set to run seldom, and large messages have few objects."""
    manager.answer = lambda *_: {}["of a rule"]
    frame = {"method": "select_destinations", "version": "4.5"} | copy.deepcopy(frame)
    (argument,) = map(weakref.ref, frame["args"].values())
    gc.disable()
    logging.disable()  # what tests capture of the log holds errors
    try:
        assert len(running.serve(frame)) == 2
        assert running.call.state is State.OVER
        del frame
        assert argument() is None
    finally:
        logging.disable(logging.NOTSET)
        gc.enable()
