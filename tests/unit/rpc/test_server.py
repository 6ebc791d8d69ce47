import copy
import gc
import logging
import threading
import time
from types import SimpleNamespace
import weakref

import oslo_messaging as messaging
from oslo_messaging._drivers import impl_fake
from oslo_messaging.rpc import server as library_server
import pytest

from scheduler import errors, objects
from scheduler.request.past import Past
from scheduler.rpc import heartbeats, scheduler_endpoint, server, transport
from scheduler.rpc.amqp.message import ConfirmedMessage, ReplyQueueMissing
from scheduler.rpc.context import RequestContext
from scheduler.rpc.errors import RemoteError
from tests.support.clock import Clock
from tests.support.held_claims import Claims
from tests.support.idle_loop import IdleLoop
from tests.support.waiting import eventually
from tests.support.wire_examples import as_json, message, settled, spec

UUIDS = ["7900ba8a-8511-4a08-8212-8b095944aa3f", "2b54e988-4739-4ca3-96e9-82b0ebb53539"]


def selections(name):
    return [[objects.hydrate(item) for item in found] for found in message(name)["result"]]


def test_answer_is_what_nova_s_scheduler_sends(serving, client, context, manager):
    manager.answer = lambda *_: selections("reply_boot_two_instances")
    found = client().call(
        context,
        "select_destinations",
        spec_obj=objects.hydrate(spec("boot_two_instances")),
        instance_uuids=UUIDS,
        return_objects=True,
        return_alternates=True,
    )
    assert [[as_json(one) for one in row] for row in found] == settled(
        message("reply_boot_two_instances")["result"]
    )
    (name, seen_by, asked, uuids, return_objects, return_alternates) = manager.asked[0]
    assert name == "select_destinations"
    assert seen_by.user_id == "alice"
    assert as_json(asked) == settled(spec("boot_two_instances"))
    assert (uuids, return_objects, return_alternates) == (UUIDS, True, True)


@pytest.mark.parametrize(
    ("name", "arguments", "seen"),
    [
        ("fanout_update_aggregates", "aggregates", lambda args: [a.id for a in args[0]] == [1]),
        ("fanout_delete_aggregate", "aggregate", lambda args: args[0].id == 1),
        ("fanout_update_instance_info", "instance_info", lambda args: len(args[1]) == 1),
        ("fanout_delete_instance_info", "instance_uuid", lambda args: args[1].startswith("db5619e2")),
        ("fanout_sync_instance_info", "instance_uuids", lambda args: len(args[1]) == 1),
    ],
)
def test_casts(serving, client, context, manager, name, arguments, seen):
    sent = message(name)
    called = threading.Event()
    manager.answer = lambda *_: called.set()
    client(sent["version"], fanout=True).cast(context, sent["method"], **sent["args"])
    assert called.wait(20)
    method, _, *args = manager.asked[0]
    assert method == sent["method"]
    assert arguments in sent["args"]
    assert seen(args)


@pytest.mark.parametrize("version", ["4.0", "4.3", "4.4", "4.5"])
def test_versions_served(serving, client, context, manager, version):
    manager.answer = [{"host": "h"}]
    asked = objects.hydrate(spec("boot_two_instances"))
    assert client(version).call(context, "select_destinations", spec_obj=asked) == [{"host": "h"}]
    assert manager.asked[0][3:] == (None, False, False)


@pytest.mark.parametrize("version", ["3.0", "4.6", "5.0", "1.0", None])
def test_versions_refused(serving, client, context, version):
    with pytest.raises(messaging.UnsupportedVersion):
        client(version).call(context, "select_destinations")


@pytest.mark.parametrize(
    "method",
    [
        "reset",
        "start",
        "stop",
        "init_host",
        "_manager",
        "__init__",
        "__class__",
        "ping",
        "select_destination",
    ],
)
def test_other_methods_cannot_be_called(serving, client, context, manager, method):
    with pytest.raises(messaging.NoSuchMethod):
        client().call(context, method)
    assert manager.asked == []


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_base_api(serving, client, context, version):
    base = client(version, namespace="baseapi")
    assert base.call(context, "ping", arg={"a": [1]}) == {"service": "scheduler", "arg": {"a": [1]}}
    assert client("1.1", namespace="baseapi", server="sched1").call(context, "get_backdoor_port") is None


def test_base_api_of_a_later_version(serving, client, context):
    with pytest.raises(messaging.UnsupportedVersion):
        client("1.2", namespace="baseapi").call(context, "ping", arg=1)


@pytest.mark.parametrize("enabled", [True, False])
def test_rpc_ping(conf, manager, enabled):
    bus = transport.rpc_transport(conf)
    conf.set_override("rpc_ping_enabled", enabled)
    running = scheduler_endpoint.build(conf, bus, manager)
    target = messaging.Target(topic="scheduler")
    running.start()
    try:
        caller = messaging.get_rpc_client(bus, target, timeout=20)
        if enabled:
            assert caller.call({}, "oslo_rpc_server_ping") == "pong"
        else:
            with pytest.raises(messaging.UnsupportedVersion):
                caller.call({}, "oslo_rpc_server_ping")
    finally:
        running.stop()
        running.wait()


def test_no_valid_host(serving, client, context, manager, caplog):
    manager.answer = errors.NoValidHost("There are not enough hosts available.")
    with pytest.raises(Exception, match="No valid host was found") as caught:
        client().call(context, "select_destinations", spec_obj=objects.hydrate(spec("boot_two_instances")))
    failure = caught.value
    assert (type(failure).__module__, type(failure).__name__) == ("nova.exception", "NoValidHost")
    assert failure.args == ("No valid host was found. There are not enough hosts available.",)
    assert failure.kwargs == {"reason": "There are not enough hosts available.", "code": 500}
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"spec_obj": None},
        {"spec_obj": "x"},
        {"spec_obj": {}},
        {"spec_obj": {"nova_object.name": "RequestSpec"}},
        {"spec_obj": {"nova_object.name": "Unheard"}},
        {"spec_obj": [[[[]]]]},
        {"spec_obj": "x" * 10_000_000},
        {"request_spec": "x"},
        {"unknown": 1},
        {"instance_uuids": "x", "spec_obj": spec("boot_two_instances")},
        {"instance_uuids": ["x" * 10_000_000], "spec_obj": spec("boot_two_instances")},
    ],
)
def test_bad_input_is_answered_and_logged_once(serving, client, context, manager, caplog, arguments):
    with pytest.raises((errors.BerthError, RemoteError, TypeError)) as caught:
        client().call(context, "select_destinations", **arguments)
    assert len(str(caught.value)) < 500
    assert len([record for record in caplog.records if record.levelno > logging.DEBUG]) == 1
    assert manager.asked == []
    # and it goes on serving
    assert client("1.1", namespace="baseapi").call(context, "ping", arg=1)["arg"] == 1


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_an_exception_that_ends_threads_is_answered_and_every_thread_lives(
    conf, caller, context, manager, raised
):
    bus = transport.rpc_transport(conf)
    conf.set_override("executor_thread_pool_size", 2)
    running = scheduler_endpoint.build(conf, bus, manager)
    running.start()
    try:
        manager.answer = raised
        for _ in range(5):
            with pytest.raises(RemoteError, match=type(raised).__name__):
                caller(bus, "4.2").call(context, "sync_instance_info", host_name="h", instance_uuids=[])
        manager.answer = None
        caller(bus, "4.2").call(context, "sync_instance_info", host_name="h", instance_uuids=[])
    finally:
        running.stop()
        running.wait()


def test_a_call_is_answered_after_the_system_has_run_out_of_threads(
    conf, caller, context, manager, monkeypatch
):
    def no_thread(self):
        raise RuntimeError("can't start new thread")

    bus = transport.rpc_transport(conf)
    conf.set_override("executor_thread_pool_size", 2)
    running = scheduler_endpoint.build(conf, bus, manager)
    running.start()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", no_thread)
            for _ in range(3):
                caller(bus, "4.2").call(context, "sync_instance_info", host_name="h", instance_uuids=[])
    finally:
        running.stop()
        running.wait()
    assert len(manager.asked) == 3


def test_a_server_without_threads_does_not_start(conf, manager, monkeypatch):
    def no_thread(self):
        raise RuntimeError("can't start new thread")

    running = scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(RuntimeError):
        running.start()


def test_an_exception_that_ends_threads_is_answered_when_no_endpoint_catches_it(
    serving, client, context, monkeypatch
):
    def fail(self):
        raise SystemExit

    monkeypatch.setattr(RequestContext, "update_store", fail)
    with pytest.raises(RemoteError, match="SystemExit"):
        client("1.1", namespace="baseapi").call(context, "ping", arg=1)


@pytest.mark.parametrize(
    ("method", "version", "error"),
    [("no_such_method", "4.5", messaging.NoSuchMethod), ("ping", "5.0", messaging.UnsupportedVersion)],
)
def test_messages_that_no_endpoint_takes_are_logged_once_and_without_a_traceback(
    conf, caller, context, manager, caplog, method, version, error
):
    bus = transport.rpc_transport(conf)
    running = scheduler_endpoint.build(conf, bus, manager)
    running.start()
    try:
        for _ in range(3):
            with pytest.raises(error):
                caller(bus, version).call(context, method)
    finally:
        running.stop()
        running.wait()
    logged = [record for record in caplog.records if record.levelno > logging.DEBUG]
    assert len(logged) == 1
    assert logged[0].levelno == logging.WARNING
    assert not logged[0].exc_info


@pytest.mark.parametrize(
    ("result", "end"),
    [([{"host": "h"}], "kept"), (ValueError("late"), "released")],
    ids=["reply", "error after the claims"],
)
def test_claims_are_kept_only_if_a_reply_names_them(serving, client, context, manager, result, end):
    claims = Claims()

    def answer(context, *_):
        context.call.hold(claims)
        if isinstance(result, Exception):
            raise result
        return result

    manager.answer = answer
    asked = objects.hydrate(spec("boot_two_instances"))
    if end == "kept":
        assert client().call(context, "select_destinations", spec_obj=asked) == result
    else:
        with pytest.raises(ValueError, match="late"):
            client().call(context, "select_destinations", spec_obj=asked)
    assert eventually(lambda: claims.ends) == [end]


@pytest.mark.parametrize(
    "frame",
    [
        {"method": None},
        {"method": 5},
        {"method": "rabbit://nova:password@controller"},
        {"args": []},
        {"args": None},
        {"args": {"context": {}}},
        {"args": {"self": 1}},
        {"version": ""},
        {"version": "4"},
        {"version": "4.x"},
        {"version": 4.5},
        {"version": "9" * 5000 + ".1"},
        {"namespace": ["x"]},
    ],
    ids=str,
)
def test_a_message_that_the_library_cannot_read_is_refused_without_a_traceback(conf, manager, caplog, frame):
    running = scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager)
    message = {"method": "ping", "args": {"arg": 1}, "version": "1.1", "namespace": "baseapi"}
    incoming = SimpleNamespace(message=message | frame, ctxt={})
    with pytest.raises(messaging.ExpectedException) as refused:
        running.dispatcher.dispatch(incoming)
    assert refused.value.exc_info[0] is errors.InvalidRequest
    (logged,) = (record for record in caplog.records if record.levelno > logging.DEBUG)
    assert "rejected" in logged.getMessage()
    assert not logged.exc_info


def test_bad_cast_is_logged_and_dropped(serving, client, context, manager, caplog):
    client("4.1", fanout=True).cast(context, "delete_aggregate", aggregate={"nova_object.name": "x"})
    called = threading.Event()
    manager.answer = lambda *_: called.set()
    client("4.2", fanout=True).cast(context, "sync_instance_info", host_name="h", instance_uuids=[])
    assert called.wait(20)
    assert [asked[0] for asked in manager.asked] == ["sync_instance_info"]


class TestHeartbeats:
    @pytest.fixture(autouse=True)
    def fast(self, monkeypatch):
        """The bus in memory knows no heartbeats: note them, and give each message a timeout."""
        self.beats = beats = []
        self.timeout = 2

        def note(incoming):
            beats.append(incoming)

        plain = impl_fake.FakeIncomingMessage.__init__

        def with_timeout(incoming, *args):
            plain(incoming, *args)
            incoming.client_timeout = self.timeout

        monkeypatch.setattr(impl_fake.FakeIncomingMessage, "heartbeat", note)
        monkeypatch.setattr(impl_fake.FakeIncomingMessage, "__init__", with_timeout)

    def wait_for_beats(self, number):
        """Until that many calls, or beats of one call, were noted; the test's time limit ends it otherwise."""
        while len(self.beats) < number:
            time.sleep(0.01)

    def test_while_a_method_runs(self, serving, client, context, manager):
        def answer(*_):
            self.wait_for_beats(3)

        manager.answer = answer
        client("4.2").call(context, "sync_instance_info", host_name="h", instance_uuids=[])
        self.nothing_is_watched(serving)

    def test_also_for_a_request_that_waits_for_a_thread(self, conf, caller, context, manager):
        bus = transport.rpc_transport(conf)
        conf.set_override("executor_thread_pool_size", 1)
        beating = heartbeats.Heartbeats(lambda: time.monotonic() * 100, 0.01)
        running = scheduler_endpoint.build(conf, bus, manager, heartbeats=beating)
        running.start()
        first, go_on = threading.Event(), threading.Event()

        def answer(*_):
            first.set()
            assert go_on.wait(20)

        manager.answer = answer
        arguments = {"host_name": "h", "instance_uuids": []}
        callers = [
            threading.Thread(
                target=caller(bus, "4.2").call, args=(context, "sync_instance_info"), kwargs=arguments
            )
            for _ in range(2)
        ]
        for calling in callers:
            calling.start()
        assert first.wait(20)
        while len({id(beat) for beat in self.beats}) < 2:
            time.sleep(0.01)
        go_on.set()
        for calling in callers:
            calling.join(20)
        running.stop()
        running.wait()
        self.nothing_is_watched(running)

    def test_end_when_there_is_no_such_method(self, serving, client, context):
        with pytest.raises(messaging.NoSuchMethod):
            client().call(context, "no_such_method")
        self.nothing_is_watched(serving)

    def test_end_when_the_method_fails(self, serving, client, context, manager):
        manager.answer = ValueError("x")
        with pytest.raises(ValueError, match="x"):
            client("4.2").call(context, "sync_instance_info", host_name="h", instance_uuids=[])
        self.nothing_is_watched(serving)

    def test_none_if_not_asked_for(self, serving, client, context, manager):
        self.timeout = None
        manager.answer = lambda *_: time.sleep(0.1)
        client("4.2").call(context, "sync_instance_info", host_name="h", instance_uuids=[])
        assert self.beats == []

    @staticmethod
    def nothing_is_watched(running):
        assert not running.heartbeats._calls


class Redelivered(ConfirmedMessage):
    """A call that the broker has delivered before: notes what becomes of it."""

    past = Past.REDELIVERED
    is_lost = False
    may_be_requeued = True
    listener = SimpleNamespace(
        stopping=False,
        priority=0,
        deliveries=SimpleNamespace(can_requeue=lambda message: message.may_be_requeued),
    )
    unique_id = msg_id = orig_msg_id = "m1"
    reply_q = "reply_1"
    client_timeout = None
    headers = {"berth-tried": ["a"]}
    runs, is_redelivery = 0, False
    can_be_published = True

    def __init__(self, frame):
        self.message, self.ctxt, self.ends = frame, {}, []

    def has_reply_queue(self):
        return True

    def publish_again(self):
        self.ends += ["published again"] * self.can_be_published
        return self.can_be_published

    def acknowledge(self):
        """Do nothing: late acknowledgement."""

    def requeue(self):
        self.ends.append("requeued")

    def reply(self, reply=None, failure=None):
        self.ends.append(failure[0].__name__ if failure else "hosts")

    def settle(self):
        self.ends.append("acknowledged")


@pytest.mark.parametrize(
    ("past", "due"),
    [(Past.REDELIVERED, 0.0), (Past.NONE, 30.0), (Past.QUEUED, 30.0)],
    ids=["delivered again", "new", "was in the queue"],
)
def test_a_caller_hears_early_from_a_scheduler_that_gets_its_call_late(conf, manager, monkeypatch, past, due):
    clock, beats = Clock(100.0), []
    watching = heartbeats.Heartbeats(clock, make_loop=IdleLoop)
    running = scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager, heartbeats=watching)
    monkeypatch.setattr(library_server.RPCServer, "_on_incoming", lambda *_: None)
    message = Redelivered({})
    message.past, message.client_timeout = past, 60
    message.heartbeat = lambda: beats.append(clock.now - 100.0)
    running._on_incoming([message])
    for now in (0.0, 29.9, 30.0):
        clock.now = 100.0 + now
        watching.send_due()
    assert beats[0] == due


def serve(running, message):
    """Serve a call, as a thread of the pool does."""
    running._process_incoming([message])


def frame_of_a_call():
    arguments = {"spec_obj": spec("boot_two_instances")}
    return {"method": "select_destinations", "args": arguments, "version": "4.5"}


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
    conf, manager, caplog, runs, is_redelivery, can_be_published, ends
):
    running = scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager)
    message = Redelivered(frame_of_a_call())
    message.runs, message.is_redelivery, message.can_be_published = runs, is_redelivery, can_be_published
    serve(running, message)
    assert message.ends == ends
    assert caplog.text.count("with an error instead of serving it again") == (ends[0] == "InternalError")


@pytest.mark.parametrize("past", Past)
def test_a_request_knows_whether_its_call_has_a_past(conf, manager, past):
    told = []
    manager.answer = lambda context, *_: told.append(context.call.past)
    running = scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager)
    message = Redelivered(frame_of_a_call())
    message.past = past
    serve(running, message)
    assert told == [past]


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_call_that_the_broker_has_again_ends_without_a_reply_and_keeps_what_it_claimed(conf, manager, when):
    claims = Claims()
    message = Redelivered(frame_of_a_call())

    def answer(context, *_):
        context.call.hold(claims)
        message.is_lost = True

    manager.answer = answer
    message.is_lost = when == "before"
    serve(scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager), message)
    assert message.ends == ["requeued"]
    assert claims.ends == []


def test_calls_whose_callers_have_left_are_dropped_with_one_error_each_and_one_line(conf, manager, caplog):
    def answer(context, *_):
        context.call.dropped = "their instances were given up"
        raise errors.CallerLeft("their instances were given up")

    manager.answer = answer
    running = scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager)
    dropped = []
    running.count = dropped.append
    for _ in range(20):
        message = Redelivered(frame_of_a_call())
        serve(running, message)
        assert message.ends == ["NoValidHost", "acknowledged"]
    running._dropped.log()
    assert dropped == ["dropped"] * 20
    assert caplog.text.count("Dropped calls without serving them: 20 (their instances were given up)") == 1


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
def test_a_refused_message_is_freed_at_once(conf, manager, frame):
    """The collector is set to run seldom, and large messages have few objects."""
    running = scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager)
    manager.answer = lambda *_: {}["of a rule"]
    frame = {"method": "select_destinations", "version": "4.5"} | copy.deepcopy(frame)
    message = Redelivered(frame)
    (argument,) = map(weakref.ref, frame["args"].values())
    gc.disable()
    logging.disable()  # what tests capture of the log holds errors
    try:
        serve(running, message)
        assert len(message.ends) == 2
        del message, frame
        assert argument() is None
    finally:
        logging.disable(logging.NOTSET)
        gc.enable()


def test_a_call_that_the_stop_interrupts_is_requeued_at_once_and_its_claims_are_released(conf, manager):
    claims = Claims()

    def answer(context, *_):
        context.call.hold(claims)
        raise errors.ReturnedToBroker("the scheduler is stopping")

    manager.answer = answer
    running = scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager)
    message = Redelivered(frame_of_a_call())
    serve(running, message)
    assert (message.ends, claims.ends) == (["requeued"], ["released"])


def test_messages_that_come_to_nothing_are_counted(conf, manager):
    counted = []
    running = scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager)
    running.count = counted.append
    message = Redelivered({"method": "no such method", "args": {}, "version": "4.5"})
    message.undelivered = ValueError("the broker does not take it")
    serve(running, message)
    assert counted == ["refused", "undelivered"]
    assert running.activity.in_flight == 0


@pytest.mark.parametrize("failed", [False, True], ids=["hosts", "an error"])
def test_what_an_unconfirmed_reply_names_is_kept_and_its_message_answered_again(
    conf, manager, caplog, failed
):
    """Its caller may have it: claims that it names must not be released."""
    claims = Claims()

    def answer(context, *_):
        context.call.hold(claims)
        if failed:
            raise ValueError("no")
        return []

    manager.answer = answer
    running = scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager)
    message = Redelivered(frame_of_a_call())
    message.undelivered = OSError("not confirmed")
    serve(running, message)
    assert message.ends[1:] == ["requeued"]
    assert claims.ends == (["released"] if failed else [])
    assert "was not confirmed" in caplog.text


def test_the_claims_of_an_unconfirmed_reply_to_a_call_that_was_acknowledged_are_looked_at_later(
    conf, manager, caplog
):
    """Its caller may have the reply, and no other run of the call follows."""
    claims = Claims()
    manager.answer = lambda context, *_: context.call.hold(claims)
    running = scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager)
    message = Redelivered(frame_of_a_call())
    message.undelivered, message.may_be_requeued = OSError("not confirmed"), False
    serve(running, message)
    assert (message.ends, claims.ends) == (["hosts", "acknowledged"], ["left in doubt"])
    assert "not confirmed; keeping its claims" in caplog.text


def test_a_call_that_was_acknowledged_as_overdue_is_answered_with_an_error_by_the_stop(conf, manager):
    """The broker does not deliver it again: its caller would time out."""

    def answer(*_):
        raise errors.ReturnedToBroker("the scheduler is stopping")

    manager.answer = answer
    running = scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager)
    for stopping in (False, True):
        message = Redelivered(frame_of_a_call())
        message.may_be_requeued = False
        message.listener = SimpleNamespace(**{**vars(message.listener), "stopping": stopping})
        serve(running, message)
        assert message.ends[1:] == ["acknowledged"]
        assert message.ends[0] not in {"hosts", "NoValidHost"}


@pytest.mark.parametrize("state", [{"stopping": True}, {"priority": -1}], ids=["stop", "lower priority"])
def test_a_call_that_another_scheduler_can_run_is_returned_before_it_is_run(conf, manager, state):
    manager.answer = lambda *_: pytest.fail("it was run")
    message = Redelivered(frame_of_a_call())
    message.listener = SimpleNamespace(**{**vars(message.listener), **state})
    serve(scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager), message)
    assert message.ends == ["requeued"]


class OfMissingCaller(Redelivered):
    """A call whose reply queue is missing."""

    past = Past.NONE

    def __init__(self):
        arguments = {"spec_obj": spec("boot_two_instances")}
        super().__init__({"method": "select_destinations", "args": arguments, "version": "4.5"})
        self.received = time.monotonic()
        driver = SimpleNamespace(missing_destination_retry_timeout=60)
        self.listener = SimpleNamespace(**vars(self.listener), driver=driver)

    def has_reply_queue(self):
        return False

    def reply(self, reply=None, failure=None):
        super().reply(reply, failure)
        self.undelivered = ReplyQueueMissing("gone")


@pytest.fixture
def without_callers(conf, manager):
    """A server, and what is claimed for each call; reply queues are looked at when a test says so."""
    claims = []

    def answer(context, *_):
        claims.append(Claims())
        context.call.hold(claims[-1])

    manager.answer = answer
    running = scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager)
    return running, claims


def test_a_call_whose_reply_queue_is_missing_keeps_neither_claims_nor_a_thread(without_callers):
    running, claims = without_callers
    message = OfMissingCaller()
    serve(running, message)
    assert (message.ends, claims[0].ends) == (["hosts"], ["released"])
    assert running.activity.in_flight == 0


@pytest.mark.parametrize("waited", [0.0, 5.0], ids=["known before", "had to wait"])
def test_no_hosts_are_claimed_for_a_call_whose_reply_queue_is_found_missing(without_callers, waited):
    running, claims = without_callers
    if not waited:
        serve(running, OfMissingCaller())
        claims.clear()
    message = OfMissingCaller()
    message.received -= waited
    serve(running, message)
    assert (message.ends, claims) == ([], [])


def test_a_redelivered_call_is_run_without_its_caller_and_gives_back_what_an_earlier_run_left(
    without_callers,
):
    running, claims = without_callers
    message = OfMissingCaller()
    message.past = Past.REDELIVERED
    serve(running, message)
    assert (message.ends, claims[0].ends) == (["hosts"], ["released"])


def test_a_call_is_returned_to_the_broker_once_its_reply_queue_is_there_again(without_callers):
    running, _ = without_callers
    message = OfMissingCaller()
    serve(running, message)
    message.has_reply_queue = lambda: True
    running._reply_queues.look()
    assert message.ends == ["hosts", "requeued"]


def test_calls_that_wait_for_their_reply_queue_do_not_count_as_a_stall(without_callers):
    running, _ = without_callers
    serve(running, OfMissingCaller())
    running._late_listener = SimpleNamespace(deliveries=[None])
    assert running.stalled() == 0.0


def test_a_request_knows_when_its_message_was_received(conf, manager):
    times = []
    manager.answer = lambda context, *_: times.append(context.call.received) or []
    running = scheduler_endpoint.build(conf, transport.rpc_transport(conf), manager)
    frame = {
        "method": "select_destinations",
        "args": {"spec_obj": spec("boot_two_instances")},
        "version": "4.5",
    }
    message = Redelivered(frame)
    message.received = time.monotonic() - 5
    serve(running, message)
    assert times == [message.received]


def test_on_a_bus_that_is_no_amqp_it_is_not_known_whether_it_is_connected(serving):
    assert (serving.connected, serving.unanswered) == (None, 0)
